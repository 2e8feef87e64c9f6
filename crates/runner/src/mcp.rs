//! One call of an MCP server's tool, and what its end means.

use kitbag_mcp::connection::{Call, CallError as Refusal};
use kitbag_mcp::manager::{Manager, ManagerError, Status};
use kitbag_model::{CallError, CallErrorCode, OrgId, SandboxReport, ServerKey, safe_text};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::outcome::{Ran, shortened};

/// Makes one call, to its end. What comes back is the server's whole answer: content, structured content and whatever else.
/// `answered` gets to see it as it came.
pub async fn run_mcp(
    manager: &Manager,
    org: &OrgId,
    server: &ServerKey,
    call: Call,
    answered: impl FnOnce(&Result<Box<RawValue>, Refusal>),
) -> Ran {
    let answer = match manager.call(org, server, call).await {
        Err(ManagerError::Call(error)) => Ok(Err(error)),
        Err(other) => Err(other),
        Ok(raw) => Ok(Ok(raw)),
    };
    if let Ok(answer) = &answer {
        answered(answer);
    }
    let read = |raw: Box<RawValue>| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    let answer = answer.and_then(|answer| answer.map_err(ManagerError::Call)).map(read);
    let result =
        answer.map_err(|error| told(server, cause(manager, org, server, error))).and_then(|answer| match answer {
            Value::Object(answer) if answer.get("isError") == Some(&Value::Bool(true)) => {
                Err(CallError::new(CallErrorCode::ToolFailed, shortened(&text_of(&answer))))
            }
            answer => Ok(answer),
        });
    Ran { result, logs: Vec::new(), logs_cut: 0, sandbox: SandboxReport::default(), left_running: false }
}

/// What a renderer's `$return` is: the structured content, else the only text (as JSON, if it is an object or a list), else
/// the whole answer.
pub fn returned(answer: &Value) -> Value {
    if let Some(structured) = answer.get("structuredContent").filter(|value| !value.is_null()) {
        return structured.clone();
    }
    let blocks = answer.get("content").and_then(Value::as_array);
    let Some([block]) = blocks.map(Vec::as_slice) else { return answer.clone() };
    match block.get("text").and_then(Value::as_str).filter(|_| block.get("type") == Some(&"text".into())) {
        Some(text) => match serde_json::from_str::<Value>(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
            _ => Value::String(text.to_owned()),
        },
        None => answer.clone(),
    }
}

/// What the text blocks of an answer say.
pub(crate) fn text_of(answer: &Map<String, Value>) -> String {
    let blocks = answer.get("content").and_then(Value::as_array);
    let texts = blocks.into_iter().flatten().filter_map(|block| block.get("text").and_then(Value::as_str));
    safe_text(&texts.collect::<Vec<_>>().join("\n"))
}

/// A connection that ended because somebody removed the server or turned it off did not break.
fn cause(manager: &Manager, org: &OrgId, server: &ServerKey, error: ManagerError) -> ManagerError {
    let ended = matches!(error, ManagerError::Call(Refusal::Disconnected(_)) | ManagerError::NotConnected { .. });
    if !ended {
        return error;
    }
    match manager.standing(org, server) {
        None => ManagerError::NotFound,
        // One that only sleeps is on: another node had it, or is to have it.
        Some((Status::Disconnected | Status::NeedsTrust, false)) => ManagerError::Disabled,
        Some(_) => error,
    }
}

fn told(server: &ServerKey, error: ManagerError) -> CallError {
    let (code, message) = match error {
        ManagerError::NotFound => (CallErrorCode::Interrupted, format!("the MCP server {server} was removed")),
        ManagerError::Disabled => (CallErrorCode::Interrupted, format!("the MCP server {server} was turned off")),
        ManagerError::NeedsTrust => {
            (CallErrorCode::NeedsTrust, format!("the MCP server {server} must be trusted before it may start"))
        }
        ManagerError::NeedsAuth { .. } => {
            (CallErrorCode::RequiresAuth, format!("somebody has to sign in to the MCP server {server}"))
        }
        ManagerError::EnvNotSet(name) => (
            CallErrorCode::EnvNotSet,
            format!("MCP_ENV_NOT_SET:{name}: the MCP server {server} needs the variable {name}, which is not set"),
        ),
        error @ ManagerError::NotConnected { .. } => (CallErrorCode::NotConnected, format!("{server}: {error}")),
        ManagerError::Call(error) => {
            let code = match &error {
                Refusal::Disconnected(_) | Refusal::Unheard(_) => CallErrorCode::NotConnected,
                Refusal::Timeout(_) => CallErrorCode::Timeout,
                Refusal::Cancelled => CallErrorCode::Cancelled,
                Refusal::NeedsAuth { .. } => CallErrorCode::RequiresAuth,
                Refusal::Refused { .. } | Refusal::Nonsense(_) => CallErrorCode::ToolFailed,
            };
            (code, safe_text(&error.to_string()))
        }
    };
    CallError::new(code, shortened(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_renderer_sees_is_what_the_tool_meant() {
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        assert_eq!(returned(&text("hello")), json!("hello"));
        assert_eq!(returned(&text("{\"a\": [1]}")), json!({ "a": [1] }));
        assert_eq!(returned(&text("7")), json!("7"), "a number may be a text that looks like one");
        let both = json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": { "a": 1 } });
        assert_eq!(returned(&both), json!({ "a": 1 }));
        let image = json!({ "content": [{ "type": "image", "data": "", "mimeType": "image/png" }] });
        assert_eq!(returned(&image), image);
        let two = json!({ "content": [{ "type": "text", "text": "x" }, { "type": "text", "text": "y" }] });
        assert_eq!(returned(&two), two);
    }

    #[test]
    fn every_end_has_a_code() {
        let server: ServerKey = "a~b".parse().unwrap();
        for (error, code, word) in [
            (ManagerError::EnvNotSet("TOKEN".to_owned()), "MCP_ENV_NOT_SET", "MCP_ENV_NOT_SET:TOKEN: "),
            (ManagerError::NeedsTrust, "NEEDS_TRUST", "trusted"),
            (ManagerError::Call(Refusal::Cancelled), "CANCELLED", "cancelled"),
            (ManagerError::Call(Refusal::Disconnected("x".to_owned())), "MCP_SERVER_NOT_CONNECTED", "x"),
            (ManagerError::Call(Refusal::Nonsense("\u{1b}[31mred".to_owned())), "TOOL_FAILED", "red"),
        ] {
            let told = told(&server, error);
            assert!(told.code.as_str() == code && told.message.contains(word), "{told:?}");
            assert!(!told.message.contains('\u{1b}'));
        }
    }
}
