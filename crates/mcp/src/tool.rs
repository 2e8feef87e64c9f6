//! A tool as its server defines it, with everything the server said of it.

use serde_json::{Map, Value};

/// A definition. What the protocol has no name for is kept too: pins cover the whole of it.
///
/// It is kept as text. There are many of them, few are looked at, and a text is a tenth of what it is when it is taken apart.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The server's own name for it.
    pub name: String,
    text: Box<str>,
}

impl ToolDefinition {
    /// A tool of this name; `raw` is all that is said of it, the name included.
    pub fn new(name: String, raw: &Map<String, Value>) -> Self {
        let text = serde_json::to_string(raw).expect("values can be written as JSON");
        Self { name, text: text.into() }
    }

    /// All of it, the name included.
    pub fn raw(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text).expect("what was written as JSON can be read")
    }

    /// What its arguments must be.
    pub fn input_schema(&self) -> Map<String, Value> {
        self.raw().get("inputSchema").and_then(Value::as_object).cloned().unwrap_or_default()
    }
}

impl PartialEq for ToolDefinition {
    /// Whether both say the same, in whichever order.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (self.text == other.text || self.raw() == other.raw())
    }
}
