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

type Made = Arc<Result<Validator, String>>;

/// Schemas that were made ready before. Clones share them.
#[derive(Clone, Default)]
pub struct Schemas(Arc<Mutex<HashMap<ContentHash, Made>>>);

impl Schemas {
    /// Whether the arguments fit. Everything that is wrong is told at once. It may take a moment: do it where that is no harm.
    pub fn check(&self, schema: &Value, args: &Map<String, Value>) -> Result<(), ArgumentError> {
        let made = self.made(schema);
        let validator = made.as_ref().as_ref().map_err(|reason| ArgumentError::Schema(reason.clone()))?;
        let args = Value::Object(args.clone());
        let mut problems: Vec<Problem> = Vec::new();
        for error in validator.iter_errors(&args) {
            problems.extend(told(&error, schema));
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ArgumentError::Invalid(problems)) }
    }

    fn made(&self, schema: &Value) -> Made {
        let key = ContentHash::of(schema.to_string().as_bytes());
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = known().get(&key) {
            return Arc::clone(made);
        }
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS));
        let made: Made = Arc::new(match schema {
            Value::Object(_) => options.build(schema).map_err(|error| error.to_string()),
            _ => Err("it must be an object".to_owned()),
        });
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, Arc::clone(&made));
        made
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
        Schemas::default().check(&schema, args.as_object().unwrap())
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
    fn schemas_are_made_once_and_not_without_end() {
        let schemas = Schemas::default();
        for n in 0..MOST + 10 {
            let schema = json!({ "maxProperties": n });
            schemas.check(&schema, &Map::new()).unwrap();
            let again = schemas.made(&schema);
            assert!(Arc::ptr_eq(&again, &schemas.made(&schema)));
        }
        assert!(schemas.0.lock().unwrap().len() <= MOST);
    }
}
