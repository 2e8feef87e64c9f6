//! Manifests: the states of a workspace, each with where it came from.

use std::fmt;
use std::str::FromStr;

use crate::hash::ContentHash;
use crate::id::{ChatId, ManifestId};
use crate::time::Timestamp;

/// What made a state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// The empty folder that a chat begins with.
    Initial,
    /// Files that a person brought.
    UserUpload,
    /// A tool call.
    ToolRun,
    /// A switch to another branch found changes that nobody had kept yet.
    Branch,
    /// A person's edit, or an earlier state that was brought back.
    Edit,
}

impl Source {
    /// Every source there is.
    pub const ALL: [Self; 5] = [Self::Initial, Self::UserUpload, Self::ToolRun, Self::Branch, Self::Edit];

    /// As it is written in the API and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::UserUpload => "user_upload",
            Self::ToolRun => "tool_run",
            Self::Branch => "branch",
            Self::Edit => "edit",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no source.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown source of a manifest")]
pub struct UnknownSource;

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        Self::ALL.into_iter().find(|source| source.as_str() == text).ok_or(UnknownSource)
    }
}

/// A state about to be kept.
#[derive(Clone, Debug)]
pub struct NewManifest {
    /// The state that it follows; it must still be the chat's active one.
    pub parent: Option<ManifestId>,
    /// The name of its tree.
    pub root: ContentHash,
    /// What made it.
    pub source: Source,
    /// Which upload, call or state that was.
    pub source_ref: Option<String>,
}

/// A state of a workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Manifest {
    /// Its id.
    pub id: ManifestId,
    /// The chat whose workspace it is a state of.
    pub chat_id: ChatId,
    /// The state that it followed.
    pub parent_id: Option<ManifestId>,
    /// The name of its tree.
    pub root: ContentHash,
    /// When it was taken.
    pub created_at: Timestamp,
    /// What made it.
    pub source: Source,
    /// Which upload, call or state that was.
    pub source_ref: Option<String>,
}
