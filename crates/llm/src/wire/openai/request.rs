//! A question in OpenAI's words.

use serde_json::{Map, Value, json};

use crate::ask::{Ask, Effort, Message, Part, Thinking, ToolResult};
use crate::provider::Provider;
use crate::wire::arguments::unreadable;

pub(in crate::wire) fn request(provider: &Provider, ask: &Ask, said: &[Message]) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(ask.model));
    // OpenAI's models that think refuse the old word; most others know no other.
    let most = if provider.is_openai_itself() { "max_completion_tokens" } else { "max_tokens" };
    body.insert(most.to_owned(), json!(ask.max_output_tokens));
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if let Some(thinking) = ask.thinking {
        body.insert("reasoning_effort".to_owned(), json!(effort(thinking).as_str()));
    }
    if !ask.tools.is_empty() {
        let tools = ask.tools.iter().map(|tool| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    let mut messages = Vec::new();
    if let Some(system) = ask.system.as_deref().filter(|system| !system.is_empty()) {
        messages.push(json!({"role": "system", "content": system}));
    }
    // What was thought goes back only while the model is at the same turn: further back it is refused by some and ignored by others.
    let turn = said.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or_default();
    for (at, message) in said.iter().enumerate() {
        match message {
            Message::User(parts) => messages.extend(user(parts)),
            Message::Assistant(parts) => messages.extend(assistant(parts, at > turn)),
            Message::Results(results) => add_results(results, &mut messages),
        }
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

/// There are no budgets here.
fn effort(thinking: Thinking) -> Effort {
    match thinking {
        Thinking::Effort(effort) => effort,
        Thinking::Budget(..=2048) => Effort::Low,
        Thinking::Budget(..=8192) => Effort::Medium,
        Thinking::Budget(_) => Effort::High,
    }
}

fn user(parts: &[Part]) -> Option<Value> {
    let content: Vec<Value> = parts.iter().filter_map(shown).collect();
    // Words alone go as a text: small servers know nothing else.
    let content = match content.as_slice() {
        [] => return None,
        [only] if only.get("text").is_some() => only.get("text").cloned(),
        _ => None,
    }
    .unwrap_or(Value::Array(content));
    Some(json!({"role": "user", "content": content}))
}

fn shown(part: &Part) -> Option<Value> {
    match part {
        Part::Text(words) => (!words.trim().is_empty()).then(|| json!({"type": "text", "text": words})),
        Part::Image { mime, base64 } => {
            Some(json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{base64}")}}))
        }
        Part::Thinking { .. } | Part::ToolCall { .. } | Part::BadToolCall { .. } => None,
    }
}

fn assistant(parts: &[Part], is_this_turn: bool) -> Option<Value> {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let (mut words, mut calls) = (String::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(text) => words.push_str(text),
            Part::Thinking { text, proof } if is_this_turn => {
                // The proof is the name under which this very server gave it.
                if let Some(field) = proof.as_ref().and_then(|proof| proof.get("field")).and_then(Value::as_str) {
                    let before = message.get(field).and_then(Value::as_str).unwrap_or_default();
                    message.insert(field.to_owned(), json!(format!("{before}{text}")));
                }
            }
            Part::ToolCall { id, name, arguments } => calls.push(call(id, name, arguments)),
            Part::BadToolCall { id, name, raw, .. } => calls.push(call(id, name, &unreadable(raw))),
            Part::Image { .. } | Part::Thinking { .. } => {}
        }
    }
    if words.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if words.is_empty() { Value::Null } else { json!(words) };
    message.insert("content".to_owned(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(Value::Object(message))
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
}

/// A message for each result. Images have no place in them, so they follow as a person's message, after all of them: nothing may stand
/// between a call and its result.
fn add_results(results: &[ToolResult], messages: &mut Vec<Value>) {
    let mut images = Vec::new();
    for result in results {
        let mut words = Vec::new();
        let before = images.len();
        for part in &result.content {
            match part {
                Part::Text(text) => words.push(text.as_str()),
                Part::Image { .. } => {
                    if images.len() == before {
                        images.push(json!({"type": "text", "text": format!("Images of the result of {}:", result.id)}));
                    }
                    images.extend(shown(part));
                }
                Part::Thinking { .. } | Part::ToolCall { .. } | Part::BadToolCall { .. } => {}
            }
        }
        let mut words = words.join("\n");
        if images.len() > before {
            let gap = if words.is_empty() { "" } else { "\n" };
            words = format!("{words}{gap}(The images of this result follow.)");
        }
        // There is no other way to say so.
        if result.is_error {
            words = format!("Error: {words}");
        }
        messages.push(json!({"role": "tool", "tool_call_id": result.id, "content": words}));
    }
    if !images.is_empty() {
        messages.push(json!({"role": "user", "content": images}));
    }
}
