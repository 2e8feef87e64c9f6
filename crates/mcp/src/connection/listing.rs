//! All tools of a server, page by page, within bounds. Nothing is made of a definition: no schema is looked into beyond the
//! marks for headers, and no reference in one is followed.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::headers::{Promoted, marks};
use super::{CallError, Connection, ToolList};
use crate::shallow::Shallow;
use crate::tool::ToolDefinition;

/// The most pages of one list.
const PAGES: usize = 1000;

/// The longest name of a tool.
const NAME: usize = 1024;

/// How many warnings are kept one by one.
const WARNINGS: usize = 50;

impl Connection {
    /// All tools, in the server's order. What cannot be used is left out, with a warning.
    pub async fn tools(&self) -> Result<ToolList, CallError> {
        let mut list = Listing::default();
        let mut cursors = HashSet::new();
        let mut cursor: Option<Value> = None;
        let has_headers = self.has_headers();
        for _ in 0..PAGES {
            let mut params = Shallow::default();
            if let Some(cursor) = cursor {
                params.set_value("cursor", &cursor);
            }
            let page = self.ask_raw("tools/list", &mut params, Vec::new()).await?;
            let page = Shallow::read(&page).unwrap_or_default();
            let Some(tools) = page.parse::<Vec<Box<RawValue>>>("tools") else {
                return Err(CallError::Nonsense("its list of tools is none".to_owned()));
            };
            list.expires(page.parse("ttlMs"));
            if !list.add(&tools, has_headers, self.shared.most_tools, self.shared.longest) {
                break;
            }
            cursor = page.parse("nextCursor").filter(|cursor: &Value| !cursor.is_null());
            match cursor.as_ref() {
                None => break,
                Some(next) if cursors.insert(next.to_string()) => {}
                Some(_) => {
                    list.warn("the server sends the same page again and again; the rest is left out".to_owned());
                    break;
                }
            }
            if cursors.len() == PAGES {
                list.warn(format!("the list has more than {PAGES} pages; the rest is left out"));
            }
        }
        *self.promoted() = has_headers.then_some(list.promoted);
        if list.silenced > 0 {
            list.found.warnings.push(format!("and {} more warnings", list.silenced));
        }
        Ok(list.found)
    }
}

#[derive(Default)]
struct Listing {
    found: ToolList,
    promoted: Promoted,
    names: HashSet<String>,
    bytes: usize,
    silenced: usize,
}

impl Listing {
    fn warn(&mut self, warning: String) {
        if self.found.warnings.len() < WARNINGS {
            self.found.warnings.push(warning);
        } else {
            self.silenced += 1;
        }
    }

    /// The shortest life that any page has.
    fn expires(&mut self, ttl: Option<u64>) {
        let ttl = ttl.map(Duration::from_millis);
        self.found.ttl = match (self.found.ttl, ttl) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
    }

    /// Adds a page; false when there is no room for more.
    fn add(&mut self, tools: &[Box<RawValue>], has_headers: bool, most: usize, most_bytes: usize) -> bool {
        for tool in tools {
            if self.found.tools.len() >= most {
                self.warn(format!("the server has more than {most} tools; the rest is left out"));
                return false;
            }
            self.bytes = self.bytes.saturating_add(tool.get().len());
            if self.bytes > most_bytes {
                self.warn(format!("the definitions have more than {most_bytes} bytes; the rest is left out"));
                return false;
            }
            // One with what nobody can read, a number beyond all others, must not hide the rest.
            let read = serde_json::from_str(tool.get()).map_err(|error| format!("a tool is left out: {error}"));
            match read.and_then(|tool| self.usable(tool, has_headers)) {
                Ok(tool) => self.found.tools.push(tool),
                Err(why) => self.warn(why),
            }
        }
        true
    }

    fn usable(&mut self, tool: Value, has_headers: bool) -> Result<ToolDefinition, String> {
        let Value::Object(raw) = tool else { return Err("a tool is left out: it is no object".to_owned()) };
        let Some(name) = raw.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err("a tool without a name is left out".to_owned());
        };
        if name.is_empty() {
            return Err("a tool with an empty name is left out".to_owned());
        }
        if name.len() > NAME {
            let begin = name.get(..name.floor_char_boundary(40)).unwrap_or_default().escape_debug();
            return Err(format!("the tool `{begin}…` is left out: its name has more than {NAME} bytes"));
        }
        if self.names.contains(&name) {
            return Err(format!("the tool `{}` is there twice; the first one counts", name.escape_debug()));
        }
        if has_headers {
            let schema = raw.get("inputSchema").and_then(Value::as_object);
            let marks = schema.map_or(Ok(Vec::new()), marks);
            let marks = marks.map_err(|why| format!("the tool `{}` is left out: {why}", name.escape_debug()))?;
            if !marks.is_empty() {
                self.promoted.insert(name.clone(), marks);
            }
        }
        self.names.insert(name.clone());
        Ok(ToolDefinition::new(name, &raw))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_hides_nothing_else() {
        let mut list = Listing::default();
        let tools = [
            r#"{"name":"a","inputSchema":{"maximum":1e400}}"#,
            r#"{"name":"b","inputSchema":{"maximum":18446744073709551615}}"#,
        ];
        let tools = tools.map(|tool| RawValue::from_string(tool.to_owned()).unwrap());
        assert!(list.add(&tools, false, 10, 1000));
        let found = &list.found;
        assert_eq!((found.tools.len(), found.tools[0].name.as_str(), found.warnings.len()), (1, "b", 1));
        assert_eq!(found.tools[0].input_schema()["maximum"], u64::MAX);
        assert!(found.warnings[0].contains("number out of range"), "{:?}", found.warnings);
    }
}
