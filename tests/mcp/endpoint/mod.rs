//! Kitbag's own MCP endpoint, from outside: who may enter, which tools a client gets, what travels, and who is asked.

mod access;
mod confirming;
mod fidelity;
mod resolving;

use kitbag_testkit::Server;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

const NEWEST: &str = "2026-07-28";
const SESSIONS: &str = "2025-11-25";

/// A client that says exactly what it is told to.
pub(crate) struct Client<'a> {
    server: &'a Server,
    path: String,
    token: String,
    headers: Vec<(String, String)>,
    capabilities: Value,
    session: Option<String>,
}

/// What came back: the status, the headers, and all messages.
pub(crate) struct Heard {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) messages: Vec<Value>,
}

impl Heard {
    /// The result of the one answer.
    pub(crate) fn result(&self) -> &Value {
        let last = self.messages.last().expect("an answer");
        assert!(last.get("result").is_some(), "{} {last}", self.status);
        &last["result"]
    }

    /// The error of the one answer.
    pub(crate) fn error(&self) -> &Value {
        let last = self.messages.last().expect("an answer");
        assert!(last.get("error").is_some(), "{} {last}", self.status);
        &last["error"]
    }

    pub(crate) fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap()
    }

    /// The names of the tools that were listed.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.result()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
    }

    async fn of(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap();
        let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let messages = match is_stream {
            true => text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect(),
            false => serde_json::from_str(&text).ok().into_iter().collect(),
        };
        Self { status, headers, messages }
    }
}

impl<'a> Client<'a> {
    pub(crate) fn new(server: &'a Server, path: &str) -> Self {
        Self {
            server,
            path: path.to_owned(),
            token: server.token.clone(),
            headers: Vec::new(),
            capabilities: json!({}),
            session: None,
        }
    }

    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }
    }

    pub(crate) fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.push((header.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn offering(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    /// A request as it goes out.
    pub(crate) fn post(&self, body: &Value) -> RequestBuilder {
        let mut request = self.server.anonymous(Method::POST, &self.path).bearer_auth(&self.token);
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.json(body)
    }

    /// One request of a client without sessions.
    pub(crate) fn asking(&self, method: &str, params: Value) -> RequestBuilder {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        });
        let mut request = self
            .post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
            .header("mcp-protocol-version", NEWEST)
            .header("mcp-method", method);
        if let Some(name) = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str) {
            request = request.header("mcp-name", name);
        }
        request
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Heard {
        Heard::of(self.asking(method, params).send().await.unwrap()).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Heard {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Begins a session.
    pub(crate) async fn begin(&mut self) -> Heard {
        let params = json!({
            "protocolVersion": SESSIONS, "capabilities": self.capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let heard = Heard::of(self.post(&body).send().await.unwrap()).await;
        if let Some(session) = heard.headers.get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
            let told = self.in_session(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
            assert_eq!(told.send().await.unwrap().status(), 202);
        }
        heard
    }

    /// A message in the session.
    pub(crate) fn in_session(&self, body: &Value) -> RequestBuilder {
        let session = self.session.as_deref().expect("a session");
        self.post(body).header("mcp-session-id", session).header("mcp-protocol-version", SESSIONS)
    }

    pub(crate) async fn request(&self, id: u64, method: &str, params: Value) -> Heard {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        Heard::of(self.in_session(&body).send().await.unwrap()).await
    }

    /// The tools in both eras, which are the same.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let newest = self.ask("tools/list", json!({})).await;
        self.begin().await;
        let session = self.request(1, "tools/list", json!({})).await;
        assert_eq!(newest.names(), session.names());
        newest.names().into_iter().map(ToOwned::to_owned).collect()
    }

    /// What is wrong with the settings, which is told in both eras alike.
    pub(crate) async fn refused(&mut self) -> String {
        let newest = self.ask("tools/list", json!({})).await;
        let session = self.begin().await;
        assert_eq!((newest.status, session.status), (StatusCode::BAD_REQUEST, StatusCode::BAD_REQUEST));
        assert_eq!(newest.error()["message"], session.error()["message"]);
        newest.error()["message"].as_str().unwrap().to_owned()
    }
}

/// A token with these scopes.
pub(crate) async fn token(server: &Server, name: &str, scopes: &[&str]) -> String {
    let made = server.post("/v1/orgs/local/tokens", &json!({ "name": name, "scopes": scopes })).await.expect(201);
    made["secret"].as_str().unwrap().to_owned()
}
