//! A question in Anthropic's words.

use serde_json::{Map, Value, json};

use crate::ask::{Ask, Message, Part, Thinking, ToolResult};
use crate::wire::arguments::unreadable;

/// The least that a model may be told to think.
const LEAST_BUDGET: u32 = 1024;

pub(in crate::wire) fn request(ask: &Ask, messages: &[Message]) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(ask.model));
    body.insert("max_tokens".to_owned(), json!(ask.max_output_tokens));
    body.insert("stream".to_owned(), json!(true));
    // Who has tools asks again with the same beginning after each call: what was read once is read from the cache then. A single question
    // would only pay more for being kept.
    let is_loop = !ask.tools.is_empty();
    if let Some(system) = ask.system.as_deref().and_then(text) {
        body.insert("system".to_owned(), json!([kept(system, is_loop)]));
    }
    if is_loop {
        let tools = ask
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}));
        body.insert("tools".to_owned(), tools.collect());
    }
    let mut messages: Vec<(&str, Vec<Value>)> = messages.iter().map(message).collect();
    // A message without anything in it is refused.
    messages.retain(|(_, content)| !content.is_empty());
    if let Some(last) = messages.last_mut().and_then(|(_, content)| content.last_mut()) {
        *last = kept(last.take(), is_loop);
    }
    let messages = messages.into_iter().map(|(role, content)| json!({"role": role, "content": content}));
    body.insert("messages".to_owned(), messages.collect());
    think(ask, &mut body);
    Value::Object(body)
}

fn think(ask: &Ask, body: &mut Map<String, Value>) {
    match ask.thinking {
        Some(Thinking::Budget(budget)) => {
            let budget = budget.min(ask.max_output_tokens.saturating_sub(1));
            if budget >= LEAST_BUDGET {
                body.insert("thinking".to_owned(), json!({"type": "enabled", "budget_tokens": budget}));
            }
        }
        Some(Thinking::Effort(effort)) => {
            body.insert("thinking".to_owned(), json!({"type": "adaptive"}));
            body.insert("output_config".to_owned(), json!({"effort": effort.as_str()}));
        }
        None => {}
    }
}

/// Marks a block as the end of what is to be cached.
fn kept(mut block: Value, is_loop: bool) -> Value {
    let kind = block.get("type").and_then(Value::as_str);
    let can_be = !matches!(kind, Some("thinking" | "redacted_thinking"));
    if let (true, true, Value::Object(fields)) = (is_loop, can_be, &mut block) {
        fields.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    block
}

fn message(message: &Message) -> (&'static str, Vec<Value>) {
    match message {
        Message::User(parts) => ("user", parts.iter().filter_map(shown).collect()),
        Message::Assistant(parts) => ("assistant", parts.iter().filter_map(said).collect()),
        Message::Results(results) => ("user", results.iter().map(result).collect()),
    }
}

/// What a person or a tool can show.
fn shown(part: &Part) -> Option<Value> {
    match part {
        Part::Text(words) => text(words),
        Part::Image { mime, base64 } => {
            Some(json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": base64}}))
        }
        Part::Thinking { .. } | Part::ToolCall { .. } | Part::BadToolCall { .. } => None,
    }
}

/// What the model can have said.
fn said(part: &Part) -> Option<Value> {
    match part {
        Part::Text(words) => text(words),
        Part::Thinking { text, proof } => thought(text, proof.as_ref()?),
        Part::ToolCall { id, name, arguments } => {
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": arguments}))
        }
        Part::BadToolCall { id, name, raw, .. } => {
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": unreadable(raw)}))
        }
        Part::Image { .. } => None,
    }
}

/// Thinking goes back exactly as it came, or not at all: without its proof, or with another provider's, it would be refused.
fn thought(text: &str, proof: &Value) -> Option<Value> {
    match proof.get("type").and_then(Value::as_str)? {
        "thinking" => Some(json!({"type": "thinking", "thinking": text, "signature": proof.get("signature")?})),
        "redacted_thinking" => Some(json!({"type": "redacted_thinking", "data": proof.get("data")?})),
        _ => None,
    }
}

fn result(result: &ToolResult) -> Value {
    let content: Vec<Value> = result.content.iter().filter_map(shown).collect();
    let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": content});
    if let (true, Value::Object(fields)) = (result.is_error, &mut block) {
        fields.insert("is_error".to_owned(), json!(true));
    }
    block
}

/// A text without words is refused.
fn text(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| json!({"type": "text", "text": words}))
}
