//! The draft that a conversation comes to: what the model wrote, and the servers of the catalogue. It is held to exactly what holds for a
//! toolset that is made, and is not one: whoever wants it sends it to where toolsets are made.

use std::collections::BTreeMap;

use kitbag_model::redaction::Kind;
use kitbag_model::{OrgId, redact};
use serde_json::{Value, json};

use super::answer::Drafted;
use super::catalogue::{Component, catalogue};
use crate::toolsets::{RawDraft, ToolsetError, check_draft};

/// What somebody says of the draft, in place of what the model says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) visibility: Option<String>,
}

/// A draft, and what must be known of it.
pub(super) struct Made {
    pub(super) draft: Value,
    pub(super) ignored: Vec<String>,
    /// Secrets that the model wrote.
    pub(super) found: BTreeMap<Kind, usize>,
}

impl Wishes {
    /// Whether what somebody says could be said of a toolset.
    pub(super) fn check(&self, org: &OrgId) -> Result<(), ToolsetError> {
        let name = self.name.clone().unwrap_or_else(|| "Toolset".to_owned());
        check_draft(org, self.raw(name, self.description.clone(), Vec::new(), Vec::new()))
    }

    fn raw(&self, name: String, description: Option<String>, servers: Vec<Value>, skills: Vec<Value>) -> RawDraft {
        RawDraft {
            id: None,
            name: Some(name),
            description: Some(description),
            visibility: self.visibility.clone(),
            servers: Some(servers),
            skills: Some(skills),
            trust: None,
        }
    }

    /// Puts a draft together. What is wrong with it is told, for the model to mend; no value is repeated.
    pub(super) fn fulfil(&self, org: &OrgId, drafted: Drafted, selected: &[String]) -> Result<Made, String> {
        let mut found = BTreeMap::new();
        let mut clean = |text: &str| {
            let redacted = redact(text);
            for (kind, many) in redacted.found {
                *found.entry(kind).or_insert(0) += many;
            }
            redacted.text
        };
        let name = self.name.clone().unwrap_or_else(|| clean(drafted.name.trim()));
        let description = self.description.clone().or_else(|| drafted.description.as_deref().map(&mut clean));
        if drafted.ignored.iter().any(|field| redact(field).count() > 0) {
            return Err("the name of a field looks like a secret".to_owned());
        }
        let mut skills = drafted.skills;
        for (number, skill) in skills.iter_mut().enumerate() {
            for field in ["name", "description"] {
                if let Some(Value::String(text)) = skill.get_mut(field) {
                    *text = clean(text);
                }
            }
            for file in skill.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten() {
                if file.get("encoding").is_some_and(|encoding| encoding != "utf8") {
                    return Err("files of skills must be written as text (`utf8`)".to_owned());
                }
                if let Some(Value::String(text)) = file.get_mut("content") {
                    *text = clean(text);
                }
            }
            // Now that its texts have none. What else has one is mended by nobody but the model: an id with a hole in it is none.
            if has_secret(skill) {
                return Err(format!("agentSkills[{number}]: an id, a path or the name of a field looks like a secret"));
            }
        }
        let servers: Vec<Value> = selected.iter().filter_map(|key| catalogue().get(key)).filter_map(entry).collect();
        let raw = self.raw(name.clone(), description.clone(), servers.clone(), skills.clone());
        check_draft(org, raw).map_err(|error| error.to_string())?;
        let draft = json!({
            "name": name, "description": description,
            "visibility": self.visibility.as_deref().unwrap_or("private"),
            "mcpServers": servers, "agentSkills": skills,
        });
        Ok(Made { draft, ignored: drafted.ignored, found })
    }
}

/// Whether something in a document looks like a secret: a text, or the name of a field.
fn has_secret(value: &Value) -> bool {
    let is_one = |text: &str| redact(text).count() > 0;
    match value {
        Value::String(text) => is_one(text),
        Value::Array(values) => values.iter().any(has_secret),
        Value::Object(fields) => fields.iter().any(|(name, value)| is_one(name) || has_secret(value)),
        _ => false,
    }
}

/// A server of the catalogue as toolsets have them. `name` is what it was called where the builder comes from.
pub(super) fn entry(component: &Component) -> Option<Value> {
    let mut entry = serde_json::to_value(component.mcp.as_ref()?).ok()?;
    let fields = entry.as_object_mut()?;
    fields.insert("name".to_owned(), fields.get("id")?.clone());
    fields.insert("description".to_owned(), component.description.clone().into());
    fields.insert("enabled".to_owned(), true.into());
    Some(entry)
}
