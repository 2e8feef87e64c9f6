//! A well-formed answer in Anthropic's events, as its API sends them.

use serde_json::{Value, json};

use super::gate::Gate;
use super::reply::Reply;

/// An answer that is being written. Parts come in the order of the calls; [`Anthropic::ends`] or [`Anthropic::cut`] makes it a [`Reply`].
#[derive(Clone, Debug)]
pub struct Anthropic {
    reply: Reply,
    index: usize,
    output_tokens: u64,
}

impl Default for Anthropic {
    fn default() -> Self {
        Self::new()
    }
}

impl Anthropic {
    /// The beginning of a message that reads 10 tokens and writes 5.
    pub fn new() -> Self {
        Self::with_usage(&json!({"input_tokens": 10, "output_tokens": 5}))
    }

    /// The beginning of a message that costs this: `input_tokens`, `output_tokens`, `cache_read_input_tokens`,
    /// `cache_creation_input_tokens`.
    pub fn with_usage(usage: &Value) -> Self {
        let mut begun = usage.clone();
        // At the beginning it has written next to nothing.
        begun["output_tokens"] = json!(1);
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": begun,
        });
        let output_tokens = usage["output_tokens"].as_u64().unwrap_or_default();
        let new = Self { reply: Reply::events(), index: 0, output_tokens };
        new.event(&json!({"type": "message_start", "message": message})).event(&json!({"type": "ping"}))
    }

    /// Any event.
    pub fn event(mut self, data: &Value) -> Self {
        let kind = data["type"].as_str().unwrap_or_default();
        self.reply = self.reply.then(format!("event: {kind}\ndata: {data}\n\n"));
        self
    }

    /// Any bytes.
    pub fn raw(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.reply = self.reply.then(bytes);
        self
    }

    /// Waits.
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.reply = self.reply.hold(gate);
        self
    }

    fn block(mut self, begin: &Value, deltas: impl IntoIterator<Item = Value>) -> Self {
        let index = self.index;
        self.index += 1;
        self = self.event(&json!({"type": "content_block_start", "index": index, "content_block": begin}));
        for delta in deltas {
            self = self.event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        self.event(&json!({"type": "content_block_stop", "index": index}))
    }

    /// Words, in these bits.
    pub fn text(self, bits: &[&str]) -> Self {
        let deltas = bits.iter().map(|bit| json!({"type": "text_delta", "text": bit}));
        self.block(&json!({"type": "text", "text": ""}), deltas)
    }

    /// Thinking, in these bits, with its signature.
    pub fn thinking(self, bits: &[&str], signature: &str) -> Self {
        let deltas = bits.iter().map(|bit| json!({"type": "thinking_delta", "thinking": bit}));
        let deltas = deltas.chain([json!({"type": "signature_delta", "signature": signature})]);
        self.block(&json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
    }

    /// Thinking that is not shown.
    pub fn redacted(self, data: &str) -> Self {
        self.block(&json!({"type": "redacted_thinking", "data": data}), [])
    }

    /// A call, its arguments in these bits of JSON.
    pub fn tool_call(self, id: &str, name: &str, bits: &[&str]) -> Self {
        let deltas = bits.iter().map(|bit| json!({"type": "input_json_delta", "partial_json": bit}));
        self.block(&json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas)
    }

    /// The end, for this reason: `end_turn`, `tool_use`, `max_tokens`, `refusal`.
    pub fn ends(self, reason: &str) -> Reply {
        let usage = json!({"output_tokens": self.output_tokens});
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        let ended = self.event(&json!({"type": "message_delta", "delta": delta, "usage": usage}));
        ended.event(&json!({"type": "message_stop"})).reply
    }

    /// No end: the connection breaks here.
    pub fn cut(self) -> Reply {
        self.reply.cut()
    }

    /// What was written so far, and the body ends in good order.
    pub fn as_it_is(self) -> Reply {
        self.reply
    }
}
