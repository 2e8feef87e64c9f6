//! What the manager of MCP servers costs: calls through it against calls on a bare connection, a server that is killed against
//! a server that is started, and the memory of fifty servers that nobody uses.
//!
//! The server is this very program, which then echoes as fast as it can, so that little but the way is measured.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Call, Connection, Options};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_mcp::manager::{Configured, Manager, Settings, Start, Status, Variables};
use kitbag_model::{OrgId, RawLaunch, ServerKey};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

const CALLS: usize = 2_000;
const ROUNDS: usize = 9;
const KILLS: usize = 20;
const SERVERS: usize = 50;

struct Nothing;

impl Variables for Nothing {
    fn get(&self, _org: &OrgId, _name: &str) -> Option<String> {
        None
    }
}

/// Echoes.
fn serve() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        let answer = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({ "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "echo", "version": "1" },
            } }),
            "tools/list" => json!({ "result": { "tools": (0..40).map(|n| json!({
                "name": format!("echo{n}"),
                "description": "Says the same again, with a description of a usual length, as servers have them.",
                "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
            })).collect::<Vec<_>>() } }),
            "tools/call" => json!({ "result": { "content": [{ "type": "text", "text": "again" }] } }),
            "ping" => json!({ "result": {} }),
            _ => json!({ "error": { "code": -32601, "message": "unknown" } }),
        };
        let mut answer = answer;
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = id.clone();
        writeln!(out, "{answer}").unwrap();
        out.flush().unwrap();
    }
}

fn call() -> Call {
    let stop = watch::channel(false).1;
    let args = serde_json::Map::from_iter([("text".to_owned(), Value::from("again"))]);
    Call::of_tool("echo0", &args, Duration::from_secs(30), stop)
}

/// The times of single calls, and calls a second with sixteen at a time.
async fn measure<F: Future<Output = ()> + Send + 'static>(
    make: impl Fn() -> F + Clone + Send + 'static,
) -> (Vec<Duration>, f64) {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        make().await;
        times.push(began.elapsed());
    }
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let make = make.clone();
        tasks.spawn(async move {
            for _ in 0..CALLS / 16 {
                make().await;
            }
        });
    }
    tasks.join_all().await;
    (times, CALLS as f64 / began.elapsed().as_secs_f64())
}

fn middle<T: Copy + PartialOrd>(mut all: Vec<T>) -> T {
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all[all.len() / 2]
}

fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::main]
async fn main() {
    if std::env::args().any(|arg| arg == "--echo") {
        return serve();
    }
    let options = Options {
        connect: Duration::from_secs(30),
        answer: Duration::from_secs(30),
        egress: EgressPolicy::default(),
        longest_message: 4 << 20,
        most_tools: 1000,
        pass_environment: Vec::new(),
        sandbox: None,
    };
    let command = std::env::current_exe().unwrap().display().to_string();
    let endpoint = Endpoint::Stdio {
        command: command.clone(),
        args: vec!["--echo".to_owned()],
        cwd: None,
        env: Vec::new(),
        fence: None,
    };
    let org = OrgId::local();
    let server = |name: &str, more: Option<String>| Configured {
        org: org.clone(),
        key: name.parse().unwrap(),
        launch: RawLaunch {
            command: Some(command.clone()),
            args: ["--echo".to_owned()].into_iter().chain(more).collect(),
            ..RawLaunch::default()
        }
        .check()
        .unwrap(),
        folder: None,
        fence: None,
        enabled: true,
        trusted: true,
        start: Start::Eagerly,
        revision: None,
        offers: None,
        mark: String::new(),
        known: Vec::new(),
    };

    let began = Instant::now();
    let bare = Connection::open(&endpoint, &options, None, mpsc::unbounded_channel().0).await.unwrap();
    bare.call(call()).await.unwrap();
    let start = began.elapsed();
    let (told, _changes) = mpsc::unbounded_channel();
    let manager = Manager::new(Settings::new(options, Arc::new(Nothing)), told);
    manager.configure(&org, vec![server("app~echo", None)]);
    let key: ServerKey = "app~echo".parse().unwrap();
    manager.settled(&org, &key, Duration::from_secs(30)).await;
    // In turns, so that what else the machine does is borne by both.
    let (mut bare_times, mut times, mut bare_rates, mut rates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let direct = bare.clone();
        let measured = measure(move || {
            let bare = direct.clone();
            async move { drop(bare.call(call()).await.unwrap()) }
        });
        let (some, rate) = measured.await;
        bare_times.extend(some);
        bare_rates.push(rate);
        let managed = (manager.clone(), org.clone(), key.clone());
        let measured = measure(move || {
            let (manager, org, key) = managed.clone();
            async move { drop(manager.call(&org, &key, call()).await.unwrap()) }
        });
        let (some, rate) = measured.await;
        times.extend(some);
        rates.push(rate);
    }
    let (bare_time, time, bare_rate, rate) = (middle(bare_times), middle(times), middle(bare_rates), middle(rates));
    println!("a call: {bare_time:?} bare, {time:?} managed, ratio {:.2}", time.as_secs_f64() / bare_time.as_secs_f64());
    println!("16 at a time: {bare_rate:.0}/s bare, {rate:.0}/s managed, ratio {:.2}", rate / bare_rate);

    let mut back = Vec::new();
    for round in 0..KILLS {
        // Each of them is another server: one that dies often is left alone for longer and longer.
        let name = format!("app~killed{round}");
        manager.configure(&org, vec![server(&name, Some(name.clone()))]);
        let key: ServerKey = name.parse().unwrap();
        let state = manager.settled(&org, &key, Duration::from_secs(30)).await.unwrap();
        let began = Instant::now();
        let pid = rustix::process::Pid::from_raw(state.pid.unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        while manager.call(&org, &key, call()).await.is_err() {}
        back.push(began.elapsed());
    }
    println!("killed: serves again after {:?} (its own start takes {start:?})", middle(back));

    manager.configure(&org, Vec::new());
    let before = memory();
    manager.configure(&org, (0..SERVERS).map(|n| server(&format!("app~s{n}"), Some(n.to_string()))).collect());
    for n in 0..SERVERS {
        let key: ServerKey = format!("app~s{n}").parse().unwrap();
        let state = manager.settled(&org, &key, Duration::from_secs(60)).await.unwrap();
        assert_eq!(state.status, Status::Connected);
    }
    println!("{SERVERS} servers with 40 tools each: {} KB", memory().saturating_sub(before));
    manager.shut_down().await;
}
