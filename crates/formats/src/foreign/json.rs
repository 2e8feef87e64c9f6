//! JSON as people write it into configuration: with comments and with a comma behind the last item.
//!
//! Both become blanks before the text is read, so that every place stays where it is. A key that is there twice is refused:
//! programs disagree on which of the two counts.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::notes::shown;
use crate::bundle::{Code, Finding};
use crate::manifest::text_of;

/// Reads a file. The text around a mistake is not repeated: it may be a secret.
pub(crate) fn parse(bytes: &[u8], file: Option<&str>) -> Result<Value, Finding> {
    let refuse = |line, column, message| Finding {
        line: Some(line),
        column: Some(column),
        ..Finding::new(Code::InvalidManifest, file, message)
    };
    let text =
        text_of(bytes, "the file").map_err(|problem| refuse(problem.line, problem.column, problem.message.clone()))?;
    serde_json::from_str::<Strict>(&plain(text)).map(|strict| strict.0).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        refuse(error.line(), error.column(), format!("this is not JSON: {message}"))
    })
}

/// The text without comments and commas that nothing follows, each of them as blanks.
fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => at = end_of_string(&bytes, at),
            (b'/', Some(b'/')) => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
                at = blank(&mut bytes, at, end);
            }
            (b'/', Some(b'*')) => match bytes[at + 2..].windows(2).position(|two| two == b"*/") {
                Some(length) => at = blank(&mut bytes, at, at + 2 + length + 2),
                // An open comment stays, and is what the reader stumbles over.
                None => break,
            },
            _ => at += 1,
        }
    }
    let (mut at, mut before) = (0, b'{');
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = end_of_string(&bytes, at);
                before = b'"';
                continue;
            }
            b',' => {
                let next = bytes[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
                if matches!(next, Some(b'}' | b']')) && !matches!(before, b'{' | b'[' | b',' | b':') {
                    bytes[at] = b' ';
                }
                before = b',';
            }
            byte if !byte.is_ascii_whitespace() => before = byte,
            _ => {}
        }
        at += 1;
    }
    String::from_utf8(bytes).expect("whole characters were replaced by blanks")
}

/// Behind the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn blank(bytes: &mut [u8], start: usize, end: usize) -> usize {
    for byte in bytes[start..end].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    end
}

/// A value in which no key is there twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let (mut map, mut seen) = (Map::new(), HashSet::new());
        while let Some(key) = entries.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key \"{}\" is there twice", shown(&key))));
            }
            let Strict(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas() {
        for (text, wanted) in [
            ("{}", "{}"),
            ("\u{feff}{ } // é", "{}"),
            ("/* é\n */ {\"a\": [1, 2, /* x */ ], // y\n}", r#"{"a":[1,2]}"#),
            (r#"{"a": "// no, ] /* comment */", "b\\\"": "é,}",}"#, r#"{"a":"// no, ] /* comment */","b\\\"":"é,}"}"#),
            ("{\"a\": {},\n// last\n}", r#"{"a":{}}"#),
        ] {
            let value = parse(text.as_bytes(), None).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(value.to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_json() {
        let deep = "[".repeat(200);
        for (text, line, column, message) in [
            ("", 1, 0, "EOF"),
            ("[,]", 1, 2, "expected value"),
            ("{\n,}", 2, 1, "key must be a string"),
            ("[1,,]", 1, 4, "expected value"),
            ("{\"a\":,}", 1, 6, "expected value"),
            ("{} x", 1, 4, "trailing characters"),
            ("/* open", 1, 1, "expected value"),
            ("// é\n{\"a\": 1 \"b\": 2}", 2, 9, "expected `,` or `}`"),
            ("{\"a\": \"x", 1, 8, "EOF while parsing a string"),
            (&deep, 1, 128, "recursion limit exceeded"),
            ("{\"a\": {\"b\": 1,\n \"b\": 2}}", 2, 4, "the key \"b\" is there twice"),
        ] {
            let error = parse(text.as_bytes(), Some("x.json")).unwrap_err();
            assert_eq!((error.line, error.column), (Some(line), Some(column)), "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
        }
        assert!(parse(b"{\"\xff\": 1}", None).is_err());
        assert!(parse(&vec![b' '; (1 << 20) + 1], None).is_err());
    }
}
