//! What the tests share: nodes, and what is asked of them.

use std::path::Path;
use std::time::{Duration, Instant};

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Program, Server, TestBucket, TestDatabase};
use reqwest::{Method, header};
use serde_json::{Value, json};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");
pub(crate) const CHATS: &str = "/v1/orgs/local/chats";

/// Of a node that is silent for so long others say that it is dead.
const LEASE: &str = "2";

/// All nodes of an installation have one.
pub(crate) const MASTER_KEY: &str = "6b1f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a99887766";

/// A database and the folders of its nodes.
pub(crate) struct Installation {
    pub(crate) database: TestDatabase,
    folders: Vec<tempfile::TempDir>,
}

impl Installation {
    pub(crate) async fn new(nodes: usize) -> Self {
        Self::on(TestDatabase::postgres().await, nodes)
    }

    /// The same with bytes in a bucket, so that any node has what another has kept.
    pub(crate) async fn in_bucket(nodes: usize) -> Self {
        Self::on(TestDatabase::postgres().await.in_bucket(&TestBucket::new()), nodes)
    }

    /// The same on a database of a test's choice.
    pub(crate) fn on(database: TestDatabase, nodes: usize) -> Self {
        Self { database, folders: (0..nodes).map(|_| tempfile::tempdir().unwrap()).collect() }
    }

    /// How many nodes there is a folder for.
    pub(crate) fn nodes(&self) -> usize {
        self.folders.len()
    }

    pub(crate) fn folder(&self, node: usize) -> &Path {
        self.folders[node].path()
    }

    /// Starts a node, which may have run before.
    pub(crate) fn start(&self, node: usize, more: &[&str]) -> Server {
        let url = self.database.url(kitbag_testkit::cluster::APP);
        self.start_on(node, url.expose(), more)
    }

    /// The same on a database at another address.
    pub(crate) fn start_on(&self, node: usize, url: &str, more: &[&str]) -> Server {
        let mut args = vec!["serve"];
        if !more.contains(&"--listen") {
            args.extend(["--listen", "127.0.0.1:0"]);
        }
        args.extend(more);
        Server::start_program(&self.program(node, url), self.folder(node), &args)
    }

    /// The program of a node.
    pub(crate) fn program(&self, node: usize, url: &str) -> Program {
        let mut program = Program::new(BINARY, self.folder(node))
            .env("KITBAG_DATABASE", url)
            .env("KITBAG_MASTER_KEY", MASTER_KEY)
            .env("KITBAG_NODE_LEASE_SECONDS", LEASE)
            .env("KITBAG_ADVERTISE", "http://127.0.0.1:0");
        if let Some(bucket) = self.database.bucket() {
            program = program.env("KITBAG_BLOBS", &bucket.url());
            for (name, value) in TestBucket::variables() {
                program = program.env(name, value);
            }
        }
        program
    }
}

/// Some nodes, on which commands run without a question.
pub(crate) async fn nodes<const N: usize>() -> (Installation, [Server; N]) {
    nodes_of(Installation::new(N).await).await
}

/// The nodes of an installation, on which commands run without a question.
pub(crate) async fn nodes_of<const N: usize>(installation: Installation) -> (Installation, [Server; N]) {
    let servers = std::array::from_fn(|node| installation.start(node, &[]));
    ask_nobody(&servers[0]).await;
    (installation, servers)
}

/// Has commands run without a question.
pub(crate) async fn ask_nobody(server: &Server) {
    let path = "/v1/orgs/local/toolsets/builtin/overrides/run_command";
    let body = json!({ "requiresConfirmation": false });
    Answer::of(server.request(Method::PUT, path).json(&body)).await.expect(200);
}

/// Installs and trusts a toolset that was packed here.
pub(crate) async fn import(server: &Server, manifest: &str, files: &[(&str, &str)]) {
    let mut archive = ArchiveWriter::new(Vec::new());
    let mut all = [files, &[("toolset.yaml", manifest)]].concat();
    all.sort_unstable();
    for (name, text) in all {
        archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    let request = server.request(Method::POST, "/v1/orgs/local/toolsets/import?trust=true");
    let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
    Answer::of(request).await.expect(201);
}

pub(crate) async fn new_chat(server: &Server) -> String {
    server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned()
}

pub(crate) fn calls(chat: &str) -> String {
    format!("{CHATS}/{chat}/tool-calls")
}

/// Runs a command in a chat's workspace.
pub(crate) async fn command(server: &Server, chat: &str, command: &str) -> Answer {
    server.post(&calls(chat), &json!({ "toolId": "run_command", "args": { "command": command } })).await
}

/// The same, which must go well. What it printed.
#[track_caller]
pub(crate) fn output(answer: Answer) -> String {
    let call = answer.expect(200);
    assert_eq!((&call["status"], &call["result"]["exit_code"]), (&json!("success"), &json!(0)), "{call}");
    call["result"]["output"].as_str().unwrap().trim().to_owned()
}

/// Everything that the states of a chat need is there, and was: what was lost and is still in a folder would be mended, and told.
pub(crate) async fn is_whole(server: &Server, chat: &str) {
    let checked = server.post(&format!("{CHATS}/{chat}/workspace/fsck"), &json!({})).await.expect(200);
    assert_eq!((&checked["problems"], &checked["mended"]), (&json!([]), &json!([])), "{checked}");
}

/// Begins a command, and does not wait for it. The path of the call.
pub(crate) async fn begin(server: &Server, chat: &str, command: &str) -> String {
    let body = json!({ "toolId": "run_command", "args": { "command": command } });
    let request = server.request(Method::POST, &calls(chat)).header("prefer", "respond-async").json(&body);
    let call = Answer::of(request).await.expect(202);
    format!("{}/{}", calls(chat), call["id"].as_str().unwrap())
}

/// Asks until something is so.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a call is over.
pub(crate) async fn over(server: &Server, path: &str) -> Value {
    until("the call is over", async || {
        let answer = server.get(path).await;
        (answer.status == 200 && answer.body["finishedAt"].is_string()).then_some(answer.body)
    })
    .await
}

/// Waits until a file is there.
pub(crate) async fn until_there(path: &Path) {
    until(&format!("{} is there", path.display()), async || path.exists().then_some(())).await;
}

/// Whether a process of this machine has a word among its arguments.
pub(crate) fn is_running(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
}
