//! Ids. Each kind is a type of its own, so that a chat's id cannot be passed where a message's is meant, and each is
//! parsed once, where it enters the program.
//!
//! Ids that Kitbag makes are version 7 UUIDs: their order is the order of creation, which is what lists are sorted
//! and continued by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text is not an id.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IdError {
    /// A generated id that is not written as Kitbag writes them.
    #[error("no {kind} id: {kind} ids are lower-case UUIDs such as 01890a5d-ac96-774b-bcce-b302099a8057")]
    NotUuid {
        /// What the id was to name.
        kind: &'static str,
    },
    /// An id that people choose and that breaks the rule for names.
    #[error("not a valid {kind} id: it must match ^[a-z0-9][a-z0-9_-]{{0,63}}$")]
    NotName {
        /// What the id was to name.
        kind: &'static str,
    },
    /// An id that means something else already: a word of the id syntax, or a device on Windows, where no folder can
    /// have that name.
    #[error("\"{id}\" is reserved and cannot be a {kind} id")]
    Reserved {
        /// What the id was to name.
        kind: &'static str,
        /// The id.
        id: String,
    },
    /// A tool inside its toolset that breaks the rule.
    #[error("not a valid tool id: it must match ^[A-Za-z0-9_][A-Za-z0-9_-]{{0,63}}$")]
    NotLocalTool,
    /// A skill that breaks the rule of `SKILL.md`.
    #[error(
        "not a valid skill id: it must have at most 64 characters and match ^[a-z0-9]+(-[a-z0-9]+)*$ (lower-case \
         letters and digits, single hyphens between)"
    )]
    NotSkill,
    /// Not two ids with `~` between.
    #[error("not a server key: server keys are written {{toolset id}}~{{server id}}")]
    NotServerKey,
    /// Neither of the forms that tool ids have.
    #[error(
        "not a tool id: write {{name}} for a built-in tool, {{toolset id}}:{{tool id}} for a tool of a toolset, \
         mcp:{{toolset id}}~{{server id}}:{{tool name}} for a tool of an MCP server"
    )]
    NotTool,
    /// The name of an MCP server's tool that cannot be kept.
    #[error("not a valid MCP tool name: it must have 1 to {most} bytes and no NUL", most = crate::tool_id::LONGEST_MCP_NAME)]
    NotMcpName,
}

macro_rules! generated_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, greater than every one this process made before.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            /// Takes the one spelling that `Display` writes. The others that UUIDs have (upper case, braces, no
            /// hyphens) would be second names for one thing, and these ids become folder names.
            fn from_str(text: &str) -> Result<Self, IdError> {
                let id = Uuid::try_parse(text).map(Self).map_err(|_| IdError::NotUuid { kind: $kind })?;
                if id.to_string() == text { Ok(id) } else { Err(IdError::NotUuid { kind: $kind }) }
            }
        }

        text_serde!($name);
    };
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

generated_id!(
    /// A conversation and the owner of a workspace.
    ChatId,
    "chat"
);
generated_id!(
    /// A conversation in which a toolset is put together.
    BuilderSessionId,
    "builder session"
);
generated_id!(
    /// A run of an agent.
    RunId,
    "run"
);
generated_id!(
    /// A model's turn in a chat.
    TurnId,
    "turn"
);
generated_id!(
    /// A machine that runs agents.
    ExecutorId,
    "executor"
);
generated_id!(
    /// A way in for an executor.
    PairingId,
    "pairing token"
);
generated_id!(
    /// One message in the tree of a chat.
    MessageId,
    "message"
);
generated_id!(
    /// One state of a workspace.
    ManifestId,
    "manifest"
);
generated_id!(
    /// One call of a tool.
    ToolCallId,
    "tool call"
);
generated_id!(
    /// An API token; public, unlike the token's secret.
    TokenId,
    "token"
);
generated_id!(
    /// What a browser holds after it was let in; public, unlike the session's secret.
    SessionId,
    "session"
);
generated_id!(
    /// A way into an organisation; public, unlike its secret.
    InvitationId,
    "invitation"
);
generated_id!(
    /// One line of the audit.
    AuditId,
    "audit line"
);
generated_id!(
    /// A person.
    UserId,
    "user"
);

/// An organisation: the tenant that owns rows, files and tokens.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OrgId(String);

impl OrgId {
    /// The organisation of the embedded mode. It exists on both databases.
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for OrgId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if is_name(text) { Ok(Self(text.to_owned())) } else { Err(IdError::NotName { kind: "organisation" }) }
    }
}

text_serde!(OrgId);
pub(crate) use text_serde;

/// The rule for ids that people choose. They become folder names and parts of other ids, so `.`, `/`, `~` and `:`
/// are out.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let Some(first) = bytes.next() else { return false };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 64 && plain(first) && bytes.all(|b| plain(b) || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_grow() {
        let ids: Vec<ChatId> = (0..1000).map(|_| ChatId::generate()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b && a.to_string() < b.to_string()));
    }

    #[test]
    fn a_generated_id_has_one_spelling() {
        let text = ChatId::generate().to_string();
        assert_eq!(text.parse::<ChatId>().map(|id| id.to_string()), Ok(text.clone()));
        for other in
            [text.to_uppercase(), text.replace('-', ""), format!("{{{text}}}"), format!(" {text}"), String::new()]
        {
            assert_eq!(other.parse::<ChatId>(), Err(IdError::NotUuid { kind: "chat" }), "{other:?}");
        }
    }

    #[test]
    fn organisation_ids() {
        for good in ["local", "a", "0x", "a_b-c", &"a".repeat(64)] {
            assert_eq!(good.parse::<OrgId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "A", "-a", "_a", "a.b", "a b", "a/b", "../a", "a~b", "a:b", "é", &"a".repeat(65)] {
            assert!(bad.parse::<OrgId>().is_err(), "{bad:?}");
        }
    }
}
