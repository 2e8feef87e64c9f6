//! What is told while a run goes on: one shape for all engines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::{RunError, RunState};
use super::trace::Trace;
use crate::time::Timestamp;

/// Something that happened in a run. Those of one attempt are counted from 1, so that one that comes twice counts once.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// Its number in its attempt.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub kind: RunEventKind,
}

/// What happened.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum RunEventKind {
    /// The run is in another state.
    State {
        /// The state.
        state: RunState,
        /// Why, where that is not plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Of which trace it is, where there is one: said when it is put into the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Trace>,
    },
    /// Which toolset the agent has.
    AgentToolsetApplied {
        /// The toolset.
        toolset_id: String,
        /// What people call it.
        toolset_name: String,
        /// The engine.
        engine_id: String,
        /// The servers that it has.
        servers: Vec<String>,
        /// The skills that were staged.
        skills: Vec<String>,
    },
    /// That it has none, and why.
    ToolsetNotApplied {
        /// In words.
        reason: String,
    },
    /// Something about how the run is done.
    Log {
        /// `info`, `warn` or `error`.
        level: String,
        /// What.
        message: String,
    },
    /// What the agent says.
    Text {
        /// It.
        text: String,
    },
    /// What the agent thinks.
    Thinking {
        /// It.
        text: String,
    },
    /// The agent uses a tool.
    ToolCall {
        /// The engine's own name for this call.
        call_id: String,
        /// The tool, as the agent sees it.
        tool: String,
        /// With what.
        input: Value,
    },
    /// What a tool gave back.
    ToolResult {
        /// Which call it was.
        call_id: String,
        /// What it gave.
        output: Value,
        /// Whether it failed.
        is_error: bool,
    },
    /// What was used so far.
    Usage {
        /// Tokens that went in.
        input_tokens: u64,
        /// Tokens that came out.
        output_tokens: u64,
    },
    /// The answer.
    Final {
        /// It.
        output: Value,
    },
    /// Why there is none.
    Error {
        /// The reason.
        error: RunError,
    },
}
