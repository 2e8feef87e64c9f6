//! Nodes behind a balancer that knows nothing of them but who is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kitbag_testkit::cluster::{APP, OWNER};
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
const KINDS: usize = 9;

/// Asks through the balancer, again and again: reads, calls a tool of the chat's by the API and through the MCP endpoint, also one that takes longer than
/// a node waits before it goes, and one of a server that is a process, puts files into the workspace, also such that are not kept in memory on their
/// way, and looks whether what it put there last is there.
async fn load(url: String, token: String, chat: String, over: Arc<AtomicBool>, done: Arc<AtomicUsize>) -> Vec<String> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut failed = Vec::new();
    let (mut turn, mut counted, mut kept) = (0_usize, 0_usize, String::new());
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
                &json!({ "toolId": "run_command", "args": { "command": "echo $((1 + $(cat n 2>/dev/null || echo 0))) | tee m; mv m n" } }),
            ),
            3 => client.post(format!("{url}{}", calls(&chat))).json(&json!({ "toolId": "mcp:keeps~keeps:get", "args": {} })),
            4 => {
                kept = turn.to_string();
                client.put(format!("{url}{CHATS}/{chat}/workspace/files/small.txt")).body(kept.clone())
            }
            5 => client.put(format!("{url}{CHATS}/{chat}/workspace/files/large.txt")).body(vec![turn as u8; 3 << 20]),
            6 => client.get(format!("{url}{CHATS}/{chat}/workspace/files/small.txt")),
            7 => client
                .post(format!("{url}{}", calls(&chat)))
                .json(&json!({ "toolId": "run_command", "args": { "command": "sleep 3; echo slept" } })),
            _ => client.get(format!("{url}/v1/orgs/local/tools")),
        };
        match request.bearer_auth(&token).send().await {
            Ok(answer) => {
                let status = answer.status();
                let body = answer.text().await.unwrap_or_default();
                let is_good = match turn % KINDS {
                    0 => body.contains("through MCP") && !body.contains("\"isError\":true"),
                    2 => {
                        counted += 1;
                        let call: Value = serde_json::from_str(&body).unwrap_or_default();
                        call["result"]["output"] == format!("{counted}\n")
                    }
                    3 | 7 => serde_json::from_str::<Value>(&body).is_ok_and(|call| call["status"] == "success"),
                    6 => kept.is_empty() || body == kept,
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
        // Nobody is taken for dead here because the machine is busy.
        let more = ["--listen", &listen, "--drain-delay-seconds", "2", "--node-lease-seconds", "15"];
        installation.start(node, &more)
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
    let (mut clients, mut chats) = (Vec::new(), Vec::new());
    for n in 0..4 {
        chats.push(new_chat(&servers[n % 3]).await);
        let (url, chat) = (balancer.url.clone(), chats[n].clone());
        clients.push(tokio::spawn(load(url, token.clone(), chat, over.clone(), done.clone())));
    }
    for (turn, node) in [0, 1, 2].repeat(rounds()).into_iter().enumerate() {
        let before = done.load(Ordering::SeqCst);
        until("there is load", async || (done.load(Ordering::SeqCst) > before + 20).then_some(())).await;
        servers[node].signal(Signal::TERM);
        assert!(servers[node].wait().success(), "{}", servers[node].log());
        servers[node] = start(node);
        is_ready(&servers[node]).await;
        // The balancer sees it too.
        tokio::time::sleep(Duration::from_millis(300)).await;
        if turn == 0 {
            // The next version's migration comes in the middle: those that run and those that start after it go on all the same.
            let owner = installation.database.url(OWNER);
            kitbag_store::migrate::migrate_further(&owner, APP, FUTURE).await.unwrap();
        }
    }
    let before = done.load(Ordering::SeqCst);
    until("there is load", async || (done.load(Ordering::SeqCst) > before + 20).then_some(())).await;
    over.store(true, Ordering::SeqCst);
    for client in clients {
        assert_eq!(client.await.unwrap(), Vec::<String>::new());
    }
    for (chat, server) in chats.iter().zip(servers.iter().cycle()) {
        let checked = server.post(&format!("{CHATS}/{chat}/workspace/fsck"), &json!({})).await.expect(200);
        let found = (&checked["ok"], &checked["problems"], &checked["mended"]);
        assert_eq!(found, (&json!(true), &json!([]), &json!([])), "{checked}");
    }
}

/// A migration that leaves this program working. It changes what every request needs, in another order than they need it.
const FUTURE: &str = "ALTER TABLE workspace_manifests ADD COLUMN future TEXT;
ALTER TABLE tool_calls ADD COLUMN future TEXT;
ALTER TABLE messages ADD COLUMN future TEXT;
ALTER TABLE chats ADD COLUMN future INTEGER;
ALTER TABLE nodes ADD COLUMN future TEXT;";
