//! One connection to one server: opened, asked, closed. It does not come back by itself; that is the manager's work.

use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::tool::ToolDefinition;

/// How connections are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long connecting and agreeing on a protocol may take.
    pub connect: Duration,
    /// How long an answer may take that is not a tool call's.
    pub answer: Duration,
    /// Whom we may dial.
    pub egress: EgressPolicy,
    /// The most bytes of one message.
    pub longest_message: usize,
    /// The most tools of one server; what is beyond is left out, with a warning.
    pub most_tools: usize,
    /// What every child may know of our environment besides the usual, where it is set.
    pub pass_environment: Vec<String>,
}

/// Something that a server says by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Its tools may be others now.
    ToolsChanged,
    /// It said something for the log.
    Log(String),
    /// The connection is over, and why.
    Closed(String),
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// It wants a token. `challenge` is its `WWW-Authenticate` header, if it sent one.
    #[error("the server wants somebody to sign in")]
    NeedsAuth {
        /// What it said.
        challenge: Option<String>,
    },
    /// Everything else; the text says what, and has no secret in it.
    #[error("{0}")]
    Failed(String),
}

/// All tools of a server.
#[derive(Clone, Debug, Default)]
pub struct ToolList {
    /// In the server's order.
    pub tools: Vec<ToolDefinition>,
    /// What was left out or mended, and why.
    pub warnings: Vec<String>,
    /// How long the list may be thought to be current, if the server says.
    pub ttl: Option<Duration>,
}

/// One call.
pub struct Call {
    /// The server's own name of the tool.
    pub tool: String,
    /// Its arguments.
    pub args: Map<String, Value>,
    /// How long it may take.
    pub deadline: Duration,
    /// Gets what the server says of its progress: fraction and message.
    pub progress: Option<UnboundedSender<(Option<f64>, Option<String>)>>,
    /// Turns to true when the call is to be stopped; the server is told.
    pub stop: watch::Receiver<bool>,
}

/// Why a call brought nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The connection broke, or was not there any more.
    #[error("the server's connection ended: {0}")]
    Disconnected(String),
    /// It did not answer in time.
    #[error("the server did not answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// It was stopped.
    #[error("the call was cancelled")]
    Cancelled,
    /// It wants another token, or one that may do more.
    #[error("the server wants somebody to sign in")]
    NeedsAuth {
        /// What it said.
        challenge: Option<String>,
    },
    /// The server answered with an error of the protocol.
    #[error("{message} ({code})")]
    Refused {
        /// The protocol's code.
        code: i64,
        /// The server's words.
        message: String,
        /// What it said beside.
        data: Option<Value>,
    },
    /// It answered with something that is no answer.
    #[error("the server's answer cannot be used: {0}")]
    Nonsense(String),
}
