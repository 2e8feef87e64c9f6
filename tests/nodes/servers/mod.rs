//! The process of an MCP server is one node's, whom the others ask.

mod handed;
mod lost;
mod managed;
mod shared;

use std::path::{Path, PathBuf};

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Installation, calls, until};

pub(crate) const SERVERS: &str = "/v1/orgs/local/mcp-servers";
const KEEPS: &str = "/v1/orgs/local/mcp-servers/keeps";

/// What a server that keeps a value notes.
pub(crate) struct Notes(tempfile::TempDir);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("notes")
    }

    /// A file that is not there yet.
    pub(crate) fn mark(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/nodes/servers/keeps.py");
        let path = self.path();
        let own = ["-I", "-S", script.to_str().unwrap(), path.to_str().unwrap()];
        own.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
    }

    pub(crate) fn launch(&self) -> Value {
        json!({ "id": "keeps", "command": "python3", "args": self.args(&[]), "requiresConfirmation": false })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// All processes that were started, in order.
    pub(crate) fn started(&self) -> Vec<i32> {
        self.lines().iter().filter_map(|line| line.parse().ok()).collect()
    }

    /// Those of them that live.
    pub(crate) fn alive(&self) -> Vec<i32> {
        self.started().into_iter().filter(|pid| lives(*pid)).collect()
    }
}

/// Whether a process is there and not just unburied.
pub(crate) fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|fields| !fields[0].starts_with(['Z', 'X']))
}

/// What the kernel says of a process, behind its name.
fn stat(pid: i32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(") ").next()?.split(' ').map(ToOwned::to_owned).collect())
}

/// Which of the nodes has a process.
fn holder(servers: &[Server], pid: i32) -> usize {
    let parent = stat(pid).unwrap()[1].clone();
    servers.iter().position(|server| server.pid().to_string() == parent).expect("a node started it")
}

/// Waits until a server is connected, as a node shows it.
pub(crate) async fn connected(server: &Server) -> Value {
    until("it is connected", async || {
        let answer = server.get(KEEPS).await;
        let is = answer.body["status"] == "connected" && !answer.body["toolsSeenAt"].is_null();
        is.then_some(answer.body)
    })
    .await
}

/// Adds the server that keeps a value at one of the nodes, and waits until all of them know it.
pub(crate) async fn add(servers: &[Server], at: usize, notes: &Notes) -> usize {
    servers[at].post(SERVERS, &notes.launch()).await.expect(201);
    for server in servers {
        connected(server).await;
    }
    holder(servers, *notes.alive().first().expect("it was started"))
}

pub(crate) async fn call(server: &Server, chat: &str, tool: &str, args: Value) -> Answer {
    let body = json!({ "toolId": format!("mcp:keeps~keeps:{tool}"), "args": args });
    server.post(&calls(chat), &body).await
}

/// The text of a call that goes well.
#[track_caller]
pub(crate) fn said(answer: Answer) -> String {
    let call = answer.expect(200);
    assert_eq!(call["status"], "success", "{call}");
    call["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The process that serves the calls of a node.
pub(crate) async fn pid(server: &Server, chat: &str) -> i32 {
    said(call(server, chat, "pid", json!({})).await).parse().unwrap()
}

/// Begins a call that waits, and waits until the server has heard of it. Its path.
async fn begin_to_wait(server: &Server, chat: &str, notes: &Notes, (mark, seconds): (&str, f64)) -> String {
    let mark = notes.mark(mark);
    let args = json!({ "seconds": seconds, "mark": mark });
    let body = json!({ "toolId": "mcp:keeps~keeps:wait", "args": args });
    let request = server.request(Method::POST, &calls(chat)).header("prefer", "respond-async").json(&body);
    let begun = Answer::of(request).await.expect(202);
    crate::kit::until_there(&mark).await;
    format!("{}/{}", calls(chat), begun["id"].as_str().unwrap())
}

/// Some nodes.
async fn nodes<const N: usize>() -> (Installation, Vec<Server>) {
    let installation = Installation::new(N).await;
    let servers = (0..N).map(|node| installation.start(node, &[])).collect();
    (installation, servers)
}

/// A node that is not this one.
pub(crate) fn other(servers: &[Server], than: usize) -> usize {
    (than + 1) % servers.len()
}

/// Waits until there is one process, and which.
pub(crate) async fn the_only_one(notes: &Notes) -> i32 {
    until("there is one process", async || {
        let alive = notes.alive();
        (alive.len() == 1).then(|| alive[0])
    })
    .await
}
