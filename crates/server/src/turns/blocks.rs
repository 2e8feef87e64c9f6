//! What a turn leaves in its message: blocks. The first says what turn it is and how it stands; the others are what the model said and did, each
//! with the step it belongs to, so that the conversation can be put together again as its provider wants it.

use kitbag_llm::{Part, Stop, Usage};
use kitbag_model::{Content, Maker, Timestamp, ToolCallId, ToolId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::model::ModelName;

/// How a turn stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TurnState {
    Running,
    Done,
    /// Somebody ended it.
    Cancelled,
    Failed,
    /// It came to one of its limits.
    Limited,
    /// The server ended while it ran.
    Interrupted,
}

/// Why a turn did not come to its end.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct TurnError {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// The first block.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    pub(crate) turn_id: TurnId,
    pub(crate) state: TurnState,
    /// As it is asked for.
    pub(crate) model: String,
    /// Whose proofs of thinking are in it.
    pub(crate) maker: Maker,
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    /// How many tools there were, and how many bytes of them the model got.
    pub(crate) tools: Value,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub(crate) stop: Option<Stop>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<TurnError>,
    pub(crate) started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Timestamp>,
}

/// A reason to stop that is known here. A message is no worse for another one, which an older server wrote.
fn known<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Stop>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

impl Head {
    pub(crate) fn new(id: TurnId, model: &ModelName, tools: Value) -> Self {
        Self {
            turn_id: id,
            state: TurnState::Running,
            model: model.to_string(),
            maker: model.maker,
            steps: 0,
            usage: Usage::default(),
            tools,
            stop: None,
            error: None,
            started_at: Timestamp::now(),
            finished_at: None,
        }
    }

    /// The head of a message's blocks, if a turn wrote it.
    pub(crate) fn of(content: &Content) -> Option<Self> {
        let first = content.as_json().as_array()?.first()?;
        (first.get("type")? == "turn").then(|| serde_json::from_value(first.clone()).ok())?
    }
}

/// What became of a call that the model asked for.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// It is a call of the chat.
    Called(ToolCallId, ToolId),
    /// It was no call: there is no such tool, or its arguments do not fit.
    Refused(String),
    /// It was the search.
    Found(Vec<Value>),
}

/// Everything of a turn's message.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) head: Head,
    rest: Vec<Value>,
}

impl Blocks {
    pub(crate) fn new(head: Head) -> Self {
        Self { head, rest: Vec::new() }
    }

    /// The place of the next block.
    pub(crate) fn next(&self) -> usize {
        self.rest.len() + 1
    }

    /// A part that is whole. Where it stands, and what is kept of it.
    pub(crate) fn add(&mut self, part: &Part, step: u32) -> (usize, Value) {
        let block = match part {
            Part::Text(text) => json!({ "type": "text", "text": text, "step": step }),
            Part::Thinking { text, proof } => json!({ "type": "thinking", "text": text, "proof": proof, "step": step }),
            Part::Image { mime, base64 } => json!({ "type": "image", "mimeType": mime, "data": base64, "step": step }),
            Part::ToolCall { id, name, arguments } => {
                json!({ "type": "tool_call", "id": id, "name": name, "arguments": arguments, "step": step })
            }
            Part::BadToolCall { id, name, raw, problem } => {
                json!({ "type": "tool_call", "id": id, "name": name, "raw": raw, "error": problem, "step": step })
            }
        };
        self.rest.push(block.clone());
        (self.rest.len(), block)
    }

    /// What became of the call at a place.
    pub(crate) fn settle(&mut self, place: usize, fate: &Fate) -> Value {
        let block = &mut self.rest[place - 1];
        match fate {
            Fate::Called(id, tool) => {
                block["toolCallId"] = json!(id);
                block["toolId"] = json!(tool);
            }
            Fate::Refused(why) => block["error"] = json!(why),
            Fate::Found(found) => {
                block["type"] = json!("tool_search");
                block["found"] = json!(found);
            }
        }
        block.clone()
    }

    pub(crate) fn content(&self) -> Content {
        let mut head = serde_json::to_value(&self.head).unwrap_or_default();
        head["type"] = json!("turn");
        Content::of_blocks(std::iter::once(head).chain(self.rest.iter().cloned()).collect())
    }
}
