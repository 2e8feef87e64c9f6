//! What all tests here need: servers that others wrote, a twin that does what it is told, and the patience to wait.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Server};
use reqwest::{Method, RequestBuilder, header};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub(crate) const SERVERS: &str = "/v1/orgs/local/mcp-servers";
pub(crate) const TOOLS: &str = "/v1/orgs/local/tools";
pub(crate) const TOOLSETS: &str = "/v1/orgs/local/toolsets";
pub(crate) const CHATS: &str = "/v1/orgs/local/chats";

/// The twin, which needs nothing but Python.
pub(crate) const TWIN: &str = include_str!("../../crates/mcp/tests/twins/manager_server.py");

/// A path that `scripts/test` sets.
pub(crate) fn installed(variable: &str, inside: &str) -> String {
    let Some(base) = std::env::var_os(variable) else {
        panic!("{variable} is not set: run `scripts/test`, which installs what the tests need and says where it is")
    };
    let path = PathBuf::from(base).join(inside);
    assert!(path.exists(), "{} is missing: run `scripts/test`, which installs it", path.display());
    path.display().to_string()
}

/// A server from npm.
pub(crate) fn node(package: &str, args: &[&str]) -> Value {
    let script = installed("KITBAG_TEST_NODE_MODULES", &format!("@modelcontextprotocol/{package}/dist/index.js"));
    let args: Vec<&str> = [script.as_str()].into_iter().chain(args.iter().copied()).collect();
    json!({ "command": installed("KITBAG_TEST_NODE_MODULES", ".bin/node"), "args": args })
}

/// A server from PyPI.
pub(crate) fn python(program: &str, args: &[&str]) -> Value {
    json!({ "command": installed("KITBAG_TEST_PYTHON_BIN", program), "args": args })
}

/// The twin, with these flags.
pub(crate) fn twin(flags: &[&str]) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/twins/manager_server.py");
    let args: Vec<&str> = ["-I", "-S", path.to_str().unwrap()].into_iter().chain(flags.iter().copied()).collect();
    json!({ "command": "python3", "args": args })
}

/// The twin with prompts, resources and a log.
pub(crate) fn rich(flags: &[&str]) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/twins/rich.py");
    let args: Vec<&str> = ["-I", "-S", path.to_str().unwrap()].into_iter().chain(flags.iter().copied()).collect();
    json!({ "command": "python3", "args": args })
}

/// The fields of one object, and those of another over them.
pub(crate) fn with(mut one: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("fields are an object") };
    one.as_object_mut().unwrap().extend(more);
    one
}

/// Adds a server whose tools are called without a question.
pub(crate) async fn add(server: &Server, id: &str, launch: Value) -> Value {
    let body = with(json!({ "id": id, "requiresConfirmation": false }), launch);
    server.post(SERVERS, &body).await.expect(201)
}

/// The same, and waits until its tools are known.
pub(crate) async fn connect(server: &Server, id: &str, launch: Value) -> Value {
    add(server, id, launch).await;
    connected(server, id).await
}

pub(crate) fn at(id: &str) -> String {
    format!("{SERVERS}/{id}")
}

/// Waits until a server is connected and its tools are remembered.
pub(crate) async fn connected(server: &Server, id: &str) -> Value {
    until(server, &at(id), |shown| shown["status"] == "connected" && !shown["toolsSeenAt"].is_null()).await
}

/// Waits until a server has this status.
pub(crate) async fn until_status(server: &Server, id: &str, status: &str) -> Value {
    until(server, &at(id), |shown| shown["status"] == status).await
}

/// Asks again and again until the answer fits.
pub(crate) async fn until(server: &Server, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1200 {
        let answer = server.get(path).await.expect(200);
        if fits(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} stayed {}", server.get(path).await.expect(200));
}

/// Waits until something is so.
pub(crate) async fn until_so(what: &str, is: impl Fn() -> bool) {
    for _ in 0..1200 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

/// Makes a chat. Its id.
pub(crate) async fn new_chat(server: &Server) -> String {
    let chat = server.post(CHATS, &json!({ "title": "a chat" })).await.expect(201);
    chat["id"].as_str().unwrap().to_owned()
}

pub(crate) fn asking(server: &Server, chat: &str, tool: &str, args: &Value) -> RequestBuilder {
    let body = json!({ "toolId": tool, "args": args });
    server.request(Method::POST, &format!("{CHATS}/{chat}/tool-calls")).json(&body)
}

pub(crate) async fn ask(server: &Server, chat: &str, tool: &str, args: Value) -> Answer {
    Answer::of(asking(server, chat, tool, &args)).await
}

/// A call that goes well. Its record.
pub(crate) async fn done(server: &Server, chat: &str, tool: &str, args: Value) -> Value {
    let call = ask(server, chat, tool, args).await.expect(200);
    assert_eq!(call["status"], "success", "{call}");
    call
}

/// The text of a call that goes well.
pub(crate) async fn text(server: &Server, chat: &str, tool: &str, args: Value) -> String {
    done(server, chat, tool, args).await["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// A call that is answered and failed. Its error.
pub(crate) async fn failed(server: &Server, chat: &str, tool: &str, args: Value) -> Value {
    let call = ask(server, chat, tool, args).await.expect(200);
    assert_eq!((&call["status"], &call["result"], &call["renderPlan"]), (&json!("error"), &Value::Null, &Value::Null));
    call["error"].clone()
}

/// Where a call is.
pub(crate) fn place(call: &Value) -> String {
    format!("{CHATS}/{}/tool-calls/{}", call["chatId"].as_str().unwrap(), call["id"].as_str().unwrap())
}

/// The process that the twin of this id is.
pub(crate) async fn pid(server: &Server, chat: &str, id: &str) -> i32 {
    text(server, chat, &format!("mcp:{id}~{id}:pid"), json!({})).await.parse().unwrap()
}

pub(crate) async fn put(server: &Server, path: &str, body: Value) -> Answer {
    Answer::of(server.request(Method::PUT, path).json(&body)).await
}

pub(crate) async fn set_override(server: &Server, toolset: &str, key: &str, body: Value) {
    let key: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
    put(server, &format!("{TOOLSETS}/{toolset}/overrides/{key}"), body).await.expect(200);
}

pub(crate) async fn tool(server: &Server, id: &str) -> Value {
    server.get(&format!("{TOOLS}/{id}")).await.expect(200)
}

/// A bundle with a manifest and more files.
pub(crate) fn bundle(id: &str, version: &str, more: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let manifest = format!("id: {id}\nname: A toolset\nversion: \"{version}\"\n{more}");
    let mut all = vec![("toolset.yaml", manifest.as_str())];
    all.extend(files);
    all.sort_unstable();
    let mut archive = ArchiveWriter::new(Vec::new());
    for (name, text) in all {
        archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    archive.finish().unwrap()
}

pub(crate) async fn import(server: &Server, bytes: Vec<u8>) {
    let request = server.request(Method::POST, &format!("{TOOLSETS}/import"));
    let answer = Answer::of(request.header(header::CONTENT_TYPE, "application/zip").body(bytes)).await;
    assert!(answer.status.is_success(), "{answer:?}");
}

/// Whether a process is there and not just unburied.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The processes whose command line has this in it.
pub(crate) fn processes_with(word: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    pids.filter(|pid| has(pid) && lives(*pid)).collect()
}

/// Somebody who listens to events.
pub(crate) struct Listener {
    response: reqwest::Response,
    heard: String,
}

impl Listener {
    /// Listens from now on.
    pub(crate) async fn new(server: &Server) -> Self {
        let response = server.request(Method::GET, "/v1/orgs/local/events").send().await.unwrap();
        let mut listener = Self { response, heard: String::new() };
        assert_eq!(listener.next().await.0, "ready");
        listener
    }

    async fn next(&mut self) -> (String, Value) {
        loop {
            while let Some((block, rest)) = self.heard.split_once("\n\n") {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let event = field("event:").zip(field("data:"));
                let event = event.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap()));
                self.heard = rest.to_owned();
                if let Some(event) = event {
                    return event;
                }
            }
            let part = self.response.chunk().await.unwrap().expect("the stream goes on");
            self.heard.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    /// The next event of this name that fits; others are passed over.
    pub(crate) async fn until(&mut self, wanted: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (name, data) = self.next().await;
            if name == wanted && fits(&data) {
                return data;
            }
        }
    }
}
