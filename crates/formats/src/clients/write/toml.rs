//! One entry of a TOML file set, as sections of its own. Every other line stays, comments too.

use serde_json::{Map, Value};
use toml::Table;

use super::NotWritten;

/// The entry as sections.
pub(super) fn section(servers: &str, name: &str, entry: &Map<String, Value>) -> String {
    let head = format!("{}.{}", key(servers), key(name));
    let (tables, plain): (Vec<_>, Vec<_>) = entry.iter().partition(|(_, value)| value.is_object());
    let mut text = format!("[{head}]\n");
    for (name, value) in plain {
        text += &format!("{} = {}\n", key(name), scalar(value));
    }
    for (name, table) in tables {
        text += &format!("\n[{head}.{}]\n", key(name));
        for (name, value) in table.as_object().into_iter().flatten() {
            text += &format!("{} = {}\n", key(name), scalar(value));
        }
    }
    text
}

/// The text with `entry` at `servers`, `name`.
pub(super) fn with_entry(
    text: &str,
    servers: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, NotWritten> {
    let mut wanted: Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        NotWritten::Unreadable { kind: "TOML", line: before.matches('\n').count() + 1 }
    })?;
    let ours = section(servers, name, entry);
    let (mut kept, place) = without(text, servers, name);
    match place {
        Some(place) => kept.insert_str(place, &ours),
        None => {
            let gap = match () {
                () if kept.ends_with("\n\n") => "",
                () if kept.ends_with('\n') => "\n",
                () => "\n\n",
            };
            kept = format!("{kept}{gap}{ours}");
        }
    }
    // An inline table, a dotted key, a text over several lines that looks like a section: then lines are not the way.
    let entangled = || NotWritten::Entangled(format!("{servers}.{name}"));
    let set: Table = toml::from_str(&ours).map_err(|_| entangled())?;
    let set = set.get(servers).and_then(|all| all.get(name)).cloned().ok_or_else(entangled)?;
    let all = wanted.entry(servers).or_insert_with(|| toml::Value::Table(Table::new()));
    all.as_table_mut().ok_or_else(|| NotWritten::NotAnObject(servers.to_owned()))?.insert(name.to_owned(), set);
    match toml::from_str::<Table>(&kept) {
        Ok(after) if after == wanted => Ok(kept),
        _ => Err(entangled()),
    }
}

/// The text without the sections of an entry, and where the first of them was. Comments and blank lines before the next section
/// belong to that one.
fn without(text: &str, servers: &str, name: &str) -> (String, Option<usize>) {
    let (mut kept, mut place, mut inside) = (String::new(), None, false);
    let mut loose = String::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(path) = head(trimmed) {
            inside =
                path.first().is_some_and(|first| first == servers) && path.get(1).is_some_and(|second| second == name);
            if !inside || place.is_none() {
                kept += &loose;
            }
            loose.clear();
            if inside {
                place.get_or_insert(kept.len());
                continue;
            }
        } else if inside {
            if trimmed.is_empty() || trimmed.starts_with('#') {
                loose += line
            } else {
                loose.clear()
            }
            continue;
        }
        kept += line;
    }
    kept += &loose;
    (kept, place)
}

/// The keys of a section's head, if the line is one.
fn head(line: &str) -> Option<Vec<String>> {
    if !line.starts_with('[') || line.starts_with("[[") {
        return line.starts_with("[[").then(Vec::new);
    }
    let mut table: Table = toml::from_str(line).ok()?;
    let mut path = Vec::new();
    while let Some((key, value)) = table.into_iter().next() {
        path.push(key);
        table = value.as_table().cloned().unwrap_or_default();
    }
    Some(path)
}

fn key(text: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !text.is_empty() && text.chars().all(bare) { text.to_owned() } else { scalar(&Value::from(text)) }
}

/// A text, a number, a truth or a list of them: what JSON writes is TOML too, but for one character.
fn scalar(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}
