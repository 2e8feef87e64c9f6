//! One entry of a JSON file set, in the file's own layout. Only the bytes of that entry change.

use std::ops::Range;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::NotWritten;
use crate::foreign::json as tolerant;

/// Two levels deep, laid out for people.
pub(super) fn pretty(value: &Value) -> String {
    laid_out(value, "  ", 0)
}

/// The text with `entry` at `servers`, `name`.
pub(super) fn with_entry(
    text: &str,
    servers: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, NotWritten> {
    let before: Value = serde_json::from_str(text).map_err(|error| match tolerant::parse(text.as_bytes(), None) {
        Ok(_) => NotWritten::Comments,
        Err(_) => NotWritten::Unreadable { kind: "JSON", line: error.line() },
    })?;
    if !before.is_object() {
        return Err(NotWritten::NotAnObject("the whole".to_owned()));
    }
    if before.get(servers).is_some_and(|there| !there.is_object()) {
        return Err(NotWritten::NotAnObject(servers.to_owned()));
    }
    let layout = Layout::of(text);
    let entry = Value::Object(entry.clone());
    let top = Object::at(text, text.find('{').unwrap_or_default());
    let edited = match top.member(servers) {
        None => layout.put(text, &top, 1, servers, &json!({ name: entry })),
        Some(place) => layout.put(text, &Object::at(text, place.start), 2, name, &entry),
    };
    let mut wanted = before;
    wanted[servers][name] = entry;
    // A key that is there twice, say: then the reader and the edit mean different places.
    match serde_json::from_str::<Value>(&edited) {
        Ok(after) if after == wanted => Ok(edited),
        _ => Err(NotWritten::Entangled(format!("{servers}.{name}"))),
    }
}

/// An object in a text that was found to be JSON.
struct Object {
    /// Behind its `{`.
    start: usize,
    members: Vec<(String, Range<usize>)>,
}

impl Object {
    /// The object whose `{` is at `open`.
    fn at(text: &str, open: usize) -> Self {
        let bytes = text.as_bytes();
        let mut members = Vec::new();
        let mut at = after_blanks(bytes, open + 1);
        while bytes.get(at) == Some(&b'"') {
            let key = at..end_of_value(bytes, at);
            let colon = after_blanks(bytes, key.end);
            let start = after_blanks(bytes, colon + 1);
            let value = start..end_of_value(bytes, start);
            at = after_blanks(bytes, value.end);
            if bytes.get(at) == Some(&b',') {
                at = after_blanks(bytes, at + 1);
            }
            members.push((serde_json::from_str(&text[key]).unwrap_or_default(), value));
        }
        Self { start: open + 1, members }
    }

    fn member(&self, key: &str) -> Option<Range<usize>> {
        self.members.iter().rev().find(|(name, _)| name == key).map(|(_, place)| place.clone())
    }
}

fn after_blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes[at.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Where the value that begins at `start` ends.
fn end_of_value(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at) - 1,
            b'{' | b'[' => depth += 1,
            // The end of what the value is in.
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return at;
        }
    }
    bytes.len()
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// How a file is laid out: what a level is indented by, and how lines end. Without lines there is nothing to indent.
struct Layout {
    indent: String,
    line_end: &'static str,
}

impl Layout {
    fn of(text: &str) -> Self {
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let blank = |c: &char| matches!(c, ' ' | '\t');
        let indented = text.lines().skip(1).find(|line| line.starts_with([' ', '\t']));
        let indent = indented.map_or("  ".to_owned(), |line| line.chars().take_while(blank).collect());
        Self {
            indent: if text.trim().contains('\n') || text.trim().len() < 3 { indent } else { String::new() },
            line_end,
        }
    }

    /// Sets a member of an object that is `depth` levels deep on the inside.
    fn put(&self, text: &str, object: &Object, depth: usize, key: &str, value: &Value) -> String {
        let value = self.value(value, depth);
        if let Some(place) = object.member(key) {
            return format!("{}{value}{}", &text[..place.start], &text[place.end..]);
        }
        let (line, gap) = (self.line(depth), if self.indent.is_empty() { "" } else { " " });
        let member = format!("{line}{}:{gap}{value}", Value::from(key));
        match object.members.last() {
            Some((_, last)) => format!("{},{member}{}", &text[..last.end], &text[last.end..]),
            None => {
                let close = after_blanks(text.as_bytes(), object.start);
                format!("{}{member}{}{}", &text[..object.start], self.line(depth - 1), &text[close..])
            }
        }
    }

    /// A new line at a depth.
    fn line(&self, depth: usize) -> String {
        if self.indent.is_empty() { String::new() } else { format!("{}{}", self.line_end, self.indent.repeat(depth)) }
    }

    fn value(&self, value: &Value, depth: usize) -> String {
        if self.indent.is_empty() {
            return value.to_string();
        }
        laid_out(value, &self.indent, depth).replace('\n', self.line_end)
    }
}

/// A value over several lines. No line ends inside a text of JSON, so all that are there are ours to indent.
fn laid_out(value: &Value, indent: &str, depth: usize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent.as_bytes()));
    let written = value.serialize(&mut serializer).ok().and_then(|()| String::from_utf8(bytes).ok());
    written.unwrap_or_else(|| value.to_string()).replace('\n', &format!("\n{}", indent.repeat(depth)))
}
