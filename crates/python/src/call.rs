//! One call: what goes in, what is heard meanwhile, what comes out.

use std::path::PathBuf;
use std::time::Duration;

use kitbag_model::{ChatId, Entrypoint, OrgId};
use serde_json::{Map, Value};
use tokio::sync::watch;

/// A call to be made.
#[derive(Clone, Debug)]
pub struct Job {
    /// Whose chat it is.
    pub org: OrgId,
    /// In which chat. Calls of one chat share a network of their own.
    pub chat: ChatId,
    /// The call's id.
    pub call: String,
    /// Which function.
    pub entrypoint: Entrypoint,
    /// Its arguments, which fit the schema.
    pub args: Map<String, Value>,
    /// The chat's workspace, where it is on disk.
    pub workspace: PathBuf,
    /// How long it may take.
    pub deadline: Duration,
}

/// Whether a call is to be stopped. It turns to true once.
pub type Stop = watch::Receiver<bool>;

/// Waits until a call is to be stopped; for ever if nobody can say so any more.
pub(crate) async fn stopped(stop: &mut Stop) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Something that is heard while a call runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// How far it is.
    Progress {
        /// From 0 to 1, if it knows.
        fraction: Option<f64>,
        /// What it is doing.
        message: Option<String>,
    },
    /// It said something.
    Log(LoggedLine),
}

/// Where a line of the log came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stream {
    /// What it printed.
    Stdout,
    /// What it said beside.
    Stderr,
    /// What it logged through the SDK.
    Log,
}

/// A line that a call said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoggedLine {
    /// Where.
    pub stream: Stream,
    /// What.
    pub text: String,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What it returned, or why it returned nothing.
    pub result: Result<Value, Failure>,
    /// The end of what it said, all streams in the order in which they were heard.
    pub logs: Vec<LoggedLine>,
    /// How many bytes of the log were left out.
    pub logs_cut: u64,
    /// The layers of the sandbox that held it.
    pub layers: Vec<String>,
    /// The layers that this machine could not give.
    pub missing_layers: Vec<String>,
    /// Whether something that it started is still running.
    pub left_running: bool,
}

/// Why a call returned nothing.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// For people.
    pub message: String,
    /// Where in the tool's code, if it was an exception there.
    pub traceback: Option<String>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FailureKind {
    /// The tool raised an exception, ended itself, crashed, or returned something that is not JSON.
    Failed,
    /// It did not end in time.
    Timeout,
    /// It was stopped.
    Cancelled,
    /// The toolset was changed or removed, or the server ended.
    Interrupted,
    /// There is no worker: no interpreter, no environment, or the sandbox cannot be had.
    Unavailable,
}
