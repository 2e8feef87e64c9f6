//! What clients ask for while things break, and what was acknowledged to them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::kit::{CHATS, calls};

/// Somebody who asks through the balancer, and asks nothing twice.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) client: reqwest::Client,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) said: Arc<Said>,
    pub(crate) next: Arc<AtomicU64>,
}

/// What was asked for and what was acknowledged, by chat.
#[derive(Default)]
pub(crate) struct Said {
    /// Lines that a tool was to append, and whether that was acknowledged.
    pub(crate) lines: Mutex<Vec<(String, String, bool)>>,
    /// Lines that an MCP server was to note, and whether that was acknowledged.
    pub(crate) notes: Mutex<Vec<(String, String, bool)>>,
    /// Messages, with their texts.
    pub(crate) messages: Mutex<Vec<(String, Value)>>,
    /// Files, with the states and the hashes that were told.
    pub(crate) files: Mutex<Vec<(String, String, Value)>>,
    /// Runs, by task.
    pub(crate) runs: Mutex<Vec<(String, String)>>,
    /// Texts of all messages that were to be written.
    pub(crate) texts: Mutex<Vec<(String, String)>>,
    /// How often what no state needs was forgotten.
    pub(crate) collected: AtomicUsize,
    /// How much was acknowledged, of everything.
    pub(crate) done: AtomicUsize,
    /// What was not acknowledged, and how often.
    pub(crate) refused: Mutex<std::collections::BTreeMap<String, usize>>,
}

const REVISION: &str = "2026-07-28";

impl Client {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    /// The body of an answer that acknowledges something.
    async fn acknowledged(&self, what: &str, request: RequestBuilder) -> Option<Value> {
        let why = match request.send().await {
            Ok(answer) if answer.status().is_success() => match answer.text().await {
                Ok(text) => {
                    // An answer of the MCP endpoint may be an event.
                    let json = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
                    match serde_json::from_str::<Value>(json) {
                        Ok(body) if body["status"] == "error" => format!("{what}: {}", body["error"]["code"]),
                        Ok(body) if body["result"]["isError"] == true => {
                            format!("{what}: {}", body["result"]["content"][0]["text"])
                        }
                        Ok(body) if body["error"].is_object() => format!("{what}: {}", body["error"]["message"]),
                        Ok(body) => {
                            self.said.done.fetch_add(1, Ordering::SeqCst);
                            return Some(body);
                        }
                        Err(_) => format!("{what}: half an answer"),
                    }
                }
                Err(_) => format!("{what}: half an answer"),
            },
            Ok(answer) => format!("{what}: {}", answer.status()),
            Err(_) => format!("{what}: no answer"),
        };
        *self.said.refused.lock().unwrap().entry(why).or_default() += 1;
        // Whoever was refused waits a little, as `Retry-After` asks.
        tokio::time::sleep(Duration::from_millis(200)).await;
        None
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn unique(&self, what: &str) -> String {
        format!("{what}-{}", self.next.fetch_add(1, Ordering::SeqCst))
    }

    /// Has a tool append a line, by HTTP or through the MCP endpoint.
    pub(crate) async fn append(&self, chat: &str, mcp_name: Option<&str>) -> bool {
        let line = self.unique("line");
        let args = json!({ "line": line });
        let request = match mcp_name {
            None => self.request(Method::POST, &calls(chat)).json(&json!({ "toolId": "storm:append", "args": args })),
            Some(name) => {
                self.mcp(chat, "tools/call", json!({ "name": name, "arguments": args })).header("mcp-name", name)
            }
        };
        let is_done = self.acknowledged(if mcp_name.is_some() { "mcp" } else { "call" }, request).await.is_some();
        self.said.lines.lock().unwrap().push((chat.to_owned(), line, is_done));
        is_done
    }

    /// A request of a client without sessions.
    fn mcp(&self, chat: &str, method: &str, mut params: Value) -> RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "storm", "version": "1" },
        });
        self.request(Method::POST, &format!("/mcp?chat={chat}"))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", REVISION)
            .header("mcp-method", method)
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    /// What the tool is called there.
    pub(crate) async fn mcp_name(&self, chat: &str) -> String {
        let list = self.acknowledged("list", self.mcp(chat, "tools/list", json!({}))).await.expect("a list of tools");
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
        let mut names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
        names.find(|name| name.ends_with("append")).unwrap_or_else(|| panic!("{list}")).to_owned()
    }

    pub(crate) async fn append_all(self, chat: String, mcp_name: Option<String>) {
        while !self.is_over() {
            self.append(&chat, mcp_name.as_deref()).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Has an MCP server, whose process is one of the nodes', note lines.
    pub(crate) async fn note_all(self, chat: String) {
        while !self.is_over() {
            let line = self.unique("note");
            let body = json!({ "toolId": "mcp:keeps~keeps:note", "args": { "line": line } });
            let request = self.request(Method::POST, &calls(&chat)).json(&body);
            let is_done = self.acknowledged("note", request).await.is_some();
            self.said.notes.lock().unwrap().push((chat.clone(), line, is_done));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Writes messages and files. Every other file has what another has already, so that bytes which were kept before are relied on.
    pub(crate) async fn write_all(self, chat: String) {
        while !self.is_over() {
            let text = self.unique("message");
            self.said.texts.lock().unwrap().push((chat.clone(), text.clone()));
            let request = self.request(Method::POST, &format!("{CHATS}/{chat}/messages"));
            let body = json!({ "role": "user", "content": text });
            if let Some(message) = self.acknowledged("message", request.json(&body)).await {
                self.said.messages.lock().unwrap().push((chat.clone(), message));
            }
            let name = self.unique("file");
            let request = self.request(Method::PUT, &format!("{CHATS}/{chat}/workspace/files/files/{name}"));
            let is_known = name.ends_with(['0', '2', '4', '6', '8']);
            let bytes = if is_known { "the same".repeat(100) } else { name.repeat(100) };
            if let Some(file) = self.acknowledged("file", request.body(bytes)).await {
                self.said.files.lock().unwrap().push((chat.clone(), format!("files/{name}"), file));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Has forgotten what no state needs, however young it is.
    pub(crate) async fn collect_all(self, chat: String) {
        while !self.is_over() {
            let request = self.request(Method::POST, &format!("{CHATS}/{chat}/workspace/gc"));
            if self.acknowledged("gc", request.json(&json!({ "graceSeconds": 0 }))).await.is_some() {
                self.said.collected.fetch_add(1, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    }

    /// Asks for runs of agents.
    pub(crate) async fn run_all(self) {
        while !self.is_over() {
            let task = self.unique("task");
            let config = json!({ "prompt": task, "engine": { "id": "gateway.codex.v2" }, "maxAttempts": 10 });
            let request = self.request(Method::POST, "/v1/orgs/local/agent-runs").json(&json!({ "config": config }));
            if let Some(run) = self.acknowledged("run", request).await {
                self.said.runs.lock().unwrap().push((task, run["id"].as_str().unwrap().to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
    }
}
