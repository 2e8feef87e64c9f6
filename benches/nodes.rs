//! One, two and three nodes on one PostgreSQL and one bucket behind a balancer: calls a second and what 99 of 100 stay below, of a Python tool by HTTP and
//! through the MCP endpoint, and through that endpoint of tools of MCP servers: one on the web, and one that is a process, which one node has and the others ask. With `--soak SECONDS` instead a thousand calls a minute on three nodes, and what they use meanwhile.
//!
//! Every node has all cores of this machine, as the database and the clients have: what more machines bring is more than what is seen here.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

#[path = "../tests/nodes/balancer.rs"]
mod balancer;
#[path = "gateway/echo.rs"]
mod echo;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::{Balancer, free_port};
use echo::{NEWEST, Process};
use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::cluster::APP;
use kitbag_testkit::{Answer, Program, Server, TestBucket, TestDatabase};
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

const CHATS: usize = 12;
const TIME: Duration = Duration::from_secs(15);
const A_MINUTE: u32 = 1000;
const MASTER_KEY: &str = "6b1f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a99887766";
const TOOL: &str = "from covalt_toolset import tool\n\n@tool\ndef echo(text: str) -> str:\n    return text\n";
const MANIFEST: &str =
    "id: bench\nname: Bench\nversion: \"1.0.0\"\ntools:\n  - {id: echo, entrypoint: \"tools.t:echo\"}\n";

/// How a tool is called.
#[derive(Clone, Copy)]
enum Way {
    /// A Python tool, by the API.
    Api,
    /// The same, through the MCP endpoint.
    Mcp,
    /// A tool of an MCP server, through that endpoint.
    Server,
    /// The same of a server that is a process.
    Process,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Api, "Python, API"),
    (Way::Mcp, "Python, MCP"),
    (Way::Server, "MCP server on the web"),
    (Way::Process, "MCP server, a process"),
];

/// Nodes behind a balancer, with chats.
struct Installation {
    servers: Vec<Server>,
    balancer: Balancer,
    chats: Vec<String>,
    client: reqwest::Client,
    mcp_name: String,
    _echo: Process,
    _database: TestDatabase,
    _folders: Vec<tempfile::TempDir>,
}

impl Installation {
    async fn start(nodes: usize) -> Self {
        // Toolsets that one node imports are files for all of them.
        let (database, bucket) = (TestDatabase::postgres().await, TestBucket::new());
        let folders: Vec<_> = (0..nodes).map(|_| tempfile::tempdir().unwrap()).collect();
        let ports: Vec<u16> = folders.iter().map(|_| free_port()).collect();
        let start = |(folder, port): (&tempfile::TempDir, &u16)| {
            let mut program = Program::new(env!("CARGO_BIN_EXE_kitbag"), folder.path())
                .env("KITBAG_DATABASE", database.url(APP).expose())
                .env("KITBAG_MASTER_KEY", MASTER_KEY)
                .env("KITBAG_BLOBS", &bucket.url())
                .env("KITBAG_ADVERTISE", "http://127.0.0.1:0");
            for (name, value) in TestBucket::variables() {
                program = program.env(name, value);
            }
            let listen = format!("127.0.0.1:{port}");
            Server::start_program(&program, folder.path(), &["serve", "--log", "warn", "--listen", &listen])
        };
        let servers: Vec<Server> = folders.iter().zip(&ports).map(start).collect();
        let mut archive = ArchiveWriter::new(Vec::new());
        for (name, text) in [("tools/t.py", TOOL), ("toolset.yaml", MANIFEST)] {
            archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
        }
        let request = servers[0].request(Method::POST, "/v1/orgs/local/toolsets/import?trust=true");
        let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
        Answer::of(request).await.expect(201);
        let balancer = Balancer::start(&ports, TIME);
        balancer.is_there().await;
        let mut chats = Vec::new();
        for number in 0..CHATS {
            let made = servers[number % nodes].post("/v1/orgs/local/chats", &json!({})).await.expect(201);
            chats.push(made["id"].as_str().unwrap().to_owned());
        }
        let echo = echo::start(&["echo"]);
        let web = json!({
            "id": "echo", "serverType": "streamable-http", "url": format!("{}/mcp", echo.url), "requiresConfirmation": false,
        });
        let this = std::env::current_exe().unwrap();
        let process = json!({ "id": "lines", "command": this, "args": ["lines"], "requiresConfirmation": false });
        for declared in [web, process] {
            servers[0].post("/v1/orgs/local/mcp-servers", &declared).await.expect(201);
        }
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let (_database, _folders, mcp_name) = (database, folders, String::new());
        let mut made = Self { servers, balancer, chats, client, mcp_name, _echo: echo, _database, _folders };
        for server in &made.servers {
            // Each node has a connection of its own to the one, and one of them has the other.
            for key in ["echo~echo", "lines~lines"] {
                while server.get(&format!("/v1/orgs/local/mcp-servers/{key}")).await.body["status"] != "connected" {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        let list = Answer::of(made.mcp(&made.chats[0], "tools/list", json!({}))).await;
        let text = list.body.to_string();
        let mut names = text.split(['"', '\\']).filter(|word| word.ends_with("echo") && word.starts_with("bench"));
        made.mcp_name = names.next_back().unwrap_or_else(|| panic!("no such tool: {text}")).to_owned();
        // Every node is warm.
        for chat in made.chats.clone() {
            for (way, _) in WAYS {
                made.call(&chat, way).await;
            }
        }
        made
    }

    fn request(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.balancer.url)).bearer_auth(&self.servers[0].token)
    }

    fn mcp(&self, chat: &str, method: &str, mut params: Value) -> RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        });
        let request = self.request(&format!("/mcp?chat={chat}")).header("mcp-protocol-version", NEWEST);
        request
            .header("accept", "application/json, text/event-stream")
            .header("mcp-method", method)
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    /// One call, which must go well; how many milliseconds it took.
    async fn call(&self, chat: &str, way: Way) -> f64 {
        let began = Instant::now();
        let args = json!({ "text": "hello" });
        let by_mcp = |name: &str| {
            let params = json!({ "name": name, "arguments": args });
            self.mcp(chat, "tools/call", params).header("mcp-name", name)
        };
        let request = match way {
            Way::Api => {
                let path = format!("/v1/orgs/local/chats/{chat}/tool-calls");
                self.request(&path).json(&json!({ "toolId": "bench:echo", "args": args }))
            }
            Way::Mcp => by_mcp(&self.mcp_name),
            Way::Server => by_mcp("mcp__echo__echo"),
            Way::Process => by_mcp("mcp__lines__echo"),
        };
        let answer = Answer::of(request).await;
        let text = answer.body.to_string();
        let is_good = match way {
            Way::Api => answer.body["status"] == "success",
            Way::Mcp | Way::Server | Way::Process => !text.contains("isError\":true"),
        };
        assert!(answer.status == 200 && is_good && text.contains("hello"), "{answer:?}");
        began.elapsed().as_secs_f64() * 1000.0
    }

    /// Kilobytes and open files of each node.
    fn used(&self) -> Vec<(u64, usize)> {
        let of = |server: &Server| {
            let home = PathBuf::from(format!("/proc/{}", server.pid()));
            let status = std::fs::read_to_string(home.join("status")).unwrap();
            let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            let memory = memory.split_whitespace().next().unwrap().parse().unwrap();
            (memory, std::fs::read_dir(home.join("fd")).unwrap().count())
        };
        self.servers.iter().map(of).collect()
    }
}

/// Calls a second, and what 99 of 100 stay below.
async fn measure(installation: &Arc<Installation>, way: Way) -> (f64, f64) {
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CHATS {
        let installation = Arc::clone(installation);
        clients.spawn(async move {
            let mut times = Vec::new();
            while began.elapsed() < TIME {
                times.push(installation.call(&installation.chats[number], way).await);
            }
            times
        });
    }
    let mut times: Vec<f64> = clients.join_all().await.into_iter().flatten().collect();
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    (rate, times[times.len() * 99 / 100])
}

async fn soak(seconds: u64) {
    let installation = Arc::new(Installation::start(3).await);
    println!("{A_MINUTE} calls a minute for {seconds} s on three nodes; MB and open files of each");
    let (began, mut calls) = (Instant::now(), tokio::task::JoinSet::new());
    let (mut next, mut slow, mut count) = (began, 0.0_f64, 0_usize);
    let first = installation.used();
    let mut shown = began;
    while began.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep_until(next.into()).await;
        next += Duration::from_secs(60) / A_MINUTE;
        let (one, number) = (Arc::clone(&installation), count);
        calls.spawn(async move { one.call(&one.chats[number % CHATS], WAYS[number % WAYS.len()].0).await });
        count += 1;
        while let Some(done) = calls.try_join_next() {
            slow = slow.max(done.unwrap());
        }
        if shown.elapsed() > Duration::from_secs(20) {
            shown = Instant::now();
            let used = installation.used();
            let text: Vec<String> =
                used.iter().map(|(kb, files)| format!("{:6.1} {files:4}", *kb as f64 / 1e3)).collect();
            println!("  {:5} s  {}   slowest call {slow:.0} ms", began.elapsed().as_secs(), text.join("   "));
        }
    }
    calls.join_all().await;
    let ratio = |(now, then): (&(u64, usize), &(u64, usize))| format!("{:.2}", now.0 as f64 / then.0 as f64);
    let ratios: Vec<String> = installation.used().iter().zip(&first).map(ratio).collect();
    println!("  {count} calls, none failed; memory at the end to that at the beginning: {}", ratios.join(", "));
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "echo") {
        return echo::be_echo().await;
    }
    if words.iter().any(|word| word == "lines") {
        return echo::be_lines();
    }
    if let Some(at) = words.iter().position(|word| word == "--soak") {
        return soak(words[at + 1].parse().expect("--soak SECONDS")).await;
    }
    println!(
        "calls through a balancer, {CHATS} chats and as many clients, one PostgreSQL and one bucket, {TIME:?} each: calls a second, what 99 \
         of 100 stay below, and calls a second to those of one node"
    );
    let mut one = [0.0; WAYS.len()];
    for nodes in 1..=3 {
        let installation = Arc::new(Installation::start(nodes).await);
        print!("  {nodes} nodes");
        for ((way, name), one) in WAYS.into_iter().zip(&mut one) {
            let (rate, slow) = measure(&installation, way).await;
            if nodes == 1 {
                *one = rate;
            }
            print!("   {name} {rate:6.1}, {slow:6.1} ms, {:.2} x", rate / *one);
        }
        println!();
    }
}
