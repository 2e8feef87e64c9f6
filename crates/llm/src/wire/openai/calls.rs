//! Calls of tools that come in pieces. OpenAI numbers them and names each once; others leave out the number or the id, give every call the
//! same number, or send whole calls at once.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::ask::Part;
use crate::heard::Heard;
use crate::wire::arguments::{call, id_or_new, short};
use crate::wire::or_default;

/// A piece of a call.
#[derive(Deserialize)]
pub(super) struct Piece {
    index: Option<u64>,
    id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    function: Function,
}

#[derive(Default, Deserialize)]
struct Function {
    name: Option<String>,
    /// A text in pieces, or an object where somebody misread the specification.
    #[serde(default)]
    arguments: Value,
}

/// The calls of one answer.
#[derive(Default)]
pub(super) struct Calls(Vec<Call>);

struct Call {
    index: Option<u64>,
    /// As the server gave it; none if it did not.
    given_id: Option<String>,
    id: String,
    name: String,
    raw: String,
    /// Somebody was told that it began.
    told: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, piece: Piece, heard: &mut VecDeque<Heard>) {
        let Piece { index, id, function } = piece;
        let given_id = id.filter(|id| !id.is_empty());
        let name = function.name.filter(|name| !name.is_empty());
        let more = match function.arguments {
            Value::String(more) => more,
            Value::Null => String::new(),
            whole => whole.to_string(),
        };
        let at = self.goes_on(index, given_id.as_deref(), name.as_deref(), &more).unwrap_or_else(|| {
            let id = id_or_new(given_id.clone().unwrap_or_default());
            let (name, raw) = (String::new(), String::new());
            self.0.push(Call { index, given_id, id, name, raw, told: false });
            self.0.len() - 1
        });
        let Some(call) = self.0.get_mut(at) else { return };
        // Some repeat the name with every piece.
        if let (true, Some(name)) = (call.name.is_empty(), name) {
            call.name = short(name);
        }
        call.raw.push_str(&more);
        if !call.told && !call.name.is_empty() {
            call.told = true;
            heard.push_back(Heard::ToolCallBegan { index: at, id: call.id.clone(), name: call.name.clone() });
        }
    }

    /// Which call a piece goes on with; none: it begins one.
    fn goes_on(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>, more: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.0.iter().rposition(|call| call.index == index)?,
            None => self.0.len().checked_sub(1)?,
        };
        let call = self.0.get(at)?;
        match (id, call.given_id.as_deref()) {
            // The id decides where there are two.
            (Some(id), Some(known)) => return (id == known).then_some(at),
            // One that begins without an id gets none later.
            (Some(_), None) if !call.raw.is_empty() => return None,
            _ => {}
        }
        match name {
            None => Some(at),
            // Without a number every name is a call. With one, a name is a repetition unless the call is whole and another set of
            // arguments begins.
            Some(_) if index.is_none() => None,
            Some(_) if more.trim_start().starts_with('{') && is_whole(&call.raw) => None,
            Some(_) => Some(at),
        }
    }

    /// All of them, whole.
    pub(super) fn end(&mut self) -> impl Iterator<Item = Part> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|known| call(known.id, known.name, known.raw))
    }
}

fn is_whole(raw: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The calls of some pieces, as names and arguments, and how often somebody was told that one began.
    fn calls(pieces: Value) -> (Vec<(String, Value)>, usize) {
        let (mut calls, mut heard) = (Calls::default(), VecDeque::new());
        for piece in pieces.as_array().unwrap() {
            calls.take(serde_json::from_value(piece.clone()).unwrap(), &mut heard);
        }
        let mut ids = Vec::new();
        let found = calls.end().map(|part| match part {
            Part::ToolCall { id, name, arguments } => {
                assert!(!id.is_empty() && !ids.contains(&id), "{id}");
                ids.push(id);
                (name, arguments)
            }
            other => panic!("{other:?}"),
        });
        (found.collect(), heard.len())
    }

    fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn however_they_come() {
        let two = vec![("a".to_owned(), json!({"x": 1})), ("b".to_owned(), json!({"y": 2}))];
        let (a, b, x, y) = (Some("a"), Some("b"), r#"{"x": 1}"#, r#"{"y": 2}"#);
        for (what, pieces) in [
            (
                "in turns",
                json!([
                    piece(Some(0), Some("1"), a, ""),
                    piece(Some(1), Some("2"), b, ""),
                    piece(Some(0), None, None, r#"{"x""#),
                    piece(Some(1), None, None, r#"{"y": "#),
                    piece(Some(0), None, None, ": 1}"),
                    piece(Some(1), None, None, "2}"),
                ]),
            ),
            ("whole, without ids or numbers", json!([piece(None, None, a, x), piece(None, None, b, y)])),
            ("whole, without ids, all of one number", json!([piece(Some(0), None, a, x), piece(Some(0), None, b, y)])),
            ("whole, all of one number", json!([piece(Some(0), Some("1"), a, x), piece(Some(0), Some("2"), b, y)])),
            ("empty ids", json!([piece(Some(0), Some(""), a, x), piece(Some(1), Some(""), b, y)])),
            (
                "names and ids that are repeated",
                json!([
                    piece(Some(0), Some("1"), a, r#"{"x": "#),
                    piece(Some(0), Some("1"), a, "1}"),
                    piece(Some(1), Some("2"), b, r#"{"y""#),
                    piece(Some(1), Some("2"), b, ": 2}"),
                ]),
            ),
            (
                "without numbers, in pieces",
                json!([
                    piece(None, Some("1"), a, r#"{"x": "#),
                    piece(None, None, None, "1}"),
                    piece(None, Some("2"), b, y),
                ]),
            ),
            (
                "objects",
                json!([
                    {"function": {"name": "a", "arguments": {"x": 1}}}, {"function": {"name": "b", "arguments": {"y": 2}}},
                ]),
            ),
        ] {
            assert_eq!(calls(pieces), (two.clone(), 2), "{what}");
        }
        assert_eq!(
            calls(json!([{"index": 0, "id": "1", "function": {"name": "a"}}])),
            (vec![("a".to_owned(), json!({}))], 1)
        );
    }
}
