//! Tool calls: what was asked, what was decided, and what came of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::{ContentHash, Hasher};
use crate::id::{ChatId, ManifestId, MessageId, ToolCallId};
use crate::time::Timestamp;
use crate::tool_id::ToolId;

/// A text that is none of the words that are allowed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown {0}")]
pub struct UnknownWord(&'static str);

/// A closed set of words: `words!(/// doc  Name, "what it is", Variant = "word", …)`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every one there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As it is written in the API and the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text).ok_or(UnknownWord($what))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

words!(
    /// How far a call is.
    CallStatus, "status of a call",
    /// A person is to say yes or no.
    Pending = "pending",
    /// It waits for its turn, or runs.
    Running = "running",
    /// It returned something.
    Success = "success",
    /// It was refused, stopped, cut off, or it failed.
    Error = "error",
);

words!(
    /// Why a call returned nothing.
    CallErrorCode, "code of a call's error",
    /// A person said no, or nobody said anything in time.
    Denied = "DENIED",
    /// Somebody took it back.
    Cancelled = "CANCELLED",
    /// It did not end in time.
    Timeout = "TIMEOUT",
    /// The server ended, or the toolset was changed or removed, while it ran.
    Interrupted = "INTERRUPTED",
    /// The tool itself failed.
    ToolFailed = "TOOL_FAILED",
    /// The MCP server that provides it is not connected.
    NotConnected = "MCP_SERVER_NOT_CONNECTED",
    /// A variable that its MCP server needs is not set. The message begins with which.
    EnvNotSet = "MCP_ENV_NOT_SET",
    /// Somebody has to sign in to its MCP server.
    RequiresAuth = "REQUIRES_AUTH",
    /// Nobody has trusted what its MCP server would start.
    NeedsTrust = "NEEDS_TRUST",
    /// What it needs cannot be had on this machine.
    Unavailable = "UNAVAILABLE",
    /// It put more into the workspace than that may hold. The workspace is as it was before.
    QuotaExceeded = "QUOTA_EXCEEDED",
    /// Something went wrong outside the tool.
    Internal = "INTERNAL",
);

words!(
    /// Where a line of a call's log came from.
    LogStream, "stream of a log",
    /// What it printed.
    Stdout = "stdout",
    /// What it said beside.
    Stderr = "stderr",
    /// What it logged through the SDK.
    Log = "log",
    /// Where in the tool's code it failed.
    Traceback = "traceback",
);

/// Why a call returned nothing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct CallError {
    /// For programs.
    pub code: CallErrorCode,
    /// For people.
    pub message: String,
}

impl CallError {
    /// An error with its reason.
    pub fn new(code: CallErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// A line of a call's log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Where it came from.
    pub stream: LogStream,
    /// What it says.
    pub text: String,
}

/// What held a call.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The layers that did.
    pub layers: Vec<String>,
    /// The layers that this machine could not give.
    pub missing: Vec<String>,
}

/// What a person said about a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// Yes or no.
    pub approved: bool,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A call about to be recorded.
#[derive(Clone, Debug)]
pub struct NewToolCall {
    /// Its id.
    pub id: ToolCallId,
    /// In which chat.
    pub chat_id: ChatId,
    /// The message that it belongs to.
    pub message_id: MessageId,
    /// Which tool.
    pub tool_id: ToolId,
    /// Which version of the tool's code; none for what has none.
    pub generation: Option<String>,
    /// Its arguments.
    pub args: Map<String, Value>,
    /// Until when a person may decide; none if nobody is asked.
    pub expires_at: Option<Timestamp>,
    /// Who asked.
    pub asked_by: String,
    /// The caller's key, and the digest of what was asked under it.
    pub idempotency: Option<(String, ContentHash)>,
    /// The server that runs it.
    pub node: String,
}

/// What came of a call.
#[derive(Clone, Debug, Default)]
pub struct CallOutcome {
    /// What it returned, or a summary of it.
    pub result: Option<Value>,
    /// The blob that has all of it, if `result` is a summary.
    pub result_sha256: Option<ContentHash>,
    /// Why it returned nothing.
    pub error: Option<CallError>,
    /// How to show it.
    pub render_plan: Option<Value>,
    /// The blob that it is shown with.
    pub artifact_sha256: Option<ContentHash>,
    /// What whoever reads it should know.
    pub warnings: Vec<String>,
    /// The end of what it said.
    pub logs: Vec<LogLine>,
    /// How many bytes of that were left out.
    pub logs_cut: u64,
    /// What held it.
    pub sandbox: Option<SandboxReport>,
    /// The state of the workspace before.
    pub pre_manifest_id: Option<ManifestId>,
    /// The state of the workspace after.
    pub post_manifest_id: Option<ManifestId>,
}

impl CallOutcome {
    /// It failed before it began.
    pub fn failed(error: CallError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// A call.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// Its id.
    pub id: ToolCallId,
    /// In which chat.
    pub chat_id: ChatId,
    /// The message that it belongs to.
    pub message_id: MessageId,
    /// Which tool.
    pub tool_id: ToolId,
    /// Which version of the tool's code.
    pub generation: Option<String>,
    /// Its arguments.
    pub args: Map<String, Value>,
    /// What a decision is bound to: the tool and the arguments.
    pub args_sha256: ContentHash,
    /// How far it is.
    pub status: CallStatus,
    /// Who asked.
    pub asked_by: String,
    /// Until when a person may decide; none if nobody is asked.
    pub expires_at: Option<Timestamp>,
    /// What a person said.
    pub decision: Option<Decision>,
    /// The digest of the request, if it came with a key.
    pub request_sha256: Option<ContentHash>,
    /// When it was asked for.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What came of it; empty until it ended.
    pub outcome: CallOutcome,
}

/// What a decision about a call is bound to: this tool with these arguments. The spelling of the arguments is the one that is
/// kept and shown, so that whoever says yes says it to what runs.
pub fn args_digest(tool: &ToolId, args: &Map<String, Value>) -> ContentHash {
    let mut hasher = Hasher::default();
    hasher.update(b"kitbag call 1\n");
    hasher.update(tool.to_string().as_bytes());
    hasher.update(b"\n");
    // As the value's own `Display` writes it.
    hasher.update(&serde_json::to_vec(args).expect("values can be written as JSON"));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for status in CallStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
        assert_eq!("done".parse::<CallStatus>(), Err(UnknownWord("status of a call")));
        let error = CallError::new(CallErrorCode::Denied, "no");
        let written = serde_json::to_value(&error).unwrap();
        assert_eq!(written, json!({ "code": "DENIED", "message": "no" }));
        assert_eq!(serde_json::from_value::<CallError>(written).unwrap(), error);
    }

    #[test]
    fn a_digest_is_of_the_tool_and_its_arguments() {
        let of = |tool: &str, args: Value| match args {
            Value::Object(args) => args_digest(&tool.parse().unwrap(), &args),
            _ => unreachable!(),
        };
        let one = of("app:a", json!({ "x": 1 }));
        assert_eq!(one, of("app:a", json!({ "x": 1 })));
        assert_ne!(one, of("app:b", json!({ "x": 1 })));
        assert_ne!(one, of("app:a", json!({ "x": 2 })));
        assert_ne!(one, of("app:a", json!({ "x": "1" })));
    }
}
