//! What a request says in headers as well, in the revisions that have them: its method, its name, and the arguments that a
//! tool's schema marks with `x-mcp-header`.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Where an argument is, and the header that it goes into.
pub(super) type Mark = (Vec<String>, String);

/// The marks of every tool.
pub(super) type Promoted = HashMap<String, Vec<Mark>>;

/// How deep a schema is looked into. What is deeper is not reached by any argument we would send.
const DEEPEST: usize = 64;

/// The headers of a request. Names and values are the server's or the model's, so whatever would not survive as a header is
/// encoded: a line end in one never becomes a header of its own.
pub(super) fn standard(method: &str, params: &Map<String, Value>) -> Vec<(String, String)> {
    let name = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => "",
    };
    let mut headers = vec![("Mcp-Method".to_owned(), encoded(method))];
    headers.extend(params.get(name).and_then(Value::as_str).map(|name| ("Mcp-Name".to_owned(), encoded(name))));
    headers
}

/// The arguments of a call that go into headers.
pub(super) fn of_arguments(marks: &[Mark], arguments: &Value) -> Vec<(String, String)> {
    let found = marks.iter().filter_map(|(path, header)| {
        let value = path.iter().try_fold(arguments, |value, key| value.get(key))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((format!("Mcp-Param-{header}"), encoded(&text)))
    });
    found.collect()
}

/// The marks in a tool's schema, or why the tool cannot be used.
pub(super) fn marks(schema: &Map<String, Value>) -> Result<Vec<Mark>, String> {
    let mut found = Found::default();
    found.look(schema, true, true, 0)?;
    Ok(found.marks)
}

#[derive(Default)]
struct Found {
    marks: Vec<Mark>,
    names: HashSet<String>,
    path: Vec<String>,
}

impl Found {
    /// Looks through a schema. `chain` says whether it is reached from the root by `properties` alone, where arguments are.
    fn look(&mut self, schema: &Map<String, Value>, root: bool, chain: bool, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Ok(());
        }
        if let Some(header) = schema.get("x-mcp-header") {
            self.mark(schema, header, chain && !root)?;
        }
        for (key, value) in schema {
            match (key.as_str(), value) {
                // What is in these is data, not a schema.
                ("default" | "const" | "enum" | "examples" | "x-mcp-header", _) => {}
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        self.path.push(name.clone());
                        self.inside(property, chain, depth)?;
                        self.path.pop();
                    }
                }
                ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", Value::Object(schemas)) => {
                    for schema in schemas.values() {
                        self.inside(schema, false, depth)?;
                    }
                }
                (_, value) => self.inside(value, false, depth)?,
            }
        }
        Ok(())
    }

    fn inside(&mut self, value: &Value, chain: bool, depth: usize) -> Result<(), String> {
        match value {
            Value::Object(schema) => self.look(schema, false, chain, depth + 1),
            Value::Array(items) => items.iter().try_for_each(|item| self.inside(item, false, depth + 1)),
            _ => Ok(()),
        }
    }

    fn mark(&mut self, schema: &Map<String, Value>, header: &Value, on_argument: bool) -> Result<(), String> {
        if !on_argument {
            return Err("its x-mcp-header is not on an argument".to_owned());
        }
        let Some(header) = header.as_str().filter(|header| is_token(header)) else {
            return Err("its x-mcp-header is no name of a header".to_owned());
        };
        if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(format!("its x-mcp-header `{header}` is not on a string, an integer or a boolean"));
        }
        if !self.names.insert(header.to_ascii_lowercase()) {
            return Err(format!("its x-mcp-header `{header}` is there twice"));
        }
        self.marks.push((self.path.clone(), header.to_owned()));
        Ok(())
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A value as a header can hold it.
fn encoded(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && !value.starts_with(' ')
        && !value.ends_with(' ')
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if plain { value.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(value)) }
}
