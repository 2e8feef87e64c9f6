//! Nodes behind a balancer that knows nothing of them but who is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kitbag_testkit::endpoint::NEWEST;
use kitbag_testkit::{Server, TestBucket, TestDatabase};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::balancer::{Balancer, free_port};
use crate::kit::{CHATS, Installation, ask_nobody, calls, new_chat, until};
use crate::servers::{Notes, SERVERS, connected};

/// A call as a client without sessions makes it.
fn mcp_call(command: &str) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let params = json!({ "name": "run_command", "arguments": { "command": command }, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

/// So many kinds of requests are made in turn.
const KINDS: usize = 7;

/// Asks through the balancer, again and again: reads, calls a tool of the chat's by the API and through the MCP endpoint, and one of a server
/// that is a process, and puts files into the workspace, also such that are not kept in memory on their way.
async fn load(url: String, token: String, chat: String, over: Arc<AtomicBool>, done: Arc<AtomicUsize>) -> Vec<String> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut failed = Vec::new();
    let mut turn = 0_usize;
    while !over.load(Ordering::SeqCst) {
        turn += 1;
        let request = match turn % KINDS {
            0 => client
                .post(format!("{url}/mcp?chat={chat}"))
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", NEWEST)
                .header("mcp-method", "tools/call")
                .header("mcp-name", "run_command")
                .json(&mcp_call("echo through MCP")),
            1 => client.get(format!("{url}{CHATS}/{chat}/messages")),
            2 => client.post(format!("{url}{}", calls(&chat))).json(
                &json!({ "toolId": "run_command", "args": { "command": "echo $((1 + $(cat n 2>/dev/null || echo 0)))" } }),
            ),
            3 => client.post(format!("{url}{}", calls(&chat))).json(&json!({ "toolId": "mcp:keeps~keeps:get", "args": {} })),
            4 => client.put(format!("{url}{CHATS}/{chat}/workspace/files/small.txt")).body(turn.to_string()),
            5 => client.put(format!("{url}{CHATS}/{chat}/workspace/files/large.txt")).body(vec![turn as u8; 3 << 20]),
            _ => client.get(format!("{url}/v1/orgs/local/tools")),
        };
        match request.bearer_auth(&token).send().await {
            Ok(answer) => {
                let status = answer.status();
                let body = answer.text().await.unwrap_or_default();
                let is_good = match turn % KINDS {
                    0 => body.contains("through MCP") && !body.contains("\"isError\":true"),
                    2 | 3 => serde_json::from_str::<Value>(&body).is_ok_and(|call| call["status"] == "success"),
                    _ => true,
                };
                if failed.len() < 5 && !([200, 201].contains(&status.as_u16()) && is_good) {
                    failed.push(format!("{}: {status} {body}", turn % KINDS));
                }
            }
            Err(error) => failed.push(format!("{error:?}")),
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    failed
}

async fn is_ready(server: &Server) {
    until("it is ready", async || (server.get("/readyz").await.status == 200).then_some(())).await;
}

/// How often all nodes are restarted: once for every change, more often in the long form.
fn rounds() -> usize {
    std::env::var("KITBAG_RESTART_ROUNDS").map_or(1, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_fails_no_request() {
    let database = TestDatabase::postgres().await.in_bucket(&TestBucket::new());
    let installation = Installation::on(database, 3);
    let ports = [free_port(), free_port(), free_port()];
    let start = |node: usize| {
        let listen = format!("127.0.0.1:{}", ports[node]);
        installation.start(node, &["--listen", &listen, "--drain-delay-seconds", "2"])
    };
    let mut servers = [start(0), start(1), start(2)];
    ask_nobody(&servers[0]).await;
    let notes = Notes::new();
    servers[0].post(SERVERS, &notes.launch()).await.expect(201);
    for server in &servers {
        connected(server).await;
    }
    let token = servers[0].token.clone();
    let balancer = Balancer::start(&ports, Duration::from_secs(1));
    balancer.is_there().await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for n in 0..4 {
        let chat = new_chat(&servers[n % 3]).await;
        clients.push(tokio::spawn(load(balancer.url.clone(), token.clone(), chat, over.clone(), done.clone())));
    }
    for node in [0, 1, 2].repeat(rounds()) {
        let before = done.load(Ordering::SeqCst);
        until("there is load", async || (done.load(Ordering::SeqCst) > before + 20).then_some(())).await;
        servers[node].signal(Signal::TERM);
        assert!(servers[node].wait().success(), "{}", servers[node].log());
        servers[node] = start(node);
        is_ready(&servers[node]).await;
        // The balancer sees it too.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let before = done.load(Ordering::SeqCst);
    until("there is load", async || (done.load(Ordering::SeqCst) > before + 20).then_some(())).await;
    over.store(true, Ordering::SeqCst);
    for client in clients {
        assert_eq!(client.await.unwrap(), Vec::<String>::new());
    }
}
