//! The program that is measured, with servers behind it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use crate::echo::Process;
use crate::load::{Era, Way, client, median};

/// What the whole list may take, in milliseconds, and what an idle server may have in memory, in megabytes.
const LONGEST_LIST: f64 = 2.0;
const MOST_MEMORY: f64 = 40.0;

pub(crate) struct Kitbag {
    process: Process,
    token: String,
    client: Client,
}

impl Kitbag {
    /// Starts it on an empty folder. It limits nobody's rate: that is not what is measured.
    pub(crate) fn start(data: &Path) -> Self {
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
        Self { process: Process { child, url }, token, client: client(1) }
    }

    /// Adds a server and waits until it is connected and its tools are known.
    pub(crate) async fn add(&self, id: &str, url: &str, tools: usize) {
        let servers = format!("{}/v1/orgs/local/mcp-servers", self.process.url);
        let body = json!({ "id": id, "serverType": "streamable-http", "url": url, "requiresConfirmation": false });
        let added = self.client.post(&servers).bearer_auth(&self.token).json(&body).send().await.unwrap();
        assert_eq!(added.status(), 201);
        let shown = format!("{servers}/{id}~{id}");
        loop {
            let answer = self.client.get(&shown).bearer_auth(&self.token).send().await.unwrap();
            let state: Value = answer.json().await.unwrap();
            if state["status"] == "connected" && state["toolCount"] == tools {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The way to one server's tool: the token, the resolution of tools, the arguments checked, the call recorded.
    pub(crate) fn way(&self, name: &str, id: &str, era: Era) -> Way {
        let url = format!("{}/v1/orgs/local/toolsets/{id}/mcp", self.process.url);
        Way { name: name.to_owned(), url, tool: "echo", token: self.token.clone(), era }
    }

    /// What it has in memory, in megabytes: all of it, and what is not merely pages of its program's file.
    pub(crate) fn memory(&self) -> (f64, f64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.child.id())).unwrap();
        let megabytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
        };
        (megabytes("VmRSS:"), megabytes("RssAnon:"))
    }

    fn tell_memory(&self, servers: usize, tools: usize, when: &str) {
        let (all, own) = self.memory();
        let ratio = all / MOST_MEMORY;
        println!(
            "idle with {servers} servers of {tools} tools each{when}: {all:.1} MB ({own:.1} MB without its program's file), \
             {ratio:.2} of {MOST_MEMORY} MB: {}",
            verdict(ratio <= 1.0)
        );
    }
}

/// A server is idle when nobody used it for so long: it looks every second, and fifteen times.
const IDLE: Duration = Duration::from_secs(20);

/// How a number stands to its limit.
pub(crate) fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT MET" }
}

/// What a fresh server has in memory with so many servers connected that have so many tools, and, if it is asked for, how long its
/// whole list takes.
pub(crate) async fn idle(servers: usize, tools: usize, echo: &str, is_listed: bool) {
    let folder = tempfile::tempdir().unwrap();
    let kitbag = Kitbag::start(folder.path());
    for number in 0..servers {
        kitbag.add(&format!("echo-{number}"), &format!("{echo}/{tools}/{number}/mcp"), tools).await;
    }
    // What was only needed to connect goes, and what nobody has used for a while.
    tokio::time::sleep(IDLE).await;
    kitbag.tell_memory(servers, tools, "");
    let (way, client) = (kitbag.way("", "echo-0", Era::Newest), client(1));
    let mut took = [0.0; 3];
    for took in &mut took {
        let began = Instant::now();
        way.list(&client).await;
        *took = began.elapsed().as_secs_f64() * 1e3;
    }
    println!("  who asks it then waits {:.1} ms, the next {:.1} ms and {:.1} ms", took[0], took[1], took[2]);
    if is_listed {
        list(&kitbag, servers * tools, echo).await;
        tokio::time::sleep(IDLE).await;
        kitbag.tell_memory(servers, tools, ", after lists of all of them");
    }
}

/// The list of all tools, against an answer of that length which is ready.
async fn list(kitbag: &Kitbag, tools: usize, echo: &str) {
    let way = |url: String| Way { name: String::new(), url, tool: "", token: kitbag.token.clone(), era: Era::Newest };
    let ours = way(format!("{}/mcp", kitbag.process.url));
    let client = client(1);
    let began = Instant::now();
    let body = ours.list(&client).await;
    let first = began.elapsed().as_secs_f64() * 1e3;
    let listed: Value = serde_json::from_slice(&body).unwrap();
    let names = listed["result"]["tools"].as_array().unwrap();
    let count = names.iter().filter(|tool| tool["name"].as_str().unwrap().contains("echo")).count();
    assert_eq!(count, tools);
    let ready = way(format!("{echo}/bytes/{}", body.len()));
    let (mut times, mut ready_times) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        for (way, times) in [(&ours, &mut times), (&ready, &mut ready_times)] {
            let began = Instant::now();
            way.list(&client).await;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    let (p50, ready) = (median(&times), median(&ready_times));
    let ratio = p50 / LONGEST_LIST;
    println!(
        "tools/list of {tools} tools ({} kB): p50 {p50:.2} ms, {ratio:.2} of {LONGEST_LIST} ms: {}; {:.1} times what as many bytes \
         take that are ready ({ready:.2} ms); the first list takes {first:.1} ms",
        body.len() / 1000,
        verdict(ratio <= 1.0),
        p50 / ready
    );
}
