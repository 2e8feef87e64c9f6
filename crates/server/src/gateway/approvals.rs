//! Each yes to a call that has another round. A server may answer an approved call with questions, and a client without a session asks
//! for it again with the answers: nobody is asked a second time whether that very call may be made, but it may be made once. What it
//! carries is a random name, and what that is good for is known to the server alone that gave it out; other nodes pass the request on.
//! Where nobody knows the name any more, a person is asked again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_model::{ContentHash, ToolCall};
use tokio::time::Instant;

use super::state::PATIENCE;

/// So many of one token are kept; with more, its person is asked again.
const MOST: usize = 256;

/// The yeses that were given out.
#[derive(Default)]
pub(super) struct Approvals(Mutex<HashMap<String, Approval>>);

struct Approval {
    /// Who asked for the call.
    who: String,
    /// The version of the tool.
    generation: Option<String>,
    /// The tool and the arguments that the yes was for.
    args: ContentHash,
    until: Instant,
}

impl Approvals {
    /// A name for the next round of a call that somebody said yes to. None for another call.
    pub(super) fn of(&self, call: &ToolCall) -> Option<String> {
        call.decision.as_ref().filter(|decision| decision.approved)?;
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let (name, now) = (URL_SAFE_NO_PAD.encode(random), Instant::now());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, approval| approval.until > now);
        if all.values().filter(|approval| approval.who == call.asked_by).count() >= MOST {
            return None;
        }
        let until = now + Duration::from_secs(PATIENCE);
        let (who, generation) = (call.asked_by.clone(), call.generation.clone());
        all.insert(name.clone(), Approval { who, generation, args: call.args_sha256, until });
        Some(name)
    }

    /// Whether a call is the next round of the one that this name was made for. It is good for one call, this one or none.
    pub(super) fn spend(&self, name: &str, call: &ToolCall) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        found.is_some_and(|approval| {
            approval.who == call.asked_by
                && approval.generation == call.generation
                && approval.args == call.args_sha256
                && approval.until > Instant::now()
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use kitbag_model::{CallOutcome, CallStatus, ChatId, Decision, MessageId, Timestamp, ToolCallId, args_digest};
    use serde_json::{Map, Value, json};

    use super::*;

    fn call(who: &str, generation: &str, args: &Value, approved: Option<bool>) -> ToolCall {
        let tool_id = "mcp:a~b:echo".parse().unwrap();
        let args: Map<String, Value> = args.as_object().unwrap().clone();
        let now = Timestamp::now();
        ToolCall {
            id: ToolCallId::generate(),
            chat_id: ChatId::generate(),
            message_id: MessageId::generate(),
            generation: Some(generation.to_owned()),
            args_sha256: args_digest(&tool_id, &args),
            tool_id,
            args,
            status: CallStatus::Running,
            asked_by: who.to_owned(),
            expires_at: Some(now),
            decision: approved.map(|approved| Decision { approved, by: "somebody".to_owned(), at: now }),
            request_sha256: None,
            started_at: now,
            finished_at: None,
            outcome: CallOutcome::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_for_one_more_call_like_the_one_that_it_was_said_to() {
        let (all, args) = (Approvals::default(), json!({ "a": 1 }));
        let said = call("me", "v1", &args, Some(true));
        for other in
            [call("you", "v1", &args, None), call("me", "v2", &args, None), call("me", "v1", &json!({ "a": 2 }), None)]
        {
            let name = all.of(&said).unwrap();
            assert!(!all.spend(&name, &other));
            assert!(!all.spend(&name, &said), "whoever tried has spent it");
        }
        let (name, next) = (all.of(&said).unwrap(), call("me", "v1", &args, None));
        assert!(all.spend(&name, &next) && !all.spend(&name, &next) && !all.spend("another", &next));
        let late = all.of(&said).unwrap();
        tokio::time::advance(Duration::from_secs(PATIENCE)).await;
        assert!(!all.spend(&late, &next), "its time is up");
        for none in [call("me", "v1", &args, None), call("me", "v1", &args, Some(false))] {
            assert_eq!(all.of(&none), None, "nobody said yes");
        }
        let many: Vec<_> = (0..=MOST).map(|_| all.of(&said)).collect();
        assert_eq!(many.iter().flatten().count(), MOST, "no more of one token are kept");
        assert!(all.of(&call("you", "v1", &args, Some(true))).is_some());
    }
}
