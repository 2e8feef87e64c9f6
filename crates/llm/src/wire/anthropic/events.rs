//! An answer in Anthropic's events: blocks that begin, grow and end, between the beginning and the end of a message.

use std::collections::{BTreeMap, VecDeque};

use kitbag_guard::dial::Event;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ask::Part;
use crate::error::Broken;
use crate::heard::{Heard, Stop, Usage};
use crate::wire::arguments::{call, call_with, id_or_new, short};
use crate::wire::{complaint, or_default, read};

/// The state between two events.
#[derive(Default)]
pub(crate) struct Reader {
    /// Those that are not whole yet.
    blocks: BTreeMap<u64, Block>,
    calls: usize,
    usage: Counted,
    stop: Option<Stop>,
}

/// A block under way.
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(Value),
    Call {
        id: String,
        name: String,
        given: Value,
        raw: String,
    },
    /// Something that was not asked for, and says nothing to anybody here.
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said {
    MessageStart {
        #[serde(default, deserialize_with = "or_default")]
        message: Begun,
    },
    ContentBlockStart {
        index: u64,
        content_block: Value,
    },
    ContentBlockDelta {
        index: u64,
        #[serde(default, deserialize_with = "or_default")]
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        #[serde(default, deserialize_with = "or_default")]
        delta: Ending,
        #[serde(default, deserialize_with = "or_default")]
        usage: Counted,
    },
    MessageStop,
    Error(Value),
    /// A sign of life, or something that is not known yet.
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
struct Begun {
    #[serde(default, deserialize_with = "or_default")]
    usage: Counted,
}

#[derive(Default, Deserialize)]
struct Ending {
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    Arguments { partial_json: String },
    #[default]
    #[serde(other)]
    Other,
}

/// Totals; what is said later counts.
#[derive(Default, Deserialize)]
struct Counted {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Counted {
    fn then(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: later.cache_creation_input_tokens.or(self.cache_creation_input_tokens),
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens.unwrap_or_default(),
            output_tokens: self.output_tokens.unwrap_or_default(),
            cache_read_tokens: self.cache_read_input_tokens.unwrap_or_default(),
            cache_write_tokens: self.cache_creation_input_tokens.unwrap_or_default(),
        }
    }
}

impl Reader {
    /// Takes an event; whether the answer is whole now.
    pub(in crate::wire) fn take(&mut self, event: &Event, heard: &mut VecDeque<Heard>) -> Result<bool, Broken> {
        match read(event)? {
            Said::MessageStart { message } => self.count(message.usage),
            Said::ContentBlockStart { index, content_block } => {
                let block = self.begin(content_block, heard);
                self.blocks.insert(index, block);
            }
            Said::ContentBlockDelta { index, delta } => self.grow(index, delta, heard)?,
            Said::ContentBlockStop { index } => {
                let block = self.blocks.remove(&index).ok_or_else(unbegun)?;
                heard.extend(whole(block).map(Heard::Part));
            }
            Said::MessageDelta { delta, usage } => {
                self.count(usage);
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop.take());
            }
            Said::MessageStop => {
                if !self.blocks.is_empty() {
                    return Err(Broken::Malformed("the message ends before a block of it does".to_owned()));
                }
                heard.push_back(Heard::Usage(self.usage.usage()));
                let unsaid = if self.calls > 0 { Stop::ToolCalls } else { Stop::End };
                heard.push_back(Heard::Done(self.stop.take().unwrap_or(unsaid)));
                return Ok(true);
            }
            Said::Error(said) => return Err(Broken::Complaint(complaint(&said))),
            Said::Other => {}
        }
        Ok(false)
    }

    fn count(&mut self, later: Counted) {
        self.usage = std::mem::take(&mut self.usage).then(later);
    }

    fn begin(&mut self, block: Value, heard: &mut VecDeque<Heard>) -> Block {
        let word = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => {
                let text = word("text");
                heard.extend(some(&text).map(Heard::Text));
                Block::Text(text)
            }
            "thinking" => {
                let text = word("thinking");
                heard.extend(some(&text).map(Heard::Thinking));
                Block::Thinking { text, signature: word("signature") }
            }
            // Only what goes back: nobody bounds what else may be in it.
            "redacted_thinking" => Block::Redacted(json!({"type": "redacted_thinking", "data": word("data")})),
            "tool_use" => {
                let (id, name, index) = (id_or_new(word("id")), short(word("name")), self.calls);
                self.calls += 1;
                heard.push_back(Heard::ToolCallBegan { index, id: id.clone(), name: name.clone() });
                let given = block.get("input").cloned().unwrap_or_default();
                Block::Call { id, name, given, raw: String::new() }
            }
            _ => Block::Other,
        }
    }

    fn grow(&mut self, index: u64, delta: Delta, heard: &mut VecDeque<Heard>) -> Result<(), Broken> {
        match (self.blocks.get_mut(&index).ok_or_else(unbegun)?, delta) {
            (Block::Text(text), Delta::Text { text: more }) => {
                text.push_str(&more);
                heard.extend(some(&more).map(Heard::Text));
            }
            (Block::Thinking { text, .. }, Delta::Thinking { thinking }) => {
                text.push_str(&thinking);
                heard.extend(some(&thinking).map(Heard::Thinking));
            }
            (Block::Thinking { signature, .. }, Delta::Signature { signature: more }) => signature.push_str(&more),
            (Block::Call { raw, .. }, Delta::Arguments { partial_json }) => raw.push_str(&partial_json),
            (Block::Other | Block::Redacted(_), _) | (_, Delta::Other) => {}
            _ => return Err(Broken::Malformed("a block grows by what does not belong into it".to_owned())),
        }
        Ok(())
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn unbegun() -> Broken {
    Broken::Malformed("a block goes on that never began".to_owned())
}

/// What became of a block.
fn whole(block: Block) -> Option<Part> {
    match block {
        Block::Text(text) => some(&text).map(Part::Text),
        Block::Thinking { text, signature } => {
            Some(Part::Thinking { text, proof: Some(json!({"type": "thinking", "signature": signature})) })
        }
        Block::Redacted(block) => Some(Part::Thinking { text: String::new(), proof: Some(block) }),
        // Servers that speak this wire without being Anthropic give the arguments with the beginning.
        Block::Call { id, name, given, raw } if raw.is_empty() && given.is_object() => Some(call_with(id, name, given)),
        Block::Call { id, name, raw, .. } => Some(call(id, name, raw)),
        Block::Other => None,
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refused,
        _ => Stop::Other,
    }
}
