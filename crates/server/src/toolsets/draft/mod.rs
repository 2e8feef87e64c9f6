//! A toolset as somebody writes it: servers and skills, without an archive around them. Read in one go, so that everything that is wrong with
//! it is told at once, each with its place; and no value is repeated, for it may be a secret.

mod complete;
mod fields;
mod read;

use std::fmt;

use kitbag_formats::skill;
use kitbag_model::{Description, DisplayName, ServerId, Skill, SkillId, ToolsetId, Visibility};
use serde_json::{Value, json};

pub(super) use complete::Completed;
pub(crate) use read::RawDraft;

use super::Values;
use crate::api::error::Code;

/// What somebody wrote. What is none stays as it is.
#[derive(Default)]
pub(crate) struct Draft {
    pub(super) id: Option<ToolsetId>,
    pub(super) name: Option<DisplayName>,
    /// The inner none clears it.
    pub(super) description: Option<Option<Description>>,
    pub(super) visibility: Option<Visibility>,
    pub(super) servers: Option<Vec<DraftServer>>,
    pub(super) skills: Option<Vec<DraftSkill>>,
    /// Whether the servers may start: what is new and what was trusted before, if nothing is said.
    pub(super) trust: Option<bool>,
    /// What is wrong with the rest.
    pub(super) problems: Vec<DraftProblem>,
}

/// A server as somebody wrote it.
pub(super) struct DraftServer {
    /// Where it stands.
    at: String,
    id: ServerId,
    server_type: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    cwd: Option<String>,
    url: Option<String>,
    env: Values,
    headers: Values,
    enabled: Option<bool>,
    requires_confirmation: Option<bool>,
    description: Option<Description>,
}

/// A skill as somebody wrote it.
pub(super) struct DraftSkill {
    /// Where it stands.
    at: String,
    id: SkillId,
    enabled: Option<bool>,
    /// All of it; none: its files stay as they are.
    whole: Option<Box<(skill::Bundle, Skill)>>,
}

/// Something that is wrong with a draft.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DraftProblem {
    pub(crate) code: Code,
    /// Where: `mcpServers[0].env.TOKEN`.
    pub(crate) field: String,
    /// What, and what is allowed.
    pub(crate) message: String,
}

impl DraftProblem {
    pub(crate) fn new(code: Code, field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { code, field: field.into(), message: message.to_string() }
    }

    /// As programs read it.
    pub(crate) fn told(&self) -> Value {
        json!({ "code": self.code.as_str(), "field": self.field, "message": self.message })
    }
}

impl fmt::Display for DraftProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
