//! A client of our own endpoint that says exactly what it is told to, in either era.

use kitbag_testkit::Server;
use reqwest::Method;
use serde_json::{Value, json};

/// The newest revision, which knows no sessions.
pub(crate) const NEWEST: &str = "2026-07-28";
/// The last one with sessions.
pub(crate) const SESSIONS: &str = "2025-11-25";

/// Somebody who speaks with one of a server's endpoints.
pub(crate) struct Speaker<'s> {
    server: &'s Server,
    path: String,
    revision: &'static str,
    session: Option<String>,
    /// What it is told at first: the answer to `initialize`, or to `server/discover`.
    pub(crate) hello: Value,
}

impl<'s> Speaker<'s> {
    pub(crate) async fn new(server: &'s Server, path: &str, revision: &'static str) -> Self {
        let mut speaker = Self { server, path: path.to_owned(), revision, session: None, hello: Value::Null };
        speaker.hello = match revision {
            NEWEST => speaker.ask("server/discover", json!({})).await,
            _ => {
                let client = json!({ "name": "speaker", "version": "1" });
                let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
                speaker.ask("initialize", params).await
            }
        };
        speaker
    }

    /// One of each era.
    pub(crate) async fn both(server: &'s Server, path: &str) -> [Self; 2] {
        [Self::new(server, path, SESSIONS).await, Self::new(server, path, NEWEST).await]
    }

    pub(crate) fn is_newest(&self) -> bool {
        self.revision == NEWEST
    }

    /// The whole answer to a request.
    pub(crate) async fn say(&mut self, method: &str, mut params: Value) -> Value {
        let mut request = self.server.request(Method::POST, &self.path);
        request = request.header("accept", "application/json, text/event-stream");
        if self.is_newest() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": NEWEST,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            request = request.header("mcp-protocol-version", NEWEST).header("mcp-method", method);
            let name = params.get("name").or(params.get("uri")).and_then(Value::as_str);
            if let Some(name) = name.filter(|_| ["tools/call", "prompts/get", "resources/read"].contains(&method)) {
                request = request.header("mcp-name", name);
            }
        } else if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", self.revision);
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = request.json(&body).send().await.unwrap();
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        let text = response.text().await.unwrap();
        let last =
            text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).rfind(|line| !line.is_empty());
        serde_json::from_str(last.unwrap_or(&text)).unwrap_or_else(|_| panic!("{method} is answered {text:?}"))
    }

    /// The result of a request that goes well.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.say(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code of a request that is refused.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.say(method, params).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }
}
