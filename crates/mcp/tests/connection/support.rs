//! What every test here needs: options, twins, calls.

use std::path::PathBuf;
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Call, ConnectError, Connection, Notice, Options};
use kitbag_mcp::endpoint::Endpoint;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

pub fn options() -> Options {
    Options {
        connect: Duration::from_secs(30),
        answer: Duration::from_secs(30),
        egress: EgressPolicy { allow_private: true, ..EgressPolicy::default() },
        longest_message: 8 << 20,
        most_tools: 2000,
        pass_environment: Vec::new(),
    }
}

/// The twin on stdio that does this.
pub fn twin(behaviour: &str, more: &[String]) -> Endpoint {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/twins/stdio.py");
    let mut args = vec![script.display().to_string(), behaviour.to_owned()];
    args.extend_from_slice(more);
    Endpoint::Stdio { command: "python3".to_owned(), args, cwd: None, env: Vec::new() }
}

/// A connection and what its server says.
pub struct Opened {
    pub connection: Connection,
    pub notices: UnboundedReceiver<Notice>,
}

pub async fn try_open(endpoint: &Endpoint, options: &Options) -> Result<Opened, ConnectError> {
    let (sender, notices) = unbounded_channel();
    let connection = Connection::open(endpoint, options, None, sender).await?;
    Ok(Opened { connection, notices })
}

pub async fn open(endpoint: &Endpoint) -> Opened {
    try_open(endpoint, &options()).await.unwrap()
}

pub fn call(tool: &str, args: Value) -> Call {
    let args: Map<String, Value> = args.as_object().unwrap().clone();
    // The sender is gone, as it is with a caller that never stops a call.
    let stop = watch::channel(false).1;
    Call { tool: tool.to_owned(), args, deadline: Duration::from_secs(30), progress: None, stop }
}

/// The text of a result's first block.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

impl Opened {
    /// Waits for the end and says why it came, with all that was said before.
    pub async fn the_end(&mut self) -> (String, Vec<Notice>) {
        let mut before = Vec::new();
        loop {
            match self.notices.recv().await.unwrap() {
                Notice::Closed(why) => return (why, before),
                other => before.push(other),
            }
        }
    }
}

pub fn is_alive(pid: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
