//! The arguments of a call as they are given: a text, a file, or standard input.

use std::io::Read;

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::visible;

/// Longer lines are not shown when something in them is wrong.
const SHORT: usize = 160;

/// Reads the arguments.
pub(super) fn read(given: &str) -> Result<Map<String, Value>, Failure> {
    let (place, json) = match given.strip_prefix('@') {
        Some(file) => (file.to_owned(), std::fs::read(file)),
        None if given == "-" => {
            let mut bytes = Vec::new();
            ("standard input".to_owned(), std::io::stdin().read_to_end(&mut bytes).map(|_| bytes))
        }
        None => ("--args".to_owned(), Ok(given.as_bytes().to_vec())),
    };
    let bytes = json.map_err(|error| Failure::wrong_use(format!("{place}: {error}")))?;
    let json = String::from_utf8(bytes).map_err(|_| Failure::wrong_use(format!("{place} is not text in UTF-8")))?;
    match serde_json::from_str(&json) {
        Ok(Value::Object(args)) => Ok(args),
        Ok(other) => {
            let found = match other {
                Value::Array(_) => "a list",
                Value::String(_) => "a text",
                Value::Number(_) => "a number",
                Value::Bool(_) => "a boolean",
                _ => "null",
            };
            Err(Failure::wrong_use(format!(
                "{place} must be a JSON object such as {{\"path\": \"a.txt\"}}, not {found}"
            )))
        }
        Err(error) => Err(Failure::wrong_use(explain(&place, &json, &error))),
    }
}

/// What is wrong, where, and the line with a mark below it.
fn explain(place: &str, json: &str, error: &serde_json::Error) -> String {
    let (number, column) = (error.line(), error.column());
    let whole = error.to_string();
    let reason = whole.split(" at line ").next().unwrap_or(&whole);
    let message = format!("{place} is not JSON: line {number}, column {column}: {reason}");
    let line = json.lines().nth(number.saturating_sub(1)).unwrap_or_default();
    if line.trim().is_empty() || line.chars().count() > SHORT {
        return message;
    }
    // The column counts bytes.
    let before = line.get(..column.saturating_sub(1)).unwrap_or_default();
    format!("{message}\n  {}\n  {}^", visible::line(line), " ".repeat(visible::line(before).chars().count()))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn objects_only() {
        assert_eq!(read("{\"a\": 1}").unwrap()["a"], 1);
        for (given, word) in [
            ("[1]", "not a list"),
            ("null", "not null"),
            ("\"x\"", "not a text"),
            ("", "line 1, column 0: EOF"),
            ("{\n  \"a\": x}", "--args is not JSON: line 2, column 8: expected value\n    \"a\": x}\n         ^"),
            ("{\"é\": x}", "  {\"é\": x}\n        ^"),
            ("{'a': 1}", "column 2: key must be a string"),
            ("@/nonexistent", "/nonexistent: No such file"),
        ] {
            let message = read(given).unwrap_err().message;
            assert!(message.contains(word), "{given:?}: {message}");
        }
    }
}
