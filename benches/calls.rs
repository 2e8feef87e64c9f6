//! A tool call against what it would cost to start a process for it, in one run.
//!
//! The call is a whole one: HTTP, arguments checked, the workspace of 1,000 files found unchanged, a fresh sandboxed process,
//! two durable transactions, a state kept if there is one. The tool is empty, so that only the way is measured. What stands
//! beside it is the interpreter alone, and a new process that imports Pydantic and the toolset, makes the call and ends.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use kitbag_testkit::Answer;
use reqwest::{Client, Method};
use serde_json::{Value, json};

const FILES: usize = 1000;
const CALLS: usize = 400;
const CHATS: usize = 16;
const EMPTY: &str = "from covalt_toolset import tool\n\n@tool\ndef empty() -> int:\n    return 1\n";

struct Kitbag {
    server: Child,
    url: String,
    token: String,
    client: Client,
}

impl Kitbag {
    fn serve(data: &Path) -> Self {
        let server = Command::new(env!("CARGO_BIN_EXE_kitbag"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data"])
            .arg(data)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ready = data.join("server.json");
        while !ready.exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let known: Value = serde_json::from_slice(&fs::read(ready).unwrap()).unwrap();
        let text = |name: &str| known[name].as_str().unwrap().trim_end_matches('/').to_owned();
        Self { server, url: text("url"), token: text("token"), client: Client::builder().no_proxy().build().unwrap() }
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.client.request(Method::POST, format!("{}/v1/orgs/local/{path}", self.url));
        let answer = Answer::of(request.bearer_auth(&self.token).json(body)).await;
        assert!(answer.status.is_success(), "{:?}", answer.body);
        answer.body
    }

    async fn chat(&self) -> String {
        self.post("chats", &json!({})).await["id"].as_str().unwrap().to_owned()
    }

    async fn call(&self, chat: &str, tool: &str, args: Value) -> Value {
        let call = self.post(&format!("chats/{chat}/tool-calls"), &json!({ "toolId": tool, "args": args })).await;
        assert_eq!(call["status"], "success", "{call}");
        call
    }
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
}

/// The median, and what 95 of 100 stay below.
fn spread(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 95 / 100])
}

/// The real interpreter, not a shim that looks for it.
fn python() -> PathBuf {
    let ask = "import os, sys; print(os.path.realpath(sys.executable))";
    let said = Command::new("python3").args(["-c", ask]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().into()
}

/// An interpreter with Pydantic, which is installed once.
fn with_pydantic(python: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-pydantic");
    let inside = folder.join("bin/python");
    if !folder.join("complete").exists() {
        let run = |program: &Path, args: &[&str]| assert!(Command::new(program).args(args).status().unwrap().success());
        run(python, &["-m", "venv", folder.to_str().unwrap()]);
        run(&inside, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pydantic"]);
        fs::write(folder.join("complete"), "").unwrap();
    }
    inside
}

fn started(program: &Path, code: &str, rounds: usize) -> f64 {
    let one = || {
        let start = Instant::now();
        assert!(Command::new(program).args(["-c", code]).stdout(Stdio::null()).status().unwrap().success());
        milliseconds(start)
    };
    one();
    spread((0..rounds).map(|_| one()).collect()).0
}

/// The memory of a toolset's processes, in bytes, and how many there are: what they share with each other is counted once.
fn memory(toolset: &str) -> (u64, usize) {
    let (mut sum, mut count) = (0, 0);
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let path = entry.path();
        let command = fs::read_to_string(path.join("cmdline")).unwrap_or_default();
        let mounts = fs::read_to_string(path.join("mountinfo")).unwrap_or_default();
        if command.contains("kitbag_worker") && mounts.contains(&format!("/toolsets/{toolset} /toolset ")) {
            let rollup = fs::read_to_string(path.join("smaps_rollup")).unwrap_or_default();
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
            count += 1;
            sum += line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024;
        }
    }
    (sum, count)
}

/// Its memory when nobody has used it for a while: the parent, and the one child that waits to be sent to a chat.
async fn idle_memory(toolset: &str) -> u64 {
    loop {
        match memory(toolset) {
            (bytes, 0..=2) => return bytes,
            _ => tokio::time::sleep(std::time::Duration::from_millis(500)).await,
        }
    }
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let bundle = folder.path().join("bundle");
    fs::create_dir_all(bundle.join("tools")).unwrap();
    let manifest =
        "id: empty\nname: Empty\nversion: \"1.0.0\"\ntools:\n  - id: empty\n    entrypoint: tools.empty:empty\n";
    fs::write(bundle.join("toolset.yaml"), manifest).unwrap();
    fs::write(bundle.join("tools/empty.py"), EMPTY).unwrap();
    let mut kitbag = Kitbag::serve(&data);
    let imported = Command::new(env!("CARGO_BIN_EXE_kitbag"))
        .args(["--json", "toolset", "import"])
        .arg(&bundle)
        .arg("--data")
        .arg(&data)
        .stdout(Stdio::null())
        .status();
    assert!(imported.unwrap().success());

    let mut chats = Vec::new();
    for _ in 0..CHATS {
        let chat = kitbag.chat().await;
        let files = data.join("chats").join(&chat).join("workspace");
        fs::create_dir_all(files.join("src")).unwrap();
        for number in 0..FILES {
            fs::write(files.join(format!("src/{number:04}.txt")), vec![b'x'; 4096]).unwrap();
        }
        // The first call keeps them.
        kitbag.call(&chat, "empty:empty", json!({})).await;
        chats.push(chat);
    }

    let mut times = Vec::new();
    for _ in 0..CALLS {
        let start = Instant::now();
        kitbag.call(&chats[0], "empty:empty", json!({})).await;
        times.push(milliseconds(start));
    }
    let one_chat = 1000.0 * times.len() as f64 / times.iter().sum::<f64>();
    let (call, slow) = spread(times);
    let mut times = Vec::new();
    for number in 0..CALLS / 4 {
        let start = Instant::now();
        kitbag.call(&chats[1], "write_file", json!({ "path": "src/0000.txt", "content": number.to_string() })).await;
        times.push(milliseconds(start));
    }
    let (writing, _) = spread(times);
    let start = Instant::now();
    let mut together = tokio::task::JoinSet::new();
    let shared = std::sync::Arc::new((kitbag.url.clone(), kitbag.token.clone(), kitbag.client.clone()));
    for chat in chats.clone() {
        let shared = std::sync::Arc::clone(&shared);
        together.spawn(async move {
            for _ in 0..CALLS / 4 {
                let url = format!("{}/v1/orgs/local/chats/{chat}/tool-calls", shared.0);
                let body = json!({ "toolId": "empty:empty", "args": {} });
                let answer = Answer::of(shared.2.post(url).bearer_auth(&shared.1).json(&body)).await;
                assert_eq!(answer.body["status"], "success");
            }
        });
    }
    while let Some(done) = together.join_next().await {
        done.unwrap();
    }
    let all_chats = (CHATS * CALLS / 4) as f64 / start.elapsed().as_secs_f64();
    let (busy, _) = memory("empty");
    let memory = idle_memory("empty").await;
    kitbag.server.kill().unwrap();
    kitbag.server.wait().unwrap();

    let python = python();
    let alone = started(&python, "pass", 30);
    // What a call does, in a process of its own: Pydantic, the SDK, the toolset's module, the function, its result as JSON.
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let alike = format!(
        "import sys; sys.path[:0] = [{packages:?}, {bundle:?}]; import json; from pydantic import BaseModel; \
         from covalt_toolset import _runtime; from tools.empty import empty; print(json.dumps(empty()))"
    );
    let process = started(&with_pydantic(&python), &alike, 15);
    println!("a call of an empty tool, workspace of {FILES} files, whole way through HTTP, sandbox on, durable");
    println!("  python3 -c pass             {alone:8.2} ms");
    println!("  a new process for the call  {process:8.2} ms   with Pydantic, the SDK and the toolset's module");
    println!(
        "  kitbag, p50                 {call:8.2} ms   {:.2} x python3 -c pass, {:.3} x a new process (aim: 0.05)",
        call / alone,
        call / process
    );
    println!("  kitbag, p95                 {slow:8.2} ms");
    println!("  kitbag, a file is written   {writing:8.2} ms   {:.3} x a new process", writing / process);
    println!("  calls a second              {one_chat:8.0} on one chat, {all_chats:.0} on {CHATS} (aim: 300)");
    println!(
        "  idle toolset                {:8.1} MB (aim: 25); {:.1} MB while {CHATS} chats use it",
        memory as f64 / 1e6,
        busy as f64 / 1e6
    );
    let json = json!({
        "pythonMs": alone, "processMs": process, "callMs": call, "callP95Ms": slow, "writeMs": writing,
        "callsPerSecondOneChat": one_chat, "callsPerSecond16Chats": all_chats, "idleBytes": memory,
        "ratioToPython": call / alone, "ratioToProcess": call / process,
    });
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-calls.json"), json.to_string()).unwrap();
}
