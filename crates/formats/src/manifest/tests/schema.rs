//! The JSON Schema: current, and one with what the reader knows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::examples::{APP_BUILDER, EXAMPLE, good};
use crate::manifest::document::PARTS;
use crate::manifest::{schema, write};
use crate::yaml::{Reader, parse};

fn json(text: &str) -> Value {
    let mut reader = Reader::new(text);
    let node = parse(text, &mut reader).unwrap();
    reader.json(&node, "it").unwrap()
}

#[test]
fn the_published_schema_is_current() {
    let published = include_str!("../../../../../docs/toolset.schema.json");
    let current = format!("{:#}\n", schema());
    assert!(published == current, "docs/toolset.schema.json must be:\n{current}");
}

#[test]
fn the_reader_and_the_schema_know_the_same_keys() {
    let schema = schema();
    for (part, keys) in PARTS {
        let object = if part.is_empty() { &schema } else { &schema["$defs"][part] };
        let known: BTreeSet<&str> =
            keys.iter().flat_map(|key| key.aliases.iter().chain([&key.name])).copied().collect();
        let properties: BTreeSet<&str> = object["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(properties, known, "{part}");
        assert_eq!(object["additionalProperties"], Value::Bool(false), "{part}");
    }
    assert_eq!(schema["$defs"].as_object().unwrap().len() + 1, PARTS.len());
}

#[test]
fn manifests_fit_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for text in [EXAMPLE, APP_BUILDER] {
        for text in [text.to_owned(), write(&good(text).definition)] {
            let errors: Vec<String> = validator.iter_errors(&json(&text)).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{text}");
        }
    }
    for (wrong, right) in
        [("entrypont", "entrypoint"), ("version: 1.0\n", "version: \"1.0.0\"\n"), ("type: codes", "type: code")]
    {
        assert!(!validator.is_valid(&json(&APP_BUILDER.replacen(right, wrong, 1))), "{wrong}");
    }
}
