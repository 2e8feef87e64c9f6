//! Conversations in which a toolset is put together with a model's help.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{BuilderSessionId, UserId};
use crate::maker::Maker;
use crate::time::Timestamp;

/// The most turns of a conversation, a person's and the model's together.
pub const MOST_TURNS: u32 = 100;

/// A word that is not one of those that there are.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no such word here")]
pub struct UnknownWord;

/// Declares a few words, each a variant.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name {
            $($(#[$each])* $variant,)+
        }

        impl $name {
            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownWord),
                }
            }
        }
    };
}

words! {
    /// How a conversation stands.
    BuilderStatus {
        /// It goes on.
        Active = "ACTIVE",
        /// It has a draft.
        Finalized = "FINALIZED",
        /// It was put away.
        Archived = "ARCHIVED",
    }
}

words! {
    /// Who says something.
    BuilderRole {
        /// A person.
        User = "USER",
        /// The model.
        Assistant = "ASSISTANT",
    }
}

/// Which model is asked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BuilderLlm {
    /// Whose.
    pub provider: Maker,
    /// Its name there.
    pub model: String,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct BuilderSession {
    /// Its id.
    pub id: BuilderSessionId,
    /// How it stands.
    pub status: BuilderStatus,
    /// Which model is asked.
    pub llm: BuilderLlm,
    /// What the person wanted last, without secrets.
    pub latest_intent: Option<String>,
    /// What was chosen from the catalogue.
    pub selected: Vec<String>,
    /// What it came to.
    pub final_draft: Option<Value>,
    /// What must be known of that.
    pub final_warnings: Vec<String>,
    /// How many turns there are.
    pub turns: u32,
    /// Whose it is.
    pub user: Option<UserId>,
    /// Who began it, as records tell it. Of a token that is nobody's that is all there is.
    pub created_by: String,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said.
    pub updated_at: Timestamp,
}

/// A conversation about to be kept.
#[derive(Clone, Debug)]
pub struct NewBuilderSession {
    /// Its id.
    pub id: BuilderSessionId,
    /// Which model is asked.
    pub llm: BuilderLlm,
    /// Whose it is.
    pub user: Option<UserId>,
    /// Who began it, as records tell it.
    pub created_by: String,
}

/// What was said once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BuilderTurn {
    /// By whom.
    pub role: BuilderRole,
    /// What, without secrets.
    pub text: String,
    /// When.
    pub at: Timestamp,
}
