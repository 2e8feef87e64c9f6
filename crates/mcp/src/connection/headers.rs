//! What a request says in headers as well, in the revisions that have them: its method, its name, and the arguments that a
//! tool's schema marks with `x-mcp-header`.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::shallow::Shallow;

/// Where an argument is, and the header that it goes into.
pub(crate) type Mark = (Vec<String>, String);

/// The marks of every tool that has some.
pub(super) type Promoted = HashMap<String, Vec<Mark>>;

/// How deep a schema is looked into. What is deeper is not reached by any argument we would send.
const DEEPEST: usize = 64;

/// The headers of a request. Names and values are the server's or the model's, so whatever would not survive as a header is
/// encoded: a line end in one never becomes a header of its own.
pub(super) fn standard(method: &str, params: &Shallow) -> Vec<(String, String)> {
    let name = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => "",
    };
    let mut headers = vec![("Mcp-Method".to_owned(), encoded(method))];
    headers.extend(params.text(name).map(|name| ("Mcp-Name".to_owned(), encoded(&name))));
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
pub(crate) fn marks(schema: &Map<String, Value>) -> Result<Vec<Mark>, String> {
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
pub(crate) fn encoded(value: &str) -> String {
    let odd = value.bytes().any(|byte| !(0x20..=0x7e).contains(&byte));
    let trimmed = value.trim_matches(' ').len() < value.len();
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if odd || trimmed || looks_encoded { format!("=?base64?{}?=", STANDARD.encode(value)) } else { value.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(schema: &Value) -> Result<Vec<Mark>, String> {
        marks(schema.as_object().unwrap())
    }

    #[test]
    fn values_survive_as_headers() {
        for (value, expected) in [
            ("plain text", "plain text"),
            ("", ""),
            (" a", "=?base64?IGE=?="),
            ("a ", "=?base64?YSA=?="),
            ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
            ("é", "=?base64?w6k=?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(encoded(value), expected, "{value:?}");
        }
    }

    #[test]
    fn arguments_are_found_wherever_their_marks_are() {
        let schema = json!({"type": "object", "properties": {
            "where": {"type": "string", "x-mcp-header": "Where"},
            "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
            "plain": {"type": "string", "default": {"x-mcp-header": "data"}},
        }});
        let marks = found(&schema).unwrap();
        let arguments = json!({"where": "here", "deep": {"flag": true}, "plain": "x"});
        let headers = of_arguments(&marks, &arguments);
        let expected = [("Mcp-Param-Where", "here"), ("Mcp-Param-Flag", "true")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(of_arguments(&marks, &json!({"where": null, "deep": 5})), []);
    }

    #[test]
    fn a_mark_that_means_nothing_is_refused() {
        let on = |property: Value| json!({"properties": {"a": property, "b": {"type": "string", "x-mcp-header": "B"}}});
        for schema in [
            on(json!({"type": "string", "x-mcp-header": ""})),
            on(json!({"type": "string", "x-mcp-header": "A B"})),
            on(json!({"type": "string", "x-mcp-header": "A\r\nB"})),
            on(json!({"type": "string", "x-mcp-header": 5})),
            on(json!({"type": "string", "x-mcp-header": "b"})),
            on(json!({"type": "number", "x-mcp-header": "A"})),
            on(json!({"x-mcp-header": "A"})),
            on(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            on(json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]})),
            json!({"type": "string", "x-mcp-header": "A"}),
            json!({"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}}),
        ] {
            assert!(found(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_schema_without_bottom_is_looked_into_only_so_far() {
        let mut schema = json!({"type": "string", "x-mcp-header": "A"});
        for _ in 0..100 {
            schema = json!({"type": "object", "properties": {"a": schema}, "anyOf": [{}, {}]});
        }
        assert_eq!(found(&schema).unwrap(), []);
    }
}
