//! JSON values as YAML that people can read and every YAML reader understands alike.

use serde_json::Value;

/// The value as a YAML document. One value has one text.
pub(crate) fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(value, 0, &mut out),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        other => inline(other, &mut out),
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// A collection that is not empty, each entry on lines of its own.
fn block(value: &Value, indent: usize, out: &mut String) {
    let mut first = true;
    let mut begin = |out: &mut String| {
        // The first entry of a map in a list stands behind the dash.
        if !std::mem::take(&mut first) || out.is_empty() || out.ends_with('\n') {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                begin(out);
                // A key that has its colon behind it may have 1024 characters only.
                if key.chars().count() > 100 {
                    out.push_str("? ");
                    scalar(key, out);
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', indent));
                } else {
                    scalar(key, out);
                }
                out.push(':');
                if is_block(value) {
                    out.push('\n');
                    block(value, indent + 2, out);
                } else {
                    out.push(' ');
                    inline(value, out);
                    out.push('\n');
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                begin(out);
                out.push_str("- ");
                if is_block(item) {
                    block(item, indent + 2, out);
                } else {
                    inline(item, out);
                    out.push('\n');
                }
            }
        }
        other => inline(other, out),
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn inline(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => scalar(text, out),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

/// A text, in quotes unless no reader can take it for anything else.
fn scalar(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
}

fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Words that YAML 1.1 takes for something else than a text; many programs still read that version.
const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];

fn is_plain(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"_-./+ ".contains(&b);
    text.len() <= 200
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().all(inner)
        && !text.ends_with(' ')
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}
