//! Whether arguments fit a tool's schema. That is known before anything of the tool runs.
//!
//! Defaults are not filled in here: the tool itself does that, with its own types. A schema is a stranger's text: it fetches
//! nothing, and one that is broken is said to be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use kitbag_model::ContentHash;
use serde::Serialize;
use serde_json::{Map, Value};

/// So many schemas are remembered. When there are more, all are forgotten: that is rare, and making one is quick.
const MOST: usize = 512;

/// So many problems are told at once.
const MOST_PROBLEMS: usize = 50;

/// A pattern may try so many ways before it counts as not matching.
const BACKTRACKS: usize = 100_000;

/// One thing that is wrong with the arguments.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// Where: a JSON pointer into the arguments.
    pub pointer: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// Why a call cannot be made with these arguments.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    /// They do not fit.
    #[error("the arguments do not fit: {}", .0.iter().map(|one| format!("{:?} {}", one.pointer, one.message)).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Problem>),
    /// The tool's own schema is not one.
    #[error("the tool's input schema is broken, so that nothing fits it: {0}")]
    Schema(String),
}

/// A schema that was made ready.
#[derive(Clone)]
pub struct Ready(Arc<Made>);

impl Ready {
    /// What is wrong with the schema itself.
    pub fn problem(&self) -> Option<&str> {
        self.0.validator.as_ref().err().map(String::as_str)
    }
}

struct Made {
    validator: Result<Validator, String>,
    /// Whether it can take no longer than its own length and that of the arguments say.
    is_plain: bool,
}

/// A schema with more bytes is not plain.
const PLAIN: usize = 16 << 10;

/// What may look at one value many times: patterns that go back, and schemas inside themselves.
const NOT_PLAIN: [&str; 4] = ["\"pattern", "Ref\"", "$ref\"", "\"unevaluated"];

/// So many values, or as many bytes of text per value, are few.
const FEW: usize = 256;

/// Schemas that were made ready before. Clones share them.
#[derive(Clone, Default)]
pub struct Schemas(Arc<Mutex<HashMap<ContentHash, Ready>>>);

impl Schemas {
    /// Makes a schema ready. It may take a moment: do it where that is no harm.
    pub fn ready(&self, schema: &Value) -> Ready {
        let text = schema.to_string();
        let key = ContentHash::of(text.as_bytes());
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = known().get(&key) {
            return ready.clone();
        }
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS));
        let validator = match schema {
            Value::Object(_) => options.build(schema).map_err(|error| error.to_string()),
            _ => Err("it must be an object".to_owned()),
        };
        let is_plain = text.len() <= PLAIN && !NOT_PLAIN.iter().any(|word| text.contains(word));
        let ready = Ready(Arc::new(Made { validator, is_plain }));
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, ready.clone());
        ready
    }
}

impl Ready {
    /// Whether checking these arguments takes no time worth speaking of.
    pub fn is_quick(&self, args: &Map<String, Value>) -> bool {
        let mut left = FEW;
        self.0.is_plain && args.iter().all(|(name, value)| is_few(name.len(), &mut left) && is_small(value, &mut left))
    }

    /// Whether the arguments fit the schema that this was made from. Everything that is wrong is told at once. It may take a
    /// moment, unless it is quick: do it where that is no harm.
    pub fn check(&self, schema: &Value, args: &Map<String, Value>) -> Result<(), ArgumentError> {
        self.check_value(schema, &Value::Object(args.clone()))
    }

    /// The same for any value, such as an answer that has to be of a form.
    pub fn check_value(&self, schema: &Value, value: &Value) -> Result<(), ArgumentError> {
        let validator = self.0.validator.as_ref().map_err(|reason| ArgumentError::Schema(reason.clone()))?;
        if validator.is_valid(value) {
            return Ok(());
        }
        let mut problems: Vec<Problem> = Vec::new();
        for error in validator.iter_errors(value) {
            problems.extend(told(&error, schema));
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ArgumentError::Invalid(problems)) }
    }
}

/// Takes one value with so many bytes of text from what is left.
fn is_few(bytes: usize, left: &mut usize) -> bool {
    let taken = 1 + bytes / FEW;
    *left = left.saturating_sub(taken);
    *left > 0
}

fn is_small(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::String(text) => is_few(text.len(), left),
        Value::Array(values) => is_few(0, left) && values.iter().all(|value| is_small(value, left)),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| is_few(name.len(), left) && is_small(value, left)) && is_few(0, left)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => is_few(0, left),
    }
}

/// Problems in our own words, where those help more. A value is not repeated: it may be long, and a secret.
fn told(error: &ValidationError<'_>, schema: &Value) -> Vec<Problem> {
    let at = error.instance_path().to_string();
    let problem = |pointer: String, message: String| vec![Problem { pointer, message }];
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            problem(format!("{at}/{}", escape(name)), "is missing".to_owned())
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let known = known_names(error, schema).map(|names| format!("; there are {names}")).unwrap_or_default();
            let unknown = |name: &String| Problem {
                pointer: format!("{at}/{}", escape(name)),
                message: format!("is not an argument{known}"),
            };
            unexpected.iter().map(unknown).collect()
        }
        ValidationErrorKind::Enum { options } => problem(at, format!("must be one of {options}")),
        _ => problem(at, error.masked_with("the value").to_string()),
    }
}

/// The names that the schema has where an unknown one was.
fn known_names(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let path = error.schema_path().to_string();
    let (parent, _) = path.rsplit_once('/')?;
    let names = schema.pointer(parent)?.get("properties")?.as_object()?;
    Some(names.keys().map(String::as_str).collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, args: Value) -> Result<(), ArgumentError> {
        Schemas::default().ready(&schema).check(&schema, args.as_object().unwrap())
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn problems(schema: Value, args: Value) -> Vec<(String, String)> {
        match check(schema, args) {
            Err(ArgumentError::Invalid(problems)) => {
                let mut all: Vec<_> = problems.into_iter().map(|one| (one.pointer, one.message)).collect();
                all.sort();
                all
            }
            other => panic!("{other:?}"),
        }
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "count": { "type": "integer", "default": 3, "maximum": 9 },
                "mode": { "enum": ["r", "w"] },
                "deep": { "type": "array", "items": { "$ref": "#/$defs/point" } },
            },
            "required": ["path"],
            "additionalProperties": false,
            "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] } },
        })
    }

    #[test]
    fn what_fits() {
        for args in [
            json!({ "path": "é\u{0}" }),
            json!({ "path": "a", "count": 9, "mode": "w", "deep": [{ "x": 1.5, "y": 2 }] }),
            json!({ "path": "a", "count": -123_456_789_012_345_678_i64 }),
        ] {
            assert_eq!(check(schema(), args.clone()), Ok(()), "{args}");
        }
        assert_eq!(check(json!({}), json!({ "anything": 1 })), Ok(()));
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_place() {
        let found = problems(
            schema(),
            json!({ "count": 1.5, "mode": "secret-value", "extra/1": 1, "deep": [{ "x": 1 }, { "x": "1" }, {}] }),
        );
        let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(pointers, ["/count", "/deep/1/x", "/deep/2/x", "/extra~11", "/mode", "/path"]);
        assert_eq!(found[3].1, "is not an argument; there are path, count, mode, deep");
        assert_eq!(found[4].1, "must be one of [\"r\",\"w\"]");
        assert_eq!(found[5].1, "is missing");
        assert!(found.iter().all(|(_, message)| !message.contains("secret-value")), "{found:?}");
    }

    #[test]
    fn a_broken_schema_is_said_to_be() {
        for broken in [
            json!({ "type": "text" }),
            json!({ "$ref": "#/$defs/none" }),
            json!({ "$ref": "https://example.org/schema.json" }),
            json!({ "$ref": "file:///etc/passwd" }),
            json!({ "properties": { "a": { "pattern": "(" } } }),
            json!(true),
            json!([]),
        ] {
            assert!(matches!(check(broken.clone(), json!({})), Err(ArgumentError::Schema(_))), "{broken}");
        }
    }

    #[test]
    fn many_problems_are_cut_off() {
        let args: Map<String, Value> = (0..500).map(|n| (format!("a{n}"), json!(n))).collect();
        let schema = json!({ "additionalProperties": { "type": "string" } });
        assert_eq!(problems(schema, Value::Object(args)).len(), MOST_PROBLEMS);
    }

    #[test]
    fn what_a_stranger_could_make_slow_is_not_quick() {
        let few = object(json!({ "a": ["b", 1], "c": "x".repeat(10_000) }));
        let quick = |schema: &Value, args: &Map<String, Value>| Schemas::default().ready(schema).is_quick(args);
        let plain = json!({ "type": "object", "properties": { "a": { "type": "array" }, "prefer": {} } });
        assert!(quick(&plain, &few));
        for slow in [
            json!({ "properties": { "a": { "pattern": "(a+)+$" } } }),
            json!({ "patternProperties": { "(a+)+$": {} } }),
            json!({ "anyOf": [{ "$ref": "#" }, { "not": { "$ref": "#" } }] }),
            json!({ "$dynamicRef": "#x" }),
            json!({ "description": "x".repeat(20_000) }),
        ] {
            assert!(!quick(&slow, &few), "{slow}");
        }
        for many in
            [json!({ "a": vec![1; 300] }), json!({ "a": "x".repeat(100_000) }), json!({ "a": [[vec![""; 300]]] })]
        {
            assert!(!quick(&plain, &object(many)));
        }
    }

    #[test]
    fn schemas_are_made_once_and_not_without_end() {
        let schemas = Schemas::default();
        for n in 0..MOST + 10 {
            let schema = json!({ "maxProperties": n });
            let ready = schemas.ready(&schema);
            ready.check(&schema, &Map::new()).unwrap();
            assert!(Arc::ptr_eq(&ready.0, &schemas.ready(&schema).0));
        }
        assert!(schemas.0.lock().unwrap().len() <= MOST);
    }
}
