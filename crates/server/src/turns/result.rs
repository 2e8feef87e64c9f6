//! What a model is told of a call that is over.

use kitbag_llm::Part;
use kitbag_model::{CallErrorCode, CallStatus, ToolCall, ToolId};
use serde_json::Value;

/// A model is told no more letters of a result than this. All of it is in the call's record.
const MOST_LETTERS: usize = 100_000;

/// The result of a call, and whether it failed.
pub(crate) fn told(call: &ToolCall) -> (Vec<Part>, bool) {
    if let Some(error) = &call.outcome.error {
        let text = match error.code {
            CallErrorCode::ToolFailed => error.message.clone(),
            code => format!("{}: {}", code.as_str(), error.message),
        };
        return (vec![cut(text)], true);
    }
    if call.status != CallStatus::Success {
        return (vec![Part::Text("it is not over; the turn ended before".to_owned())], true);
    }
    let result = call.outcome.result.clone().unwrap_or(Value::Null);
    let content =
        result.get("content").and_then(Value::as_array).filter(|_| matches!(call.tool_id, ToolId::Mcp { .. }));
    let parts: Vec<Part> = match (content, &result) {
        (Some(content), _) => content.iter().map(part).collect(),
        (None, Value::String(text)) => vec![cut(text.clone())],
        (None, value) => vec![cut(serde_json::to_string_pretty(value).unwrap_or_default())],
    };
    let is_error = result.get("isError") == Some(&Value::Bool(true)) && content.is_some();
    match parts.is_empty() {
        true => (vec![Part::Text("(nothing)".to_owned())], is_error),
        false => (parts, is_error),
    }
}

/// A piece of what an MCP server answered.
fn part(block: &Value) -> Part {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match (text("type"), text("text"), text("data"), text("mimeType")) {
        (Some("text"), Some(text), ..) => cut(text.to_owned()),
        (Some("image"), _, Some(data), Some(mime)) => Part::Image { mime: mime.to_owned(), base64: data.to_owned() },
        _ => cut(block.to_string()),
    }
}

fn cut(text: String) -> Part {
    match text.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => Part::Text(format!("{}\n[cut: {} bytes in all]", text.split_at(end).0, text.len())),
        None => Part::Text(text),
    }
}
