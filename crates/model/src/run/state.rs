//! What state a run is in, and how it ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

use crate::id::text_serde;
use crate::toolset::words;

words!(
    /// The state of a run.
    RunState, UnknownRunState,
    "unknown state; the states are queued, leased, running, succeeded, failed, cancelled and timed_out", {
        /// It waits for an executor.
        Queued = "queued",
        /// An executor has it and has not begun.
        Leased = "leased",
        /// The agent works.
        Running = "running",
        /// It has an answer.
        Succeeded = "succeeded",
        /// It has none, and says why.
        Failed = "failed",
        /// Somebody ended it.
        Cancelled = "cancelled",
        /// Its time was up.
        TimedOut = "timed_out",
    }
);

impl RunState {
    /// Whether nothing comes after it.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut)
    }

    /// Whether it may be followed by `next`. A run whose executor vanished waits again.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Leased | Self::Cancelled | Self::Failed | Self::TimedOut),
            Self::Leased | Self::Running => {
                next != self && next != Self::Leased && (next != Self::Running || self == Self::Leased)
            }
            _ => false,
        }
    }
}

/// Why a run has no answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// A word to act on, such as `MCP_ENV_NOT_SET:TOKEN`.
    pub code: String,
    /// What happened, in words.
    pub message: String,
}

/// How an attempt ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOutcome {
    /// One of the states that are over.
    pub state: RunState,
    /// The answer: a text, or JSON where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What it used, as the engine says it: `inputTokens`, `outputTokens`, `turns`, `toolCalls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_forward_or_waits_again() {
        use RunState::{Cancelled, Failed, Leased, Queued, Running, Succeeded, TimedOut};
        let over = [Succeeded, Failed, Cancelled, TimedOut];
        for state in RunState::ALL {
            assert_eq!(state.is_over(), over.contains(state));
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        for (from, next) in [
            (Queued, vec![Leased, Failed, Cancelled, TimedOut]),
            (Leased, vec![Queued, Running, Succeeded, Failed, Cancelled, TimedOut]),
            (Running, vec![Queued, Succeeded, Failed, Cancelled, TimedOut]),
        ] {
            let may: Vec<_> = RunState::ALL.iter().copied().filter(|to| from.may_become(*to)).collect();
            assert_eq!(may, next, "{from}");
        }
        assert!(over.iter().all(|from| RunState::ALL.iter().all(|to| !from.may_become(*to))));
    }
}
