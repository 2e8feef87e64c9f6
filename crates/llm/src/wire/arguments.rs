//! The arguments of a call, as a model wrote them. Models make mistakes: what cannot be read is a part of its own, never an error of the stream.

use kitbag_model::Content;
use serde_json::{Value, json};

use crate::ask::Part;

/// The most bytes of the arguments of one call. The longest answer of today's models has room in it.
const MOST_BYTES: usize = 1024 * 1024;

/// So many bytes of what cannot be called are kept, for the model to see what it wrote.
const MOST_RAW: usize = 16 * 1024;

/// The most bytes of an id or a name.
const LONGEST: usize = 256;

/// A call whose arguments are all there, as text.
pub(crate) fn call(id: String, name: String, raw: String) -> Part {
    if raw.len() > MOST_BYTES {
        return bad(id, name, raw, format!("the arguments are too large: more than {MOST_BYTES} bytes"));
    }
    // A tool without arguments is called with nothing at all by some.
    let arguments = if raw.trim().is_empty() { Ok(Value::Null) } else { serde_json::from_str(&raw) };
    match arguments {
        Ok(Value::Null) => Part::ToolCall { id, name, arguments: json!({}) },
        Ok(arguments @ Value::Object(_)) => call_with(id, name, arguments),
        Ok(_) => bad(id, name, raw, "the arguments are no JSON object".to_owned()),
        Err(error) => bad(id, name, raw, format!("the arguments are no JSON: {error}")),
    }
}

/// The same for arguments that came as an object.
pub(crate) fn call_with(id: String, name: String, arguments: Value) -> Part {
    match Content::has_room_for(&arguments) {
        true => Part::ToolCall { id, name, arguments },
        false => {
            let problem =
                "the arguments are nested too deeply: lists and objects inside each other, more than can be kept";
            bad(id, name, arguments.to_string(), problem.to_owned())
        }
    }
}

fn bad(id: String, name: String, mut raw: String, problem: String) -> Part {
    if raw.len() > MOST_RAW {
        raw.truncate(raw.floor_char_boundary(MOST_RAW));
        raw.push('…');
    }
    Part::BadToolCall { id, name, raw, problem }
}

/// The id of a call, or one of our own where the server gave none, or none that anybody would want to keep: its result has to name it.
pub(crate) fn id_or_new(id: String) -> String {
    if (1..=LONGEST).contains(&id.len()) {
        return id;
    }
    let number = getrandom::u64().unwrap_or_default();
    format!("call_{number:016x}")
}

/// The name of a tool, as much of it as is kept. No tool has a longer one.
pub(crate) fn short(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(LONGEST));
    name
}

/// What is sent back in the place of arguments that could not be read: providers want an object, and the model should see what it wrote.
pub(crate) fn unreadable(raw: &str) -> Value {
    json!({"unreadable_arguments": raw})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_are_arguments() {
        let call = |raw: &str| call("1".to_owned(), "t".to_owned(), raw.to_owned());
        for (raw, arguments) in
            [("", json!({})), (" ", json!({})), ("null", json!({})), (r#"{"a": [1]}"#, json!({"a": [1]}))]
        {
            assert_eq!(call(raw), Part::ToolCall { id: "1".to_owned(), name: "t".to_owned(), arguments }, "{raw}");
        }
        let deep = "[".repeat(1000);
        for raw in ["[1]", "\"{}\"", r#"{"a": "#, r#"{"a": 1} {"#, &format!("{{\"a\": {deep}")] {
            let Part::BadToolCall { raw: kept, problem, .. } = call(raw) else { panic!("{raw}") };
            assert_eq!(kept, raw);
            assert!(problem.starts_with("the arguments are no JSON"), "{problem}");
        }
    }
    #[test]
    fn what_no_message_has_room_for_is_told_to_the_model() {
        let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let call = |raw: String| call("1".to_owned(), "t".to_owned(), raw);
        assert!(matches!(call(nested(62)), Part::ToolCall { .. }));
        for levels in [63, 120] {
            let Part::BadToolCall { raw, problem, .. } = call(nested(levels)) else { panic!("{levels}") };
            assert!(problem.contains("nested too deeply"), "{problem}");
            assert_eq!(raw, nested(levels));
        }
        let large = format!("{{\"a\": \"{}\"}}", "é".repeat(MOST_BYTES / 2));
        let Part::BadToolCall { raw, problem, .. } = call(large) else { panic!("too large") };
        assert!(problem.contains("too large") && raw.len() < MOST_RAW + 4, "{problem} {}", raw.len());
    }
}
