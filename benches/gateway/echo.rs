//! An MCP server with an echo, as a process of its own: this very program again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

/// The newest revision, which knows no sessions.
pub(crate) const NEWEST: &str = "2026-07-28";
/// The last one with sessions.
pub(crate) const SESSIONS: &str = "2025-11-25";

/// A process that ends with this one, and where it answers.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a part. Its first line says where it answers.
pub(crate) fn start(args: &[&str]) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap()).args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Process { child, url: line.trim().to_owned() }
}

/// Is a part, until somebody ends it.
pub(crate) async fn be_echo() {
    let router = Router::new()
        .route("/mcp", post(echo_one))
        .route("/{tools}/{server}/mcp", post(echo_many))
        .route("/bytes/{count}", post(bytes));
    listen(router).await;
}

/// The same with one tool, for whoever writes lines to it and reads lines.
#[allow(dead_code, reason = "not every benchmark has such a server")]
pub(crate) fn be_lines() {
    for line in std::io::stdin().lines() {
        if let Some(answer) = answer(1, line.unwrap().as_bytes()) {
            println!("{answer}");
        }
    }
}

pub(crate) async fn listen(router: Router) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    axum::serve(listener, router).await.unwrap();
}

/// An answer that is ready, for what it costs to carry one of that length.
async fn bytes(Path(count): Path<usize>) -> Vec<u8> {
    vec![b' '; count]
}

async fn echo_one(body: Bytes) -> Response {
    echo(1, &body)
}

/// As many servers as anybody asks for, each with so many tools.
async fn echo_many(Path((tools, _server)): Path<(usize, usize)>, body: Bytes) -> Response {
    echo(tools, &body)
}

fn echo(tools: usize, body: &[u8]) -> Response {
    match answer(tools, body) {
        Some(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// As little of a server as there can be. It speaks the newest revision and, to those who greet it, one that has sessions,
/// though it keeps none.
fn answer(tools: usize, body: &[u8]) -> Option<String> {
    let request: Value = serde_json::from_slice(body).unwrap();
    if request["id"].is_null() {
        return None;
    }
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": SESSIONS, "capabilities": { "tools": {} },
            "serverInfo": { "name": "echo", "version": "1" },
        }),
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": [NEWEST], "capabilities": { "tools": {} },
            "ttlMs": 0, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "echo", "version": "1" } },
        }),
        "tools/list" => json!({
            "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            "tools": (0..tools).map(tool).collect::<Vec<_>>(),
        }),
        "tools/call" => json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": request["params"]["arguments"]["text"] }],
        }),
        _ => json!({ "resultType": "complete" }),
    };
    Some(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string())
}

fn tool(number: usize) -> Value {
    let name = if number == 0 { "echo".to_owned() } else { format!("echo_{number}") };
    json!({
        "name": name, "description": "Says it again.",
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
    })
}
