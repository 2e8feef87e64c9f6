//! A tool as its server defines it, with everything the server said of it.

use serde_json::{Map, Value};

/// A definition. What the protocol has no name for is kept too: pins cover the whole of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The server's own name for it.
    pub name: String,
    /// All of it, the name included.
    pub raw: Map<String, Value>,
}

impl ToolDefinition {
    /// A name for people.
    pub fn title(&self) -> Option<&str> {
        self.raw.get("title").or_else(|| self.raw.get("annotations")?.get("title")).and_then(Value::as_str)
    }

    /// What it does, in the server's words. They are a stranger's.
    pub fn description(&self) -> Option<&str> {
        self.raw.get("description").and_then(Value::as_str)
    }

    /// What its arguments must be.
    pub fn input_schema(&self) -> Map<String, Value> {
        self.raw.get("inputSchema").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// What its structured results are.
    pub fn output_schema(&self) -> Option<&Map<String, Value>> {
        self.raw.get("outputSchema").and_then(Value::as_object)
    }
}
