//! One trace from the request to whoever does the work in the end, with nothing in it that anybody gave or got.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use kitbag_testkit::{Answer, Program, Server, TestDatabase};
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::BINARY;
use crate::collector::{Collector, Span};

const LOCAL: &str = "/v1/orgs/local";
const SECRET: &str = "s3cr3t-of-the-arguments";
/// All nodes of an installation have one.
const MASTER_KEY: &str = "6b1f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a99887766";
/// What a client has of a trace of its own.
const THEIRS: &str = "0af7651916cd43dd8448eb211c80319c";

fn parent(of: &str) -> String {
    format!("00-{of}-b7ad6b7169203331-01")
}

/// Serves with traces. JSON, since this is what the collector here reads.
fn serve(database: &TestDatabase, collector: &Collector) -> Server {
    let program = Program::on(BINARY, database)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven");
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

/// An MCP server that keeps what its tools are called with. What it says has the secret in it, too.
async fn mcp_server() -> (String, Arc<Mutex<Vec<Value>>>) {
    async fn answer(State(heard): State<Arc<Mutex<Vec<Value>>>>, Json(message): Json<Value>) -> Response {
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "kept", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
            "tools/call" => {
                heard.lock().unwrap().push(message["params"].clone());
                json!({ "content": [{ "type": "text", "text": SECRET }] })
            }
            _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
            _ => {
                let error = json!({ "code": -32601, "message": "there is no such method" });
                return Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).into_response();
            }
        };
        Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&heard));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, heard)
}

async fn connected(server: &Server, url: &str) {
    let body = json!({ "id": "kept", "requiresConfirmation": false, "serverType": "streamable-http", "url": url });
    server.post(&format!("{LOCAL}/mcp-servers"), &body).await.expect(201);
    for _ in 0..1200 {
        if !server.get(&format!("{LOCAL}/mcp-servers/kept")).await.expect(200)["toolsSeenAt"].is_null() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the server was never connected");
}

async fn new_chat(server: &Server) -> String {
    server.post(&format!("{LOCAL}/chats"), &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_trace_down_to_the_server_and_to_the_worker() {
    let (collector, database) = (Collector::start().await, TestDatabase::sqlite());
    let mut server = serve(&database, &collector);
    let (url, heard) = mcp_server().await;
    connected(&server, &url).await;
    let chat = new_chat(&server).await;
    let calls = format!("{LOCAL}/chats/{chat}/tool-calls");

    // Of a client of the API, which says where it is in a header.
    let body = json!({ "toolId": "mcp:kept~kept:echo", "args": { "text": SECRET } });
    let request = server.request(Method::POST, &calls).json(&body).header("traceparent", parent(THEIRS));
    let call = Answer::of(request.header("tracestate", "vendor=1").header("x-private", SECRET)).await.expect(200);
    let params = heard.lock().unwrap().pop().unwrap();
    assert_eq!(params["arguments"]["text"], SECRET);
    assert_eq!(params["_meta"]["tracestate"], "vendor=1");
    let told = params["_meta"]["traceparent"].as_str().unwrap().to_owned();
    let [_, trace, asked, flags] = told.split('-').collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert_eq!((trace, flags), (THEIRS, "01"));
    let asked = collector.until("what the server was told of", |span| span.id == asked).await;
    assert_eq!((asked.name.as_str(), asked.service.as_str()), ("mcp tools/call", "kitbag"));
    let made = collector.parent(&asked).await;
    assert!(made.name == "call" && made.says("kitbag.call.id", &call["id"]), "{made:?}");
    assert!(
        made.says("kitbag.tool.id", &json!("mcp:kept~kept:echo")) && made.says("kitbag.call.status", &json!("success"))
    );
    let request = collector.parent(&made).await;
    assert_eq!(request.name, "POST /v1/orgs/{org}/chats/{chat}/tool-calls");
    assert!(request.says("http.response.status_code", &json!(200)), "{request:?}");
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (THEIRS, "b7ad6b7169203331"));

    // Of an MCP client, which says so in `_meta`; its request over HTTP is beside.
    let other = "1af7651916cd43dd8448eb211c80319d";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": parent(other),
    });
    let params = json!({ "name": "echo", "arguments": { "text": SECRET }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = server.request(Method::POST, &format!("{LOCAL}/mcp-servers/kept~kept/mcp")).json(&body);
    let request = request.header("accept", "application/json, text/event-stream").header("mcp-method", "tools/call");
    let answer = request.header("mcp-protocol-version", "2026-07-28").header("mcp-name", "echo").send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let params = heard.lock().unwrap().pop().unwrap();
    let told = params["_meta"]["traceparent"].as_str().unwrap().to_owned();
    assert!(told.starts_with(&format!("00-{other}-")), "{told}");
    let asked = collector.until("what the server was told of", |span| told.contains(&span.id)).await;
    let made = collector.parent(&asked).await;
    let served = collector.parent(&made).await;
    assert_eq!((served.name.as_str(), served.parent.as_str()), ("mcp tools/call", "b7ad6b7169203331"));
    let brought = collector.until("the request that brought it", |span| served.links.contains(&span.id)).await;
    assert_eq!(brought.name, "POST /v1/orgs/{org}/mcp-servers/{serverKey}/mcp");

    // A tool of ours, whose process is told as well. Somebody had to say yes to it: their request is what it belongs to.
    let body = json!({ "toolId": "run_command", "args": { "command": format!("echo $TRACEPARENT; : {SECRET}") } });
    let pending = server.post(&calls, &body).await.expect(202);
    let decision = format!("{calls}/{}/decision", pending["id"].as_str().unwrap());
    let done = server.post(&decision, &json!({ "approve": true })).await.expect(200);
    let said = done["result"].to_string();
    let worked = collector.until("of a worker", |span| span.name == "python").await;
    assert!(said.contains(&format!("00-{}-{}-01", worked.trace, worked.id)), "{said}");
    let made = collector.parent(&worked).await;
    assert!(made.says("kitbag.tool.id", &json!("run_command")));
    let decided = collector.parent(&made).await;
    assert_eq!(decided.name, "POST /v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/decision");

    // What is left is sent at the end, and nothing that anybody gave or got is in any of it.
    server.get(&format!("{LOCAL}/chats/{chat}")).await.expect(200);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let names: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
    assert!(names.contains(&"GET /v1/orgs/{org}/chats/{chat}".to_owned()), "{names:?}");
    let text = collector.text();
    for secret in [SECRET, &server.token, &url] {
        assert!(!text.contains(secret), "{secret} was sent");
    }
    assert!(collector.headers().iter().all(|headers| headers["x-tenant"] == "seven"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_at_the_wrong_node_is_one_trace_through_both() {
    let (collector, database) = (Collector::start().await, TestDatabase::postgres().await);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let url = database.url(kitbag_testkit::cluster::APP);
    let [first, second] = [0, 1].map(|node: usize| {
        let program = Program::new(BINARY, folders[node].path())
            .env("KITBAG_DATABASE", url.expose())
            .env("KITBAG_MASTER_KEY", MASTER_KEY)
            .env("KITBAG_ADVERTISE", "http://127.0.0.1:0")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
        Server::start_program(&program, folders[node].path(), &["serve", "--listen", "127.0.0.1:0"])
    });
    let ask_nobody = json!({ "requiresConfirmation": false });
    let path = format!("{LOCAL}/toolsets/builtin/overrides/run_command");
    Answer::of(first.request(Method::PUT, &path).json(&ask_nobody)).await.expect(200);
    let chat = new_chat(&first).await;
    let body = json!({ "toolId": "run_command", "args": { "command": "true" } });
    first.post(&format!("{LOCAL}/chats/{chat}/tool-calls"), &body).await.expect(200);

    // Passed on as it came.
    let request = second.request(Method::POST, &format!("{LOCAL}/chats/{chat}/tool-calls")).json(&body);
    let call = Answer::of(request.header("traceparent", parent(THEIRS))).await.expect(200);
    let made = collector.until("the call", |span| span.says("kitbag.call.id", &call["id"])).await;
    let mut up = vec![made.clone()];
    for _ in 0..2 {
        up.push(collector.parent(up.last().unwrap()).await);
    }
    let names: Vec<&str> = up[1..].iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names, ["POST /v1/orgs/{org}/chats/{chat}/tool-calls"; 2],
        "where it was asked for, and where it was answered"
    );
    assert_eq!((up[2].trace.as_str(), up[2].parent.as_str()), (THEIRS, "b7ad6b7169203331"));

    // Asked for over MCP at one node, and run at the other.
    let other = "2af7651916cd43dd8448eb211c80319e";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": parent(other),
    });
    let params = json!({ "name": "run_command", "arguments": { "command": "true" }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = second.request(Method::POST, &format!("/mcp?chat={chat}")).json(&body);
    let request = request.header("accept", "application/json, text/event-stream").header("mcp-method", "tools/call");
    let answer =
        request.header("mcp-protocol-version", "2026-07-28").header("mcp-name", "run_command").send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let worked = collector.until("of its worker", |span| span.name == "python" && span.trace == other).await;
    let mut up = vec![worked];
    for _ in 0..4 {
        up.push(collector.parent(up.last().unwrap()).await);
    }
    let names: Vec<&str> = up[1..].iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["call", "POST /internal/nodes/run-call", "call", "mcp tools/call"]);
    assert_eq!(up[4].parent, "b7ad6b7169203331");
}

/// A machine that runs agents, ended with this value.
struct Machine {
    child: std::process::Child,
    _folder: tempfile::TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pairs and starts an executor whose agent says what Codex says, and where in a trace it was told to be.
async fn machine(server: &Server, collector: &Collector) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("codex");
    let script = "#!/bin/sh\n\
         if [ \"$1\" = --version ]; then echo codex-cli 0.166.0; exit; fi\n\
         cat > /dev/null\n\
         echo '{\"type\":\"turn.started\"}'\n\
         echo '{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"'$TRACEPARENT'\"}}'\n\
         echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}'\n";
    std::fs::write(&agent, script).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.path().display());
    let program = Program::new(BINARY, &folder.path().join("data"))
        .env("PATH", &path)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    let made = server.post(&format!("{LOCAL}/executors/pairing-tokens"), &json!({})).await.expect(201);
    let paired = program.run(&["executor", "pair", made["pairingToken"].as_str().unwrap(), "--server", &server.url]);
    assert_eq!(paired.code, Some(0), "{paired:?}");
    Machine { child: program.start(&["executor", "start", "--otlp", &collector.url]), _folder: folder }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_trace_from_the_request_to_the_machine_that_does_it() {
    let (collector, database) = (Collector::start().await, TestDatabase::postgres().await);
    let server = serve(&database, &collector);
    let body = json!({ "config": { "prompt": SECRET, "engine": { "id": "gateway.codex.v2" } } });
    let request = server.request(Method::POST, &format!("{LOCAL}/agent-runs")).json(&body);
    let run = Answer::of(request.header("traceparent", parent(THEIRS))).await.expect(201);
    let run = run["id"].as_str().unwrap().to_owned();
    // It is given out by another server than the one that was asked.
    drop(server);
    let server = serve(&database, &collector);
    let mut machine = machine(&server, &collector).await;
    let over = loop {
        let shown = server.get(&format!("{LOCAL}/agent-runs/{run}")).await.expect(200);
        if !shown["finishedAt"].is_null() {
            break shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(over["state"], "succeeded", "{over}");

    let of_run = |span: &Span| span.says("kitbag.run.id", &json!(run));
    let tried = collector.until("of the executor", |span| span.name == "run attempt" && of_run(span)).await;
    assert_eq!((tried.service.as_str(), tried.trace.as_str()), ("kitbag-executor", THEIRS));
    assert!(tried.says("kitbag.run.state", &json!("succeeded")));
    let given = collector.parent(&tried).await;
    assert!(given.name == "run given" && given.service == "kitbag" && of_run(&given), "{given:?}");
    let engine = collector.until("of the agent", |span| span.name == "engine").await;
    assert_eq!(engine.parent, tried.id);
    assert_eq!(over["output"], format!("00-{THEIRS}-{}-01", engine.id), "the agent was told where it is");
    // It stops in good order, with what it has not sent yet.
    let process = Pid::from_child(&machine.child);
    kill_process(process, Signal::TERM).unwrap();
    assert!(machine.child.wait().unwrap().success());
    assert!(!collector.text().contains(SECRET));
    let asked = collector.spans().into_iter().find(|span| span.id == given.parent);
    // The server that was asked was killed, perhaps before it sent its span; its place is known all the same.
    assert!(asked.is_none_or(|asked| asked.name == "POST /v1/orgs/{org}/agent-runs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_collector_that_is_away() {
    let database = TestDatabase::sqlite();
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let mut server = Server::start(BINARY, &database, &["--otlp", &address]);
    // More than wait at most: those that come later are dropped, and their requests are answered all the same.
    for _ in 0..100 {
        let some = (0..50).map(|_| server.anonymous(Method::GET, "/v1/no-such-place").send());
        for answer in futures_util::future::join_all(some).await {
            assert_eq!(answer.unwrap().status(), 404);
        }
    }
    let metrics = server.anonymous(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("kitbag_trace_spans_total{outcome=\"dropped\"}"), "{metrics}");
    // The end is in good order, and waits a few seconds at most.
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let refused = Program::on(BINARY, &database).run(&["serve", "--otlp", "collector:4318"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("otlp: "), "{refused:?}");
}
