//! What goes into the manager and what comes out: servers as they are wanted, servers as they are, what changed, what went
//! wrong.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use kitbag_guard::child::Fence;
use kitbag_model::{ContentHash, Launch, OrgId, ServerKey, Timestamp};
use serde_json::Value;

use crate::connection::CallError;
use crate::tool::ToolDefinition;

/// When a process is started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// When it is first used. One of which no tool is known is started once, to learn them.
    Lazily,
    /// The same, but what is known of its tools is from another launch: it is started once, to learn them anew.
    LazilyOnceLearnt,
    /// At once.
    Eagerly,
}

/// A server as somebody wants it.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Whose it is.
    pub org: OrgId,
    /// Its name.
    pub key: ServerKey,
    /// How it is reached.
    pub launch: Launch,
    /// Its toolset's folder, if it has one.
    pub folder: Option<PathBuf>,
    /// What stands around it, if it is a process that is confined.
    pub fence: Option<Fence>,
    /// Whether it is on.
    pub enabled: bool,
    /// Whether somebody said that it may be started.
    pub trusted: bool,
    /// When it is started, if it is a process.
    pub start: Start,
    /// The tools that it had when it was last seen.
    pub known: Vec<ToolDefinition>,
    /// The revision of the protocol that was agreed on when it was last connected by this launch, if that is remembered.
    pub revision: Option<String>,
    /// What it [said that it can](offers) then, if that is remembered.
    pub offers: Option<Vec<String>>,
    /// What it is started from, as all nodes know it: two that say the same here start the same.
    pub mark: String,
}

/// So many names of capabilities are remembered, and so much of each.
const MOST_OFFERS: usize = 64;
const LONGEST_OFFER: usize = 200;

/// The names of what a server says that it can, those of extensions as well.
pub fn offers(capabilities: &Value) -> Vec<String> {
    let names = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
    };
    let mut all = names(Some(capabilities));
    all.extend(names(capabilities.get("extensions")));
    all.retain(|name| name.len() <= LONGEST_OFFER);
    all.sort_unstable();
    all.dedup();
    all.truncate(MOST_OFFERS);
    all
}

/// How it is with a server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Status {
    /// Being connected, for the first time or again.
    Connecting,
    /// Connected, and asked for its tools.
    Connected,
    /// It does not work.
    Error,
    /// Not connected, and that is as it should be.
    Disconnected,
    /// Somebody has to sign in.
    RequiresAuth,
    /// Somebody has to say that it may be started.
    NeedsTrust,
}

impl Status {
    /// All that there are.
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Connected, Self::Error, Self::Disconnected, Self::RequiresAuth, Self::NeedsTrust];

    /// As it is written in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Error => "error",
            Self::Disconnected => "disconnected",
            Self::RequiresAuth => "requires_auth",
            Self::NeedsTrust => "needs_trust",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server as it is. No text in it holds the value of a variable.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// Its name.
    pub key: ServerKey,
    /// How it is.
    pub status: Status,
    /// Why, for people.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// Its tools: what it said last, or what was known of it before.
    pub tools: Arc<[ToolDefinition]>,
    /// Whether the tools are those of the connection that is there now.
    pub live: bool,
    /// What is odd about its tools.
    pub warnings: Vec<String>,
    /// What was agreed on.
    pub protocol_version: Option<String>,
    /// What it says of itself.
    pub server_info: Option<Value>,
    /// What it says that it can.
    pub capabilities: Option<Value>,
    /// The [names](offers) of it: what it said last, or what was remembered of it.
    pub offers: Option<Vec<String>>,
    /// How it wants to be used, in its own words. They are a stranger's.
    pub instructions: Option<String>,
    /// The last lines of its standard error, and after it ended those of the process before.
    pub stderr: Vec<String>,
    /// The last things that it said for the log.
    pub logs: Vec<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// How often in a row it was tried in vain.
    pub attempts: u32,
    /// Whether somebody who uses it now may get an answer: it is there, or it is tried for them. Otherwise somebody has to decide
    /// something first.
    pub hopeful: bool,
    /// With [`Status::RequiresAuth`]: what the server asked for, as it put it.
    pub challenge: Option<String>,
}

/// The little of a server that lists of tools are made from.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub key: ServerKey,
    /// How it is.
    pub status: Status,
    /// Whether the tools are those of the connection that is there now.
    pub live: bool,
    /// Its tools.
    pub tools: Arc<[ToolDefinition]>,
}

/// Where there are several nodes: which of them tells a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whose {
    /// Each has a connection of its own, and this is one of this node's.
    Here,
    /// This node holds the server, and tells it to all.
    Everybody,
    /// Another node holds the server, and tells it.
    Elsewhere,
}

/// What the manager tells. Of one server, changes come in the order in which they happened.
#[derive(Clone, Debug)]
pub enum Change {
    /// A server's status is another, or has another reason.
    Status {
        /// Whose it is.
        org: OrgId,
        /// Which server.
        key: ServerKey,
        /// How it is now.
        status: Status,
        /// Why.
        reason: String,
        /// Since when.
        since: Timestamp,
        /// Who tells it.
        whose: Whose,
    },
    /// A server was asked for its tools. Told for the first list of each connection, and for every later one that is
    /// different from the one before.
    Tools {
        /// Whose it is.
        org: OrgId,
        /// Which server.
        key: ServerKey,
        /// All of them.
        tools: Arc<[ToolDefinition]>,
        /// What is odd about them.
        warnings: Vec<String>,
        /// Whether they are others than those known until now.
        different: bool,
        /// Who tells it.
        whose: Whose,
    },
    /// A server said something that belongs to no request: that its prompts or resources are others than before, or that one resource
    /// is, words for the log, or that somebody is done with what it sent them to do.
    Told {
        /// Whose it is.
        org: OrgId,
        /// Which server.
        key: ServerKey,
        /// The protocol's method.
        method: String,
        /// Its parameters.
        params: Value,
        /// Who alone is to hear it, as [`Answers::who`](crate::connection::Answers::who) says it.
        whom: Option<String>,
    },
    /// A launch worked, and a revision of the protocol was agreed on that is not the one that the configuration had, or it can other
    /// things.
    Agreed {
        /// Whose it is.
        org: OrgId,
        /// Which server.
        key: ServerKey,
        /// The [fingerprint](Launch::fingerprint) of the launch.
        launch: ContentHash,
        /// The revision.
        revision: String,
        /// What it [says that it can](offers).
        offers: Vec<String>,
    },
}

impl Change {
    /// Whose server it is about.
    pub fn org(&self) -> &OrgId {
        match self {
            Self::Status { org, .. } | Self::Tools { org, .. } | Self::Told { org, .. } | Self::Agreed { org, .. } => {
                org
            }
        }
    }

    /// The server that it is about.
    pub fn key(&self) -> &ServerKey {
        match self {
            Self::Status { key, .. } | Self::Tools { key, .. } | Self::Told { key, .. } | Self::Agreed { key, .. } => {
                key
            }
        }
    }
}

/// Why a server cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ManagerError {
    /// There is none of that name.
    #[error("there is no such server")]
    NotFound,
    /// It is off.
    #[error("the server is disabled")]
    Disabled,
    /// Somebody has to say that it may be started.
    #[error("the server may start only after somebody has trusted it")]
    NeedsTrust,
    /// Somebody has to sign in.
    #[error("the server wants somebody to sign in")]
    NeedsAuth {
        /// What it said.
        challenge: Option<String>,
    },
    /// A variable that its configuration refers to has no value.
    #[error("MCP_ENV_NOT_SET:{0}")]
    EnvNotSet(String),
    /// It is not there, and waiting would not help or did not.
    #[error("the server is not connected (status: {status}): {reason}")]
    NotConnected {
        /// How it is.
        status: Status,
        /// Why.
        reason: String,
    },
    /// It was asked, and that went wrong.
    #[error(transparent)]
    Call(#[from] CallError),
}
