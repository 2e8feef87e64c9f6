//! A client of the MCP endpoint that says exactly what it is told to, in either era of the protocol, and keeps all that it hears.

use crate::server::Server;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

/// The revision without sessions.
pub const NEWEST: &str = "2026-07-28";
/// The newest revision with sessions.
pub const SESSIONS: &str = "2025-11-25";

/// A client that says exactly what it is told to.
pub struct Client<'a> {
    server: &'a Server,
    path: String,
    token: String,
    headers: Vec<(String, String)>,
    capabilities: Value,
    session: Option<String>,
}

/// What came back: the status, the headers, and all messages.
pub struct Heard {
    /// How it went, as HTTP says it.
    pub status: StatusCode,
    /// What came with it.
    pub headers: HeaderMap,
    /// All that was said.
    pub messages: Vec<Value>,
}

impl Heard {
    /// The result of the one answer.
    pub fn result(&self) -> &Value {
        let last = self.messages.last().expect("an answer");
        assert!(last.get("result").is_some(), "{} {last}", self.status);
        &last["result"]
    }

    /// The error of the one answer.
    pub fn error(&self) -> &Value {
        let last = self.messages.last().expect("an answer");
        assert!(last.get("error").is_some(), "{} {last}", self.status);
        &last["error"]
    }

    /// The text of a call's result.
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap()
    }

    /// The names of the tools that were listed.
    pub fn names(&self) -> Vec<&str> {
        self.result()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
    }

    /// Reads an answer to its end.
    pub async fn of(response: Response) -> Self {
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

/// An answer that is read while it comes.
pub struct Stream {
    response: Response,
    heard: String,
    /// The number of the last message that was read.
    pub last: String,
}

impl Stream {
    /// Reads this.
    pub fn of(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{}", response.status());
        Self { response, heard: String::new(), last: String::new() }
    }

    /// The next message; none when it is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((block, rest)) = self.heard.split_once("\n\n") {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let message = field("data: ").and_then(|data| serde_json::from_str(data).ok());
                if let Some(id) = field("id: ") {
                    self.last = id.to_owned();
                }
                self.heard = rest.to_owned();
                if message.is_some() {
                    return message;
                }
            }
            self.heard.push_str(std::str::from_utf8(&self.response.chunk().await.unwrap()?).unwrap());
        }
    }

    /// The next message with this method; others are passed over.
    pub async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("the stream goes on");
            if message["method"] == method {
                return message;
            }
        }
    }
}

impl<'a> Client<'a> {
    /// One of a path of a server, with all rights.
    pub fn new(server: &'a Server, path: &str) -> Self {
        Self {
            server,
            path: path.to_owned(),
            token: server.token.clone(),
            headers: Vec::new(),
            capabilities: json!({}),
            session: None,
        }
    }

    /// The same with another token.
    pub fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }
    }

    /// The same with one more header.
    pub fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.push((header.to_owned(), value.to_owned()));
        self
    }

    /// The same, able to do these things.
    pub fn offering(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    /// The same, in a session that is there already, its own or another's.
    pub fn taking(self, session: &str) -> Self {
        Self { session: Some(session.to_owned()), ..self }
    }

    /// The same client at another server of the installation, with the session that it has.
    pub fn at<'b>(&self, server: &'b Server) -> Client<'b> {
        Client {
            server,
            path: self.path.clone(),
            token: self.token.clone(),
            headers: self.headers.clone(),
            capabilities: self.capabilities.clone(),
            session: self.session.clone(),
        }
    }

    /// The name of its session.
    #[track_caller]
    pub fn session(&self) -> &str {
        self.session.as_deref().expect("a session")
    }

    /// A request as it goes out.
    pub fn post(&self, body: &Value) -> RequestBuilder {
        let mut request = self.server.anonymous(Method::POST, &self.path).bearer_auth(&self.token);
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.json(body)
    }

    /// One request of a client without sessions.
    pub fn asking(&self, method: &str, params: Value) -> RequestBuilder {
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
        if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|name| params.get(*name)).and_then(Value::as_str)
        {
            request = request.header("mcp-name", name);
        }
        request
    }

    /// What comes of such a request.
    pub async fn ask(&self, method: &str, params: Value) -> Heard {
        Heard::of(self.asking(method, params).send().await.unwrap()).await
    }

    /// What comes of a call of a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Heard {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Begins a session.
    pub async fn begin(&mut self) -> Heard {
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

    /// A call of a tool in the session, as a stream: the client is asked something, and answers it with this.
    pub async fn answering(&self, id: u64, tool: &str, arguments: Value, answer: Value) -> (Value, Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let mut stream = Stream::of(self.in_session(&body).send().await.unwrap());
        let question = stream.next().await.expect("a question");
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
        assert_eq!(self.in_session(&answer).send().await.unwrap().status(), 202);
        loop {
            let message = stream.next().await.expect("an answer");
            if message["id"] == id {
                return (question, message["result"].clone());
            }
        }
    }

    /// A message in the session.
    pub fn in_session(&self, body: &Value) -> RequestBuilder {
        self.post(body).header("mcp-session-id", self.session()).header("mcp-protocol-version", SESSIONS)
    }

    /// Listens to what the session is told by itself, from where another stream broke off if that is said.
    pub async fn listen(&self, last: Option<&str>) -> Stream {
        let mut request = self.server.anonymous(Method::GET, &self.path).bearer_auth(&self.token);
        request = request.header("accept", "text/event-stream");
        request = request.header("mcp-session-id", self.session()).header("mcp-protocol-version", SESSIONS);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Stream::of(request.send().await.unwrap())
    }

    /// What comes of a request in the session.
    pub async fn request(&self, id: u64, method: &str, params: Value) -> Heard {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        Heard::of(self.in_session(&body).send().await.unwrap()).await
    }

    /// The tools in both eras, which are the same.
    pub async fn tools(&mut self) -> Vec<String> {
        let newest = self.ask("tools/list", json!({})).await;
        self.begin().await;
        let session = self.request(1, "tools/list", json!({})).await;
        assert_eq!(newest.names(), session.names());
        newest.names().into_iter().map(ToOwned::to_owned).collect()
    }

    /// What is wrong with the settings, which is told in both eras alike.
    pub async fn refused(&mut self) -> String {
        let newest = self.ask("tools/list", json!({})).await;
        let session = self.begin().await;
        assert_eq!((newest.status, session.status), (StatusCode::BAD_REQUEST, StatusCode::BAD_REQUEST));
        assert_eq!(newest.error()["message"], session.error()["message"]);
        newest.error()["message"].as_str().unwrap().to_owned()
    }
}

/// A token with these scopes.
pub async fn token(server: &Server, name: &str, scopes: &[&str]) -> String {
    let made = server.post("/v1/orgs/local/tokens", &json!({ "name": name, "scopes": scopes })).await.expect(201);
    made["secret"].as_str().unwrap().to_owned()
}
