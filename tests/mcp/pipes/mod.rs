//! Kitbag's own MCP endpoint on pipes and in the older way over HTTP, with the real program and clients that others wrote.

mod client;
mod line;
mod sdk;
mod stdio;

use std::process::Stdio;
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Call, Connection, Notice, Options};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_testkit::{Program, Server, TestDatabase};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use crate::BINARY;
use crate::kit::{bundle, import};

const TOOLS: &str = "
from covalt_toolset import tool

@tool
def greet(name: str) -> str:
    return f'hello {name}'
";

/// Installs a toolset with one Python tool.
pub(crate) async fn install(server: &Server) {
    let more = "tools:\n  - {id: greet, entrypoint: \"tools.t:greet\"}\n";
    import(server, bundle("app", "1.0.0", more, &[("tools/t.py", TOOLS)])).await;
}

/// Our own client, as Kitbag uses it towards servers.
pub(crate) async fn open(endpoint: &Endpoint) -> (Connection, UnboundedReceiver<Notice>) {
    let options = Options {
        connect: Duration::from_secs(60),
        answer: Duration::from_secs(60),
        egress: EgressPolicy { allow_private: true, ..EgressPolicy::default() },
        longest_message: 8 << 20,
        most_tools: 2000,
        pass_environment: Vec::new(),
        sandbox: None,
    };
    let (sender, notices) = unbounded_channel();
    (Connection::open(endpoint, &options, None, sender).await.unwrap(), notices)
}

/// The program as a server on pipes.
pub(crate) fn piped(database: &TestDatabase, more: &[&str]) -> Endpoint {
    let args = ["mcp", "stdio"].iter().chain(more).map(|word| (*word).to_owned()).collect();
    let env = vec![("KITBAG_DATA".to_owned(), database.data().display().to_string())];
    Endpoint::Stdio { command: BINARY.to_owned(), args, cwd: None, env, fence: None }
}

/// A call that somebody may stop.
pub(crate) fn call(tool: &str, args: Value) -> (Call, watch::Sender<bool>) {
    let (stop, stopped) = watch::channel(false);
    let args: Map<String, Value> = args.as_object().unwrap().clone();
    (Call::of_tool(tool, &args, Duration::from_secs(60), stopped), stop)
}

/// The text of a call that goes well.
pub(crate) async fn text(connection: &Connection, tool: &str, args: Value) -> String {
    let (call, _stop) = call(tool, args);
    let raw = connection.call(call).await.unwrap();
    let result: Value = serde_json::from_str(raw.get()).unwrap();
    assert_ne!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The names of all tools.
pub(crate) async fn names(connection: &Connection) -> Vec<String> {
    connection.tools().await.unwrap().tools.into_iter().map(|tool| tool.name).collect()
}

/// The name that ends like this.
pub(crate) fn ending(names: &[String], end: &str) -> String {
    names.iter().find(|name| name.ends_with(end)).unwrap_or_else(|| panic!("{end} is not in {names:?}")).clone()
}

/// The program on pipes, and a client that says exactly what it is told to.
pub(crate) struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    /// The numbers of all answers so far.
    pub(crate) answered: Vec<Value>,
}

impl Pipe {
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) fn start(database: &TestDatabase, more: &[&str]) -> Self {
        let args: Vec<&str> = ["mcp", "stdio"].into_iter().chain(more.iter().copied()).collect();
        let mut command = Command::from(Program::on(BINARY, database).command(&args));
        command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, stdout, answered: Vec::new() }
    }

    pub(crate) async fn line(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn say(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.line(&message.to_string()).await;
    }

    /// The next line, which is a message whatever else it is.
    pub(crate) async fn next(&mut self) -> Value {
        let line = self.stdout.next_line().await.unwrap().expect("a line");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        if message.get("method").is_none() {
            self.answered.extend(message.get("id").cloned());
        }
        message
    }

    /// The next message that fits; others are passed over.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            if fits(&message) {
                return message;
            }
        }
    }

    /// A request and its answer.
    pub(crate) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(json!({ "id": id, "method": method, "params": params })).await;
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// Begins a session.
    pub(crate) async fn begin(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let hello = self.ask(0, "initialize", params).await;
        self.say(json!({ "method": "notifications/initialized" })).await;
        hello
    }

    pub(crate) async fn names(&mut self, id: u64) -> Vec<String> {
        let listed = self.ask(id, "tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn text(&mut self, id: u64, tool: &str, args: Value) -> String {
        let done = self.ask(id, "tools/call", json!({ "name": tool, "arguments": args })).await;
        done["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{done}")).to_owned()
    }

    /// Closes its standard input. The messages that come after, the exit code, and what it said beside.
    pub(crate) async fn close(mut self) -> (Vec<Value>, Option<i32>, String) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
        }
        let mut beside = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut beside).await.unwrap();
        (rest, self.child.wait().await.unwrap().code(), beside)
    }
}
