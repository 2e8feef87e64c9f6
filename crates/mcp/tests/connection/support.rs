//! What every test here needs: options, twins, calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::child::{Child, ChildSpec};
use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Call, CallError, ConnectError, Connection, Notice, Options, Silent};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_model::RemoteKind;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use url::Url;

pub fn options() -> Options {
    Options {
        connect: Duration::from_secs(60),
        answer: Duration::from_secs(60),
        egress: EgressPolicy { allow_private: true, ..EgressPolicy::default() },
        longest_message: 8 << 20,
        most_tools: 2000,
        pass_environment: Vec::new(),
        sandbox: None,
    }
}

/// The path of a twin.
fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/twins").join(name).display().to_string()
}

/// The twin on stdio that does this, with options of its own.
pub fn twin(behaviour: &str, more: &[String]) -> Endpoint {
    let mut args = vec![script("stdio.py"), behaviour.to_owned()];
    args.extend_from_slice(more);
    Endpoint::Stdio { command: "python3".to_owned(), args, cwd: None, env: Vec::new(), fence: None }
}

/// Where a twin keeps what it was sent.
pub struct Seen {
    folder: TempDir,
}

impl Seen {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("seen")
    }

    /// The option that makes a twin keep it here.
    pub fn option(&self) -> String {
        format!("seen={}", self.path().display())
    }

    /// Everything so far.
    pub fn all(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for a message that fits.
    pub async fn wait(&self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(found) = self.all().into_iter().find(&fits) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The methods of all messages, in their order.
    pub fn methods(&self) -> Vec<String> {
        self.all().iter().filter_map(|message| message["method"].as_str().map(ToOwned::to_owned)).collect()
    }

    /// Whether a message with this method was sent.
    pub fn has(&self, method: &str) -> bool {
        self.all().iter().any(|message| message["method"] == method || message["message"]["method"] == method)
    }
}

/// A twin on the web.
pub struct WebTwin {
    pub port: u16,
    pub seen: Seen,
    _child: Child,
}

impl WebTwin {
    pub async fn start(behaviour: &str, more: &[String]) -> Self {
        let seen = Seen::new();
        let mut args = vec![script("web.py"), behaviour.to_owned(), seen.option()];
        args.extend_from_slice(more);
        let (child, pipes) = ChildSpec::new("python3", "/").args(args).start().await.unwrap();
        let mut line = String::new();
        BufReader::new(pipes.stdout).read_line(&mut line).await.unwrap();
        Self { port: line.trim().parse().unwrap(), seen, _child: child }
    }

    pub fn url(&self, path: &str) -> Url {
        format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap()
    }

    pub fn endpoint(&self) -> Endpoint {
        remote(RemoteKind::StreamableHttp, self.url("/mcp"))
    }
}

pub fn remote(kind: RemoteKind, url: Url) -> Endpoint {
    Endpoint::Remote { kind, url, headers: Vec::new() }
}

/// A connection and what its server says.
pub struct Opened {
    pub connection: Connection,
    pub notices: UnboundedReceiver<Notice>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a connection that speaks {}", self.connection.protocol_version())
    }
}

pub async fn try_open(endpoint: &Endpoint, options: &Options) -> Result<Opened, ConnectError> {
    let (sender, notices) = unbounded_channel();
    let connection = Connection::open(endpoint, options, None, sender).await?;
    Ok(Opened { connection, notices })
}

/// Opens what led to a server that spoke this revision last time.
pub async fn try_again(endpoint: &Endpoint, options: &Options, last: &str) -> Result<Opened, ConnectError> {
    let (sender, notices) = unbounded_channel();
    let connection = Connection::open_again(endpoint, options, None, sender, Arc::new(Silent), Some(last)).await?;
    Ok(Opened { connection, notices })
}

pub async fn open(endpoint: &Endpoint) -> Opened {
    try_open(endpoint, &options()).await.unwrap()
}

pub fn call(tool: &str, args: Value) -> Call {
    let args: Map<String, Value> = args.as_object().unwrap().clone();
    // The sender is gone, as it is with a caller that never stops a call.
    let stop = watch::channel(false).1;
    Call::of_tool(tool, &args, Duration::from_secs(60), stop)
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

    /// Waits for one notice.
    pub async fn wait_for(&mut self, wanted: &Notice) {
        while self.notices.recv().await.as_ref() != Some(wanted) {}
    }
}

pub fn is_alive(pid: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A path that `scripts/test` sets.
pub fn installed(variable: &str, inside: &str) -> PathBuf {
    let Some(base) = std::env::var_os(variable) else {
        panic!("{variable} is not set: run `scripts/test`, which installs what the tests need and says where it is")
    };
    let path = PathBuf::from(base).join(inside);
    assert!(path.exists(), "{} is missing: run `scripts/test`, which installs it", path.display());
    path
}

/// Makes a call and reads its result.
pub async fn called(connection: &Connection, call: Call) -> Result<Value, CallError> {
    let result = connection.call(call).await?;
    Ok(serde_json::from_str(result.get()).unwrap())
}
