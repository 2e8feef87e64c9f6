//! Who made a call, where that matters to how it is made: a client of our own MCP endpoint, which hears of progress, may be asked
//! back, and gets the server's answer as it came.

use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::connection::{Answers, CallError};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{CallStatus, OrgId, ToolCall, ToolCallId};
use kitbag_python::Event;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Asked, Calls};
use crate::api::error::ApiError;

/// So often somebody who waits for a yes looks, whatever was told.
const LOOK: Duration = Duration::from_secs(1);

/// Who made a call.
pub(crate) struct Company {
    /// What goes to a server beside the tool's name: the arguments, too, as they came, unless the call's own are others.
    pub(crate) params: Shallow,
    /// Who answers what the server asks, and hears what it says.
    pub(crate) answers: Arc<dyn Answers>,
    /// Whether the client itself deals with questions that a server has as an answer.
    pub(crate) relay: bool,
}

/// What a server answered, as it came.
#[derive(Clone, Debug)]
pub(crate) enum Answered {
    Result(Arc<RawValue>),
    /// An error of the protocol.
    Refused {
        code: i64,
        message: String,
        data: Option<Value>,
    },
}

impl Answered {
    pub(super) fn of(answer: &Result<Box<RawValue>, CallError>) -> Option<Self> {
        match answer {
            Ok(raw) => Some(Self::Result(raw.clone().into())),
            Err(CallError::Refused { code, message, data }) => {
                Some(Self::Refused { code: *code, message: message.clone(), data: data.clone() })
            }
            Err(_) => None,
        }
    }
}

impl Company {
    /// The same, where somebody who said yes said with which arguments: what came with the request are others now, and what a client
    /// answered before was about those.
    pub(super) fn with_other_arguments(&self) -> Self {
        let mut params = self.params.clone();
        ["arguments", "inputResponses", "requestState"].iter().for_each(|name| drop(params.remove(name)));
        Self { params, answers: Arc::clone(&self.answers), relay: self.relay }
    }

    /// A worker said how far it is, or wrote a line.
    pub(super) fn heard(&self, event: &Event, step: u64) {
        if let Event::Progress { fraction, message } = event {
            let mut params = Map::new();
            match fraction.filter(|fraction| fraction.is_finite()) {
                Some(fraction) => {
                    params.insert("progress".to_owned(), json!(fraction));
                    params.insert("total".to_owned(), json!(1));
                }
                // Progress must grow, also where nobody knows how far it goes.
                None => drop(params.insert("progress".to_owned(), json!(step))),
            }
            params.extend(message.clone().map(|message| ("message".to_owned(), message.into())));
            self.answers.told("notifications/progress", &Value::Object(params));
        }
    }
}

impl Calls {
    /// Who made a call that waits for a yes: when it runs, they hear of it.
    pub(crate) fn accompany(&self, call: ToolCallId, company: Arc<Company>) {
        self.companies().insert(call, company);
    }

    /// Waits until a call that needs a yes is decided about, or its time is up.
    pub(crate) async fn decided(&self, org: &OrgId, call: &ToolCall) -> Result<Asked, ApiError> {
        let mut events = self.0.events.listen();
        loop {
            let now = self.again(org, call).await?;
            if now.status != CallStatus::Pending {
                let live = self.0.lives.find(org, now.chat_id, now.id);
                return Ok(Asked::new(Arc::new(now), live));
            }
            let ours = async {
                loop {
                    match events.recv().await {
                        Ok(event) if event.data.get("id").and_then(Value::as_str) != Some(&call.id.to_string()) => {}
                        // It was decided about, or something was missed.
                        _ => return,
                    }
                }
            };
            // Whoever looks at a call whose time is up ends it.
            let _ = tokio::time::timeout(LOOK, ours).await;
        }
    }

    /// The call is over, or its maker is gone.
    pub(crate) fn leave(&self, call: ToolCallId) {
        self.companies().remove(&call);
    }
}
