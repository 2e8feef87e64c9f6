//! One hop through Kitbag against the same call made directly and through a bare proxy, in one run, as ratios.
//!
//! The tool is an echo of a server of the newest revision, over HTTP. What is measured through Kitbag is the whole of it: the
//! token, the resolution of tools, the arguments checked, the call recorded. The bare proxy passes bytes on and knows nothing;
//! it is the floor for anything that stands in between. All three are processes of their own. `KITBAG_BENCH_PEERS` may name more
//! (`name=address name=address`): proxies that somebody has put in front of the address that is printed.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

const NEWEST: &str = "2026-07-28";

/// A process that ends with this one.
struct Peer {
    child: Child,
    url: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This very program in another part.
fn part(args: &[&str]) -> Peer {
    let mut child = Command::new(std::env::current_exe().unwrap()).args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Peer { child, url: line.trim().to_owned() }
}

async fn listen(router: Router) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}/mcp", listener.local_addr().unwrap());
    axum::serve(listener, router).await.unwrap();
}

/// The echo: as little of a server as there can be.
async fn echo(body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    let result = match request["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": [NEWEST], "capabilities": { "tools": {} },
            "ttlMs": 0, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "echo", "version": "1" } },
        }),
        "tools/list" => json!({
            "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            "tools": [{
                "name": "echo", "description": "Says it again.",
                "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
            }],
        }),
        _ => json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": request["params"]["arguments"]["text"] }],
        }),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

/// The floor: bytes in, bytes out.
async fn pass_on(State((client, url)): State<(Client, Arc<str>)>, mut headers: HeaderMap, body: Bytes) -> Response {
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    let answer = client.post(&*url).headers(headers).body(body).send().await.unwrap();
    let kind = answer.headers()[header::CONTENT_TYPE].clone();
    ([(header::CONTENT_TYPE, kind)], Body::from(answer.bytes().await.unwrap())).into_response()
}

fn call(client: &Client, url: &str, tool: &str, token: &str) -> RequestBuilder {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
    });
    let params = json!({ "name": tool, "arguments": { "text": "again" }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    client
        .post(url)
        .bearer_auth(token)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", NEWEST)
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .json(&body)
}

/// The median of single calls in microseconds, and calls a second, with so many at a time.
async fn measure(url: &str, token: &str, at_once: usize) -> (f64, f64) {
    let client = Client::builder().no_proxy().pool_max_idle_per_host(at_once).build().unwrap();
    let request = call(&client, url, "echo", token).build().unwrap();
    let one = async |client: &Client| {
        let answer = client.execute(request.try_clone().unwrap()).await.unwrap();
        let text = answer.text().await.unwrap();
        assert!(text.contains("\"again\""), "{text}");
    };
    for _ in 0..200 {
        one(&client).await;
    }
    let long = Duration::from_secs(3);
    let (done, began) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (client, request, done) = (client.clone(), request.try_clone().unwrap(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < long {
                    let start = Instant::now();
                    let answer = client.execute(request.try_clone().unwrap()).await.unwrap();
                    assert!(answer.status().is_success(), "{}", answer.status());
                    answer.bytes().await.unwrap();
                    times.push(start.elapsed().as_secs_f64() * 1e6);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await.unwrap());
    }
    times.sort_by(f64::total_cmp);
    let rate = done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    (times[times.len() / 2], rate)
}

/// The program, with the echo behind it.
async fn kitbag(data: &Path, echo: &str) -> (Peer, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_kitbag"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--mcp-rate", "0", "--data"])
        .arg(data)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = data.join("server.json");
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let known: Value = serde_json::from_slice(&fs::read(ready).unwrap()).unwrap();
    let text = |name: &str| known[name].as_str().unwrap().trim_end_matches('/').to_owned();
    let (url, token) = (text("url"), text("token"));
    let server = Peer { child, url: format!("{url}/v1/orgs/local/toolsets/echo/mcp") };
    let client = Client::builder().no_proxy().build().unwrap();
    let body = json!({ "id": "echo", "serverType": "streamable-http", "url": echo, "requiresConfirmation": false });
    let added = client.post(format!("{url}/v1/orgs/local/mcp-servers")).bearer_auth(&token).json(&body).send().await;
    assert_eq!(added.unwrap().status(), 201);
    let shown = format!("{url}/v1/orgs/local/mcp-servers/echo~echo");
    loop {
        let state: Value = client.get(&shown).bearer_auth(&token).send().await.unwrap().json().await.unwrap();
        if state["status"] == "connected" && state["toolCount"] == 1 {
            return (server, token);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a process has in memory, in megabytes.
fn memory(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["echo"] => return listen(Router::new().route("/mcp", post(echo))).await,
        ["floor", url] => {
            let client = Client::builder().no_proxy().build().unwrap();
            let state = (client, Arc::from(*url));
            return listen(Router::new().route("/mcp", post(pass_on)).with_state(state)).await;
        }
        _ => {}
    }
    let echo = part(&["echo"]);
    let floor = part(&["floor", &echo.url]);
    let folder = tempfile::tempdir().unwrap();
    let (kitbag, token) = kitbag(folder.path(), &echo.url).await;
    println!("the echo is at {}", echo.url);
    let mut ways = vec![("directly".to_owned(), echo.url.clone()), ("a bare proxy".to_owned(), floor.url.clone())];
    ways.push(("Kitbag".to_owned(), kitbag.url.clone()));
    let peers = std::env::var("KITBAG_BENCH_PEERS").unwrap_or_default();
    let named = peers.split_whitespace().filter_map(|peer| peer.split_once('='));
    ways.extend(named.map(|(name, url)| (name.to_owned(), url.to_owned())));
    for at_once in [1, 16, 64] {
        println!(
            "\n{at_once} at a time          p50 µs   calls/s   p50 to the bare proxy's   calls/s to the bare proxy's"
        );
        let mut measured = Vec::new();
        for (name, url) in &ways {
            measured.push((name, measure(url, &token, at_once).await));
        }
        let bare = measured[1].1;
        for (name, (p50, rate)) in measured {
            println!("{name:<20} {p50:>8.0} {rate:>9.0}   {:>23.2}   {:>27.2}", p50 / bare.0, rate / bare.1);
        }
    }
    println!("\nKitbag then has {:.0} MB in memory.", memory(kitbag.child.id()));
}
