//! A well-formed answer in OpenAI's chunks, as its API sends them.

use serde_json::{Value, json};

use super::gate::Gate;
use super::reply::Reply;

/// An answer that is being written. Parts come in the order of the calls; [`OpenAi::ends`] or [`OpenAi::cut`] makes it a [`Reply`].
#[derive(Clone, Debug)]
pub struct OpenAi {
    reply: Reply,
    calls: usize,
    usage: Value,
}

impl Default for OpenAi {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenAi {
    /// The beginning of an answer that reads 10 tokens and writes 5.
    pub fn new() -> Self {
        Self::with_usage(&json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}))
    }

    /// The beginning of an answer that costs this; null: it does not say.
    pub fn with_usage(usage: &Value) -> Self {
        let new = Self { reply: Reply::events(), calls: 0, usage: usage.clone() };
        new.delta(&json!({"role": "assistant", "content": ""}))
    }

    fn chunk(self, choices: &Value, usage: &Value) -> Self {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stand-in",
            "choices": choices, "usage": usage,
        });
        self.event(&chunk)
    }

    /// Any event.
    pub fn event(mut self, data: &Value) -> Self {
        self.reply = self.reply.event(data);
        self
    }

    /// Any delta.
    pub fn delta(self, delta: &Value) -> Self {
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), &Value::Null)
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

    /// Words, in these bits.
    pub fn text(self, bits: &[&str]) -> Self {
        bits.iter().fold(self, |answer, bit| answer.delta(&json!({"content": bit})))
    }

    /// Thinking as servers beside OpenAI show it, in these bits.
    pub fn thinking(self, bits: &[&str]) -> Self {
        bits.iter().fold(self, |answer, bit| answer.delta(&json!({"reasoning_content": bit})))
    }

    /// A call, its arguments in these bits of JSON.
    pub fn tool_call(mut self, id: &str, name: &str, bits: &[&str]) -> Self {
        let index = self.calls;
        self.calls += 1;
        let begun = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        bits.iter().fold(self.delta(&json!({"tool_calls": [begun]})), |answer, bit| {
            answer.delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": bit}}]}))
        })
    }

    /// The chunk that says why it ends, and neither what it cost nor `[DONE]`.
    pub fn stops(self, reason: &str) -> Self {
        self.chunk(&json!([{"index": 0, "delta": {}, "finish_reason": reason}]), &Value::Null)
    }

    /// The end, for this reason: `stop`, `tool_calls`, `length`, `content_filter`.
    pub fn ends(self, reason: &str) -> Reply {
        let usage = self.usage.clone();
        let mut ended = self.stops(reason);
        if !usage.is_null() {
            ended = ended.chunk(&json!([]), &usage);
        }
        ended.raw("data: [DONE]\n\n").reply
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
