//! Puts the values of expressions in their place. The rules are at [`RenderPlan::new`](super::RenderPlan::new).

use std::io;

use serde_json::{Map, Value};

use super::expression::{Expression, Found, Lost, kind};
use super::{MOST_PLAN_BYTES, PlanError, Scene};
use crate::renderer::Rendering;

/// Paths and addresses. Nothing is written into them that has no plain spelling.
const PLAIN: [&str; 4] = ["file", "path", "artifact", "url"];

/// The configuration with every expression replaced. Keys without a value are left out.
pub(super) fn fill(rendering: &Rendering, scene: &Scene<'_>) -> Result<Map<String, Value>, PlanError> {
    let mut room = Room(MOST_PLAN_BYTES);
    let mut filled = Map::new();
    for (key, value) in rendering.config().iter().filter(|(_, value)| !value.is_null()) {
        let mut place = Place { key, plain: PLAIN.contains(&key.as_str()), scene, room: &mut room };
        let value = place.value(value)?;
        filled.insert(key.clone(), value);
    }
    Ok(filled)
}

/// Refuses a configuration that is too large with everything that is in it.
pub(super) fn check_size(config: &Map<String, Value>) -> Result<(), PlanError> {
    Room(MOST_PLAN_BYTES).take_json(config)
}

/// How many bytes of JSON the plan may still get. They are counted before anything is copied, so that a few expressions
/// for a large result do not become a huge plan first.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), PlanError> {
        self.0 = self.0.checked_sub(bytes).ok_or(PlanError::TooLarge { most: MOST_PLAN_BYTES })?;
        Ok(())
    }

    fn take_json(&mut self, value: &impl serde::Serialize) -> Result<(), PlanError> {
        serde_json::to_writer(self, value).map_err(|_| PlanError::TooLarge { most: MOST_PLAN_BYTES })
    }
}

impl io::Write for &mut Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes.len()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where in a configuration a value stands.
struct Place<'a> {
    key: &'a str,
    plain: bool,
    scene: &'a Scene<'a>,
    room: &'a mut Room,
}

impl<'a> Place<'a> {
    fn value(&mut self, value: &Value) -> Result<Value, PlanError> {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let filled = fields.iter().map(|(key, value)| Ok((key.clone(), self.value(value)?)));
                filled.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        }
    }

    fn text(&mut self, text: &str) -> Result<Value, PlanError> {
        if let Some(found) = self.whole(text)? {
            return match found {
                Found::Value(value) => self.room.take_json(value).map(|()| value.clone()),
                Found::Object(fields) => self.room.take_json(fields).map(|()| Value::Object(fields.clone())),
                Found::Text(text) => self.room.take(text.len()).map(|()| Value::String(text)),
            };
        }
        let (mut written, mut rest) = (String::new(), text);
        while let Some(dollar) = rest.find('$') {
            written.push_str(&rest[..dollar]);
            rest = &rest[dollar..];
            if let Some((expression, after)) = Expression::at(rest) {
                self.write(&expression, &mut written)?;
                rest = after;
            } else {
                written.push('$');
                rest = rest.strip_prefix("$$").unwrap_or(&rest[1..]);
            }
        }
        written.push_str(rest);
        Ok(Value::String(written))
    }

    /// The value of a text that is one expression. One that leads to nothing may still be the beginning of a longer text,
    /// as in `$args.name of the file`.
    fn whole(&self, text: &str) -> Result<Option<Found<'a>>, PlanError> {
        if let Some((expression, "")) = Expression::at(text) {
            return expression.find(self.scene).map(Some).map_err(|lost| self.unresolved(lost));
        }
        let one = text.strip_prefix('$').filter(|rest| !rest.contains('$'));
        Ok(one.and_then(Expression::whole).and_then(|expression| expression.find(self.scene).ok()))
    }

    fn write(&mut self, expression: &Expression<'_>, written: &mut String) -> Result<(), PlanError> {
        let found = expression.find(self.scene).map_err(|lost| self.unresolved(lost))?;
        let json = match &found {
            Found::Text(text) => return self.push(text, written),
            Found::Value(Value::String(text)) => return self.push(text, written),
            Found::Value(value @ (Value::Bool(_) | Value::Number(_))) => return self.push(&value.to_string(), written),
            Found::Value(value) if self.plain => return Err(self.not_plain(expression, kind(value))),
            Found::Object(_) if self.plain => return Err(self.not_plain(expression, "an object")),
            Found::Value(value) => {
                self.room.take_json(value)?;
                value.to_string()
            }
            Found::Object(fields) => {
                self.room.take_json(fields)?;
                Value::Object((*fields).clone()).to_string()
            }
        };
        written.push_str(&json);
        Ok(())
    }

    fn push(&mut self, text: &str, written: &mut String) -> Result<(), PlanError> {
        self.room.take(text.len())?;
        written.push_str(text);
        Ok(())
    }

    fn not_plain(&self, expression: &Expression<'_>, found: &'static str) -> PlanError {
        PlanError::NotPlain { key: self.key.to_owned(), expression: expression.to_whole_text(), found }
    }

    fn unresolved(&self, lost: Lost) -> PlanError {
        PlanError::Unresolved { key: self.key.to_owned(), expression: lost.expression, reason: lost.reason }
    }
}
