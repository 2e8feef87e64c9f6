//! Agent Skills: a folder with a `SKILL.md`, and the JSON form that carries one through an API.
//!
//! A skill is text for a model. Nothing in it is run here, and what it asks for (`allowed-tools`) grants nothing.

pub mod bundle;
mod read;

use std::collections::BTreeMap;

use kitbag_model::WorkPath;
use serde::Serialize;
use serde_json::{Map, Value};

pub use bundle::{Bundle, BundleError};
pub use read::read;

use crate::yaml::Problem;

/// The file that makes a folder a skill.
pub const ENTRY: &str = "SKILL.md";
/// How many files a skill may have.
pub const MOST_FILES: usize = 512;
/// How many bytes one file may have.
pub const LARGEST_FILE: usize = 2_000_000;
/// How many bytes all files together may have.
pub const LARGEST_SKILL: usize = 16 * 1024 * 1024;

/// How much a reader forgives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Strictness {
    /// Everything that the specification forbids is a problem. For what is made here.
    Strict,
    /// What does not keep a skill from working is a warning. For what others made.
    Lenient,
}

/// What a `SKILL.md` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Its name. Read leniently it may break the rule for skill ids.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// Under which terms it may be used.
    pub license: Option<String>,
    /// What it needs around it.
    pub compatibility: Option<String>,
    /// The tools it would like to use without asking. Recorded to be shown; it grants nothing.
    pub allowed_tools: Vec<String>,
    /// What else its author says about it.
    pub metadata: BTreeMap<String, String>,
    /// All fields as they stand, those that nobody here knows included.
    pub front_matter: Map<String, Value>,
    /// What a model reads when it uses the skill.
    #[serde(skip)]
    pub body: String,
}

/// A `SKILL.md` that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it says.
    pub skill: Skill,
    /// What is not as it should be.
    pub warnings: Vec<Problem>,
}

/// The folders that are skills among the files of a toolset: those directly below `skills/` with a `SKILL.md`. One deeper
/// down is a supporting file of the skill it is in, not a skill that comes along unseen.
pub fn folders<'a>(paths: impl IntoIterator<Item = &'a WorkPath>) -> Vec<WorkPath> {
    let skill = |path: &WorkPath| {
        let parts: Vec<&str> = path.parts().collect();
        match parts.as_slice() {
            ["skills", folder, ENTRY] => WorkPath::below("skills", folder).ok(),
            _ => None,
        }
    };
    let mut found: Vec<WorkPath> = paths.into_iter().filter_map(skill).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests;
