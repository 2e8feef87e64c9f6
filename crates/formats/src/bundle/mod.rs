//! A toolset as it travels: an archive with a `toolset.yaml` and the files it names.
//!
//! Reading one tells everything that is wrong with it at once. Nothing of it is run, and nothing is written: what comes out
//! is a list of files and what they mean.

mod layout;
mod read;
mod skills;

use std::fmt;

use kitbag_model::{Definition, Skill, WorkPath};
use serde::Serialize;

pub(crate) use layout::{kept, lift, only_folder};
pub(crate) use read::content;
pub use read::read;
pub use skills::made as made_skill;
pub(crate) use skills::one as read_skill;

use crate::yaml::Problem;

/// The manifest's name.
pub const MANIFEST: &str = "toolset.yaml";

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The archive, or which files are in it.
    InvalidBundle,
    /// The manifest.
    InvalidManifest,
    /// A skill.
    InvalidSkillBundle,
    /// A value that must be a reference to a variable and is not.
    InvalidMcpPlaceholder,
}

impl Code {
    /// As it is told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidBundle => "INVALID_BUNDLE",
            Self::InvalidManifest => "INVALID_MANIFEST",
            Self::InvalidSkillBundle => "INVALID_SKILL_BUNDLE",
            Self::InvalidMcpPlaceholder => "INVALID_MCP_PLACEHOLDER",
        }
    }
}

/// Something that is wrong with a bundle, or that its reader should know.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What kind it is.
    pub code: Code,
    /// In which file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// In which line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// In which column, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What it is, and what is allowed.
    pub message: String,
    /// The line with a mark below the place, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
}

impl Finding {
    /// One about the bundle as a whole, or one of its files.
    pub fn new(code: Code, file: Option<&str>, message: impl Into<String>) -> Self {
        let file = file.map(ToOwned::to_owned);
        Self { code, file, line: None, column: None, message: message.into(), excerpt: None }
    }

    /// One at a place in a text.
    pub fn at(code: Code, file: &str, problem: &Problem) -> Self {
        let code = if problem.placeholder { Code::InvalidMcpPlaceholder } else { code };
        let shown = problem.to_string();
        let excerpt = shown.split_once('\n').map(|(_, excerpt)| excerpt.to_owned());
        Self {
            code,
            file: Some(file.to_owned()),
            line: Some(problem.line),
            column: Some(problem.column),
            message: problem.message.clone(),
            excerpt,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}")?;
            if let (Some(line), Some(column)) = (self.line, self.column) {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.message)?;
        match &self.excerpt {
            Some(excerpt) => write!(f, "\n{excerpt}"),
            None => Ok(()),
        }
    }
}

/// A file of a bundle.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BundleFile {
    /// Where it goes, below the toolset's folder.
    pub path: WorkPath,
    /// What it holds.
    pub content: Content,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What a file holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Content {
    /// What the archive has under this number.
    Entry(usize),
    /// What was made from other files.
    Made(Vec<u8>),
}

/// A bundle that can be installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// What the toolset is made of.
    pub definition: Definition,
    /// Its skills.
    pub skills: Vec<Skill>,
    /// Its files, by path.
    pub files: Vec<BundleFile>,
    /// What whoever installs it should know.
    pub warnings: Vec<Finding>,
}

impl Bundle {
    /// Whether there is nothing in it to use.
    pub fn is_empty(&self) -> bool {
        self.definition.tools.is_empty() && self.definition.servers.is_empty() && self.skills.is_empty()
    }
}

/// Why a bundle cannot be installed: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Refused {
    /// What is wrong. There is at least one.
    pub problems: Vec<Finding>,
    /// What else its author should know.
    pub warnings: Vec<Finding>,
}

impl From<Finding> for Refused {
    fn from(problem: Finding) -> Self {
        Self { problems: vec![problem], warnings: Vec::new() }
    }
}
