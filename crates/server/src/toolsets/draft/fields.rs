//! The fields of a JSON object, taken out one by one. What is wrong is noted, without its value, and the rest is read on.

use serde_json::{Map, Value};

use super::DraftProblem;
use crate::api::error::Code;
use crate::toolsets::Values;

/// An object that is being read.
pub(super) struct Fields<'p> {
    at: String,
    map: Map<String, Value>,
    problems: &'p mut Vec<DraftProblem>,
}

impl<'p> Fields<'p> {
    /// The fields of `value`, if it is an object.
    pub(super) fn of(at: String, value: Value, problems: &'p mut Vec<DraftProblem>) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self { at, map, problems }),
            _ => {
                problems.push(DraftProblem::new(Code::BadRequest, at, "must be an object"));
                None
            }
        }
    }

    /// Notes that something is wrong with a field.
    pub(super) fn wrong(&mut self, name: &str, message: impl std::fmt::Display) {
        self.problems.push(DraftProblem::new(Code::BadRequest, format!("{}.{name}", self.at), message));
    }

    /// A field under any of its names; null is as good as absent.
    fn take(&mut self, names: &[&str]) -> Option<Value> {
        let mut found: Option<Value> = None;
        for name in names {
            let Some(value) = self.map.remove(*name).filter(|value| !value.is_null()) else { continue };
            if found.as_ref().is_some_and(|other| *other != value) {
                self.wrong(name, format!("says something else than {}; they are one field", names[0]));
            }
            found = found.or(Some(value));
        }
        found
    }

    pub(super) fn text(&mut self, names: &[&str]) -> Option<String> {
        match self.take(names)? {
            Value::String(text) => Some(text),
            _ => {
                self.wrong(names[0], "must be a text");
                None
            }
        }
    }

    pub(super) fn bool(&mut self, name: &str) -> Option<bool> {
        match self.take(&[name])? {
            Value::Bool(value) => Some(value),
            _ => {
                self.wrong(name, "must be true or false");
                None
            }
        }
    }

    pub(super) fn texts(&mut self, name: &str) -> Vec<String> {
        let Some(value) = self.take(&[name]) else { return Vec::new() };
        let Value::Array(items) = value else {
            self.wrong(name, "must be a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text),
                _ => self.wrong(&format!("{name}[{index}]"), "must be a text"),
            }
        }
        texts
    }

    /// Texts by name; one that is null stays what it is.
    pub(super) fn values(&mut self, name: &str) -> Values {
        let Some(value) = self.take(&[name]) else { return Values::new() };
        let Value::Object(map) = value else {
            self.wrong(name, "must be an object of texts");
            return Values::new();
        };
        let mut values = Values::new();
        for (key, value) in map {
            match value {
                Value::String(text) => drop(values.insert(key, Some(text))),
                Value::Null => drop(values.insert(key, None)),
                _ => self.wrong(&format!("{name}.{key}"), "must be a text"),
            }
        }
        values
    }

    /// A text of some type that must be there.
    pub(super) fn needed<T: std::str::FromStr<Err: std::fmt::Display>>(&mut self, names: &[&str]) -> Option<T> {
        let before = self.problems.len();
        match self.text(names).map(|text| text.parse()) {
            Some(Ok(value)) => Some(value),
            Some(Err(error)) => {
                self.wrong(names[0], error);
                None
            }
            None => {
                if self.problems.len() == before {
                    self.wrong(names[0], "must be there");
                }
                None
            }
        }
    }

    /// Notes the fields that nobody knows.
    pub(super) fn finish(mut self, known: &str) {
        let unknown: Vec<String> = self.map.keys().cloned().collect();
        for name in unknown {
            self.wrong(&name, format!("is no field here; the fields are {known}"));
        }
    }
}
