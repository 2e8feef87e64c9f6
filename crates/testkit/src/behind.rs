//! An MCP server over HTTP, of either era of the protocol, that keeps all that it was sent, with the headers, and asks back where it can.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::endpoint::NEWEST;

/// A server that serves until it is dropped. Its tools: `echo` says which arguments it got, after so many `seconds` if that is one of them, `question` asks for a color first, where its era
/// has that, and says then all that it got.
pub struct Behind {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
    answered: Arc<AtomicUsize>,
    _stop: oneshot::Sender<()>,
}

/// A message that came to it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its headers, with names in small letters.
    pub headers: HashMap<String, String>,
    /// What it says.
    pub message: Value,
}

impl Behind {
    /// Serves on a free port, without sessions if it is of the newest era.
    pub async fn start(is_newest: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sent, answered, (stop, mut stopped)) = (Arc::default(), Arc::default(), oneshot::channel());
        let (kept, counted) = (Arc::clone(&sent), Arc::clone(&answered));
        tokio::spawn(async move {
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    _ = &mut stopped => return,
                };
                let (kept, counted) = (Arc::clone(&kept), Arc::clone(&counted));
                // Whoever hangs up may.
                tokio::spawn(async move { converse(BufReader::new(stream), is_newest, &kept, &counted).await });
            }
        });
        Self { address, sent, answered, _stop: stop }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All that it was sent, in order.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// How many messages it has answered.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// The parameters of all calls of its tools, in order.
    pub fn calls(&self) -> Vec<Value> {
        let calls = self.sent().into_iter().filter(|sent| sent.message["method"] == "tools/call");
        calls.map(|sent| sent.message["params"].clone()).collect()
    }
}

async fn converse(
    mut stream: BufReader<TcpStream>,
    is_newest: bool,
    kept: &Mutex<Vec<Sent>>,
    answered: &AtomicUsize,
) -> io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).expect("a head of plain letters");
        let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let headers: HashMap<String, String> =
            lines.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        kept.lock().unwrap().push(Sent { headers, message: message.clone() });
        let (status, body) = match (head.starts_with("POST"), message.get("id")) {
            (true, Some(id)) => {
                if let Some(seconds) = message["params"]["arguments"]["seconds"].as_f64() {
                    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                }
                let mut answer = answer(&message, is_newest);
                answer["jsonrpc"] = json!("2.0");
                answer["id"] = id.clone();
                ("200 OK", answer.to_string())
            }
            (true, None) => ("202 Accepted", String::new()),
            (false, _) => ("405 Method Not Allowed", String::new()),
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).await?;
        stream.flush().await?;
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

fn answer(message: &Value, is_newest: bool) -> Value {
    let params = &message["params"];
    let info = json!({ "name": "behind", "version": "1" });
    let mut result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" if is_newest => json!({
            "supportedVersions": [NEWEST], "capabilities": { "tools": {} }, "serverInfo": info, "ttlMs": 0, "cacheScope": "private",
        }),
        "initialize" if !is_newest => {
            // Its tasks are those of 2025-11-25.
            let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
            json!({
                "protocolVersion": params["protocolVersion"], "capabilities": { "tools": {}, "tasks": tasks },
                "serverInfo": info,
            })
        }
        "ping" => json!({}),
        "tools/list" => {
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("echo"), tool("question")], "ttlMs": 60_000, "cacheScope": "private" })
        }
        "tools/call" if is_newest && params["name"] == "question" && params.get("inputResponses").is_none() => {
            let schema = json!({ "type": "object", "properties": { "color": { "type": "string" } } });
            let question = json!({ "message": "Which color?", "requestedSchema": schema });
            let asked = json!({ "color": { "method": "elicitation/create", "params": question } });
            return json!({
                "result": { "resultType": "input_required", "inputRequests": asked, "requestState": "theirs" },
            });
        }
        "tools/call" => {
            let said = match params["name"].as_str() {
                Some("echo") => params["arguments"].clone(),
                _ => params.clone(),
            };
            json!({ "content": [{ "type": "text", "text": said.to_string() }] })
        }
        other => return json!({ "error": { "code": -32601, "message": format!("unknown method {other}") } }),
    };
    if is_newest {
        result["resultType"] = json!("complete");
    }
    json!({ "result": result })
}
