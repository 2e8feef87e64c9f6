//! Texts of others, made safe for a terminal: what would move the cursor, turn the order of letters or not be seen at all is
//! written out.

use kitbag_model::safe_text::is_hidden;
use serde_json::Value;

/// A text with several lines. Line ends and tabs stay, and colours are dropped without a word.
pub(crate) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = after_colour(rest) {
            rest = after;
            continue;
        }
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_hidden(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    shown
}

/// What follows the sequence that sets colours, if the text begins with one.
fn after_colour(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix("\u{1b}[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].strip_prefix('m')
}

/// A text in one line.
pub(crate) fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// A value as JSON on several lines, all of which is seen. It is still the same JSON.
pub(crate) fn json(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && c != '\n' {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_hidden() {
        for (text, shown) in [
            ("plain é 漢 ✓", "plain é 漢 ✓"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}\u{feff}b", "a\\u{200b}\\u{feff}b"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{e0041}", "a\\u{e0041}"),
            ("one\r", "one\\r"),
        ] {
            assert_eq!(lines(text), shown);
            assert_eq!(line(text), shown);
        }
        assert_eq!(lines("a\tb\r\nc\n"), "a\tb\nc\n");
        assert_eq!(line("a\tb\nc"), "a\\tb\\nc");
    }

    #[test]
    fn colours_go_and_all_else_is_told() {
        assert_eq!(lines("\u{1b}[1;31mred\u{1b}[0m\u{1b}[m"), "red");
        assert_eq!(lines("\u{1b}[2J\u{1b}[31"), "\\u{1b}[2J\\u{1b}[31");
    }

    #[test]
    fn json_stays_the_same() {
        let value = json!({ "a\u{202e}": ["\u{7f}\u{85}\n\u{1b}", "\u{e0041}", "é"] });
        let shown = json(&value);
        assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "{shown}");
        assert!(shown.contains("\\u202e") && shown.contains("\\udb40\\udc41") && shown.contains('é'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
}
