//! A provider's no in JSON: `{"error": {"type": …, "code": …, "message": …}}`, as both wires have it and others have it nearly.

use serde_json::Value;

use crate::error::Complaint;

/// What it says, and the status that it would have in front of a stream. Without any clue it counts as the provider's own failure.
pub(crate) fn complaint(said: &Value) -> Complaint {
    let error = said.get("error").unwrap_or(said);
    let word = |name: &str| error.get(name).and_then(Value::as_str);
    let message = error.as_str().or_else(|| word("message")).or_else(|| word("detail")).or_else(|| word("type"));
    let number = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
    let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| (400..600).contains(number));
    let status = number.or_else(|| word("type").and_then(status)).or_else(|| word("code").and_then(status));
    Complaint {
        status: status.unwrap_or(500),
        message: message.unwrap_or("it failed without a word").to_owned(),
        retry_after: None,
    }
}

/// The status that belongs to a kind of error, in Anthropic's and in OpenAI's words.
fn status(kind: &str) -> Option<u16> {
    Some(match kind {
        "invalid_request_error" | "context_length_exceeded" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_many_shapes() {
        for (said, status, message) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                529,
                "Overloaded",
            ),
            (json!({"error": {"message": "No", "type": "x", "code": "model_not_found"}}), 404, "No"),
            (json!({"error": {"code": 429, "message": "Slow down"}}), 429, "Slow down"),
            (json!({"error": {"code": 7, "message": "Odd"}}), 500, "Odd"),
            (json!({"error": "plain"}), 500, "plain"),
            (json!({"detail": "Not Found"}), 500, "Not Found"),
            (json!([]), 500, "it failed without a word"),
        ] {
            let found = complaint(&said);
            assert_eq!((found.status, found.message.as_str()), (status, message), "{said}");
        }
    }
}
