//! Chats: a conversation, the tools it may use, and where it stands.

use std::str::FromStr;

use crate::id::{ChatId, ManifestId, MessageId};
use crate::text::{TextError, line_type};
use crate::time::Timestamp;

line_type!(
    /// The title of a chat.
    ChatTitle,
    200
);
line_type!(
    /// One entry of the list that says which tools a chat may use: an id, `mcp:<server key>`, `toolset:<id>` or a
    /// pattern, each with `-` in front to take away. What it names need not exist yet.
    ToolSelector,
    256
);

/// The tools a chat may use, in the order given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ToolSelectors(Vec<ToolSelector>);

impl ToolSelectors {
    /// How many entries there may be.
    pub const MOST: usize = 512;

    /// The entries as texts.
    pub fn to_strings(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

/// Why a list of selectors was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SelectorsError {
    /// Too many entries.
    #[error("must have at most {most} entries, not {has}", most = ToolSelectors::MOST)]
    TooMany {
        /// How many there are.
        has: usize,
    },
    /// One entry is not a selector.
    #[error("entry {index}: {reason}")]
    Entry {
        /// Which, counted from 0.
        index: usize,
        /// What is wrong with it.
        reason: TextError,
    },
}

impl TryFrom<&[String]> for ToolSelectors {
    type Error = SelectorsError;

    fn try_from(texts: &[String]) -> Result<Self, SelectorsError> {
        if texts.len() > Self::MOST {
            return Err(SelectorsError::TooMany { has: texts.len() });
        }
        let entry = |(index, text): (usize, &String)| {
            ToolSelector::from_str(text).map_err(|reason| SelectorsError::Entry { index, reason })
        };
        texts.iter().enumerate().map(entry).collect::<Result<_, _>>().map(Self)
    }
}

/// A chat about to be made.
#[derive(Clone, Debug, Default)]
pub struct NewChat {
    /// Its title, if it has one yet.
    pub title: Option<ChatTitle>,
    /// Which tools it may use; absent means whatever is resolved for the caller.
    pub tool_selectors: Option<ToolSelectors>,
    /// Whether it is only the workspace of a run. Lists leave it out.
    pub of_run: bool,
}

/// What to change about a chat. The outer `None` leaves a field as it is, the inner one clears it.
#[derive(Clone, Debug, Default)]
pub struct ChatChange {
    /// The title.
    pub title: Option<Option<ChatTitle>>,
    /// The tools it may use.
    pub tool_selectors: Option<Option<ToolSelectors>>,
}

/// A chat.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chat {
    /// Its id.
    pub id: ChatId,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Which tools it may use; absent means whatever is resolved for the caller.
    pub tool_selectors: Option<Vec<String>>,
    /// The message that the conversation stands at.
    pub active_leaf_message_id: Option<MessageId>,
    /// The state that its workspace stands at.
    pub active_manifest_id: Option<ManifestId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it, or its messages, last changed.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        let texts = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let good = texts(&["write_file", "mcp:ts~srv:a:b", "toolset:app", "-mcp:ts~srv:*"]);
        assert_eq!(ToolSelectors::try_from(good.as_slice()).map(|s| s.to_strings()), Ok(good));
        assert_eq!(
            ToolSelectors::try_from(texts(&["a", " "]).as_slice()),
            Err(SelectorsError::Entry { index: 1, reason: TextError::Empty })
        );
        let many = vec!["a".to_owned(); ToolSelectors::MOST + 1];
        assert_eq!(ToolSelectors::try_from(many.as_slice()), Err(SelectorsError::TooMany { has: 513 }));
    }
}
