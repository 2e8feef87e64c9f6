//! Servers with bytes in a bucket, and chats in them.

use std::time::{Duration, Instant};

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Program, Server, TestBucket, TestDatabase};
use reqwest::{Method, header};
use serde_json::{Value, json};

pub(crate) const CHATS: &str = "/v1/orgs/local/chats";
pub(crate) const TOOLSETS: &str = "/v1/orgs/local/toolsets";
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

/// A tool that writes a file, and one whose result is large.
const TOOLS: &str = r#"
from pathlib import Path
from covalt_toolset import tool, get_context

@tool
def write(path: str, content: str) -> dict:
    (Path(get_context().workspace) / path).write_text(content)
    return {"bytes": len(content)}

@tool
def large(count: int) -> dict:
    return {"text": "x" * count}
"#;

/// PostgreSQL and a bucket.
pub(crate) async fn installation() -> (TestDatabase, TestBucket) {
    let bucket = TestBucket::new();
    (TestDatabase::postgres().await.in_bucket(&bucket), bucket)
}

/// All nodes of an installation have one.
pub(crate) const MASTER_KEY: &str = "6b1f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a99887766";

/// A server that others on the same database and bucket reach.
pub(crate) fn node(database: &TestDatabase) -> Server {
    node_with(database, MASTER_KEY)
}

/// The same, with a master key of its own.
pub(crate) fn node_with(database: &TestDatabase, key: &str) -> Server {
    start(database, program(database).env("KITBAG_MASTER_KEY", key))
}

/// The program of such a server.
pub(crate) fn program(database: &TestDatabase) -> Program {
    Program::on(BINARY, database)
        .env("KITBAG_MASTER_KEY", MASTER_KEY)
        .env("KITBAG_ADVERTISE", "http://127.0.0.1:0")
        .env("KITBAG_NODE_LEASE_SECONDS", "2")
}

/// Starts it.
pub(crate) fn start(database: &TestDatabase, program: Program) -> Server {
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

/// Has a server stop in good order, so that another one may hold what it held.
pub(crate) fn stop(mut server: Server) {
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
}

/// A chat, as one of several servers has it.
#[derive(Clone)]
pub(crate) struct Chat<'a> {
    pub(crate) server: &'a Server,
    pub(crate) id: String,
}

impl<'a> Chat<'a> {
    pub(crate) async fn new(server: &'a Server) -> Self {
        let chat = server.post(CHATS, &json!({ "title": "a chat" })).await.expect(201);
        Self { server, id: chat["id"].as_str().unwrap().to_owned() }
    }

    /// The same chat at another server.
    pub(crate) fn at<'b>(&self, server: &'b Server) -> Chat<'b> {
        Chat { server, id: self.id.clone() }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{CHATS}/{}/{rest}", self.id)
    }

    pub(crate) async fn put(&self, path: &str, content: impl Into<reqwest::Body>) -> Answer {
        let request = self.server.request(Method::PUT, &self.path(&format!("workspace/files/{path}")));
        Answer::of(request.body(content)).await
    }

    /// What a file has, or the status that says why nobody knows.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, u16> {
        let request = self.server.request(Method::GET, &self.path(&format!("workspace/files/{path}")));
        let answer = request.send().await.unwrap();
        match answer.status().as_u16() {
            200 => Ok(answer.bytes().await.unwrap().to_vec()),
            other => Err(other),
        }
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        String::from_utf8(self.read(path).await.unwrap()).unwrap()
    }

    pub(crate) async fn manifest(&self) -> Value {
        self.server.get(&self.path("workspace/manifest")).await.expect(200)
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Value {
        let body = json!({ "toolId": tool, "args": args });
        let call = self.server.post(&self.path("tool-calls"), &body).await.body;
        assert_eq!(call["status"], "success", "{call}");
        call
    }

    pub(crate) async fn collect(&self) -> Value {
        self.server.post(&self.path("workspace/gc"), &json!({ "graceSeconds": 0 })).await.expect(200)
    }

    /// Everything that the states need is there and whole, and was: what was lost and is still in a folder would be mended, and told.
    pub(crate) async fn is_whole(&self) {
        let found = self.server.post(&self.path("workspace/fsck"), &json!({})).await.expect(200);
        assert_eq!((&found["problems"], &found["mended"]), (&json!([]), &json!([])), "{found}");
    }
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

/// Installs a toolset with two tools.
pub(crate) async fn import(server: &Server) {
    let tools = "id: app\nname: A toolset\nversion: \"1.0.0\"\ntools:\n  - {id: write, entrypoint: \"tools.t:write\"}\n  - {id: large, entrypoint: \"tools.t:large\"}\n";
    let mut archive = ArchiveWriter::new(Vec::new());
    for (name, text) in [("tools/t.py", TOOLS), ("toolset.yaml", tools)] {
        archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    let request = server.request(Method::POST, &format!("{TOOLSETS}/import?trust=true"));
    let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
    Answer::of(request).await.expect(201);
}
