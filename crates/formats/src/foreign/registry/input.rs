//! The values that a registry entry fixes, or that it leaves to its user: arguments, variables and headers.

use serde_json::{Map, Value};

use super::super::builder::{Builder, Draft, Secretive};
use super::super::lower::{Declared, Host, Scope};
use super::super::name;
use super::super::notes::shown;
use super::{Variables, field, text};

fn flag(map: &Map<String, Value>, spellings: &[&str]) -> bool {
    field(map, spellings).and_then(Value::as_bool).unwrap_or(false)
}

fn is_needed(input: &Map<String, Value>) -> bool {
    flag(input, &["isRequired", "is_required"]) || flag(input, &["isSecret", "is_secret"])
}

/// The parts in curly braces that a value may have.
pub(super) fn variables(map: &Map<String, Value>) -> Variables {
    let mut variables = Variables::new();
    for (key, variable) in field(map, &["variables"]).and_then(Value::as_object).into_iter().flatten() {
        let said = |key: &str| variable.get(key).filter(|value| !value.is_null());
        let secret = ["isSecret", "is_secret"].iter().any(|key| said(key) == Some(&Value::Bool(true)));
        let fixed = said("value").and_then(Value::as_str).filter(|_| !secret).map(ToOwned::to_owned);
        variables.insert(key.clone(), Declared { has_default: said("default").is_some(), several: false, fixed });
    }
    variables
}

/// Variables of the environment, or headers.
pub(super) fn values(
    builder: &mut Builder<'_>,
    draft: &mut Draft,
    kind: Secretive,
    inputs: &[&Map<String, Value>],
    outer: &Variables,
) {
    for input in inputs {
        let Some(key) = text(input, &["name"]) else {
            builder.notes.problem(format!("{}: a variable or header has no name", draft.place));
            continue;
        };
        let own = variables(input);
        let declared = if own.is_empty() { outer } else { &own };
        match text(input, &["value"]) {
            Some(value) => builder.value(draft, kind, key, value, &Scope { host: Host::Registry, declared }),
            None if is_needed(input) => {
                if field(input, &["default"]).is_some() {
                    let variable = name::variable(key).unwrap_or_default();
                    builder.notes.warn(format!(
                        "{}: the default of {} is not taken; set the variable {variable}",
                        draft.place,
                        shown(key)
                    ));
                }
                builder.asked(draft, kind, key);
            }
            None => builder.notes.warn(format!("{}: {} may be left out, and is", draft.place, shown(key))),
        }
    }
}

/// Arguments of a program.
pub(super) fn arguments(builder: &mut Builder<'_>, place: &str, inputs: &[&Map<String, Value>]) -> Vec<String> {
    let mut args = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let at = format!("{place}[{index}]");
        let named = match text(input, &["type"]) {
            Some("positional") | None => None,
            Some("named") => match text(input, &["name"]) {
                Some(name) => Some(name),
                None => {
                    builder.notes.problem(format!("{at}: a named argument must have a name"));
                    continue;
                }
            },
            Some(_) => {
                builder.notes.problem(format!("{at}.type must be positional or named"));
                continue;
            }
        };
        let declared = variables(input);
        let scope = Scope { host: Host::Registry, declared: &declared };
        let hint = text(input, &["valueHint", "value_hint"]).or(named).or_else(|| text(input, &["name"]));
        if flag(input, &["isRepeated", "is_repeated"]) {
            builder.notes.warn(format!("{at} can be given several times elsewhere; here it is there once"));
        }
        let value = match text(input, &["value"]) {
            Some(value) => match builder.text(&at, value, &scope) {
                Some(value) => value,
                None => continue,
            },
            None if is_needed(input) => match asked(builder, &at, hint, input) {
                Some(value) => value,
                None => continue,
            },
            None => {
                builder.notes.warn(format!("{at}: {} may be left out, and is", shown(hint.unwrap_or("the argument"))));
                continue;
            }
        };
        if let Some(name) = named {
            args.extend(builder.text(&at, name, &scope));
        }
        if named.is_none() || !value.is_empty() {
            args.push(value);
        }
    }
    args
}

/// A reference for an argument that its user is asked for.
fn asked(builder: &mut Builder<'_>, place: &str, hint: Option<&str>, input: &Map<String, Value>) -> Option<String> {
    let reference = super::super::lower::reference_to(hint.unwrap_or_default());
    match reference {
        Ok(reference) => {
            let text = reference.text();
            let lost = if field(input, &["default"]).is_some() { "; its default is not taken" } else { "" };
            builder.notes.warn(format!("{place} is asked for elsewhere; here it is {text}{lost}"));
            Some(text)
        }
        Err(refusal) => {
            builder.notes.problem(format!("{place}: its name or hint {refusal}"));
            None
        }
    }
}
