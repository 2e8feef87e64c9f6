//! The keys of overrides: which tools of a toolset one means. `{toolset}:{tool}` or `{server}:{tool}`, with `*` in either
//! part for any text.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::id::{IdError, is_name};
use crate::name::{ServerKey, ToolsetId};
use crate::tool_id::{LONGEST_MCP_NAME, ToolId};

/// Why a text is not the key of an override.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OverrideKeyError {
    /// No tool is named.
    #[error("names no tool: write {{tool id}}, {{server id}}:{{tool name}} or a pattern such as {{server id}}:*")]
    NoTool,
    /// The part before the colon is neither an id nor a pattern of one.
    #[error("\"{part}\" is neither a toolset id nor a server id: it must match ^[a-z0-9*][a-z0-9_*-]{{0,63}}$")]
    Namespace {
        /// The part.
        part: String,
    },
    /// The part behind the colon cannot be kept.
    #[error("the tool name must have at most {most} bytes and no control characters", most = LONGEST_MCP_NAME)]
    Tool,
    /// A server of another toolset.
    #[error("{server} belongs to another toolset; overrides of \"{toolset}\" are for its own tools only")]
    OtherToolset {
        /// The server.
        server: ServerKey,
        /// The toolset whose override it was to be.
        toolset: ToolsetId,
    },
    /// A server key that is not one.
    #[error(transparent)]
    Server(#[from] IdError),
}

/// The key of an override inside its toolset, in its one spelling.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OverrideKey {
    text: String,
    /// Where the namespace begins, and the colon behind it.
    start: usize,
    colon: usize,
}

impl OverrideKey {
    /// Reads a key as people write it in the toolset it is for. A bare tool id, `mcp:` in front, and server keys are
    /// second spellings and become the one that is kept.
    pub fn parse(text: &str, toolset: &ToolsetId) -> Result<Self, OverrideKeyError> {
        let text = text.trim();
        let text = text.strip_prefix("mcp:").unwrap_or(text);
        let (namespace, tool) = match text.split_once(':') {
            Some((namespace, tool)) => (namespace, tool),
            None if text.contains('~') => return Err(OverrideKeyError::NoTool),
            None => (toolset.as_str(), text),
        };
        if tool.is_empty() {
            return Err(OverrideKeyError::NoTool);
        }
        if tool.len() > LONGEST_MCP_NAME || tool.chars().any(char::is_control) {
            return Err(OverrideKeyError::Tool);
        }
        if namespace.contains('~') {
            let server: ServerKey = namespace.parse()?;
            if server.toolset != *toolset {
                return Err(OverrideKeyError::OtherToolset { server, toolset: toolset.clone() });
            }
            return Ok(Self::new(server.server.as_str(), tool));
        }
        if !is_name(&namespace.replace('*', "0")) {
            return Err(OverrideKeyError::Namespace { part: namespace.to_owned() });
        }
        Ok(Self::new(namespace, tool))
    }

    fn new(namespace: &str, tool: &str) -> Self {
        // A server may be called "mcp". Its key keeps the prefix, or reading it again would take its name for the prefix.
        let prefix = if namespace == "mcp" { "mcp:" } else { "" };
        let (start, colon) = (prefix.len(), prefix.len() + namespace.len());
        Self { text: format!("{prefix}{namespace}:{tool}"), start, colon }
    }

    /// The key for one tool and no other.
    pub fn of(tool: &ToolId) -> Self {
        let (namespace, tool) = tool.override_parts();
        Self::new(namespace, tool)
    }

    /// The same for the own tools of a toolset of another id.
    pub(crate) fn moved_to(&self, toolset: &ToolsetId) -> Self {
        Self::new(toolset.as_str(), self.tool())
    }

    /// Whether it may mean tools of a toolset, or of a server, of this id.
    pub(crate) fn reaches(&self, namespace: &str) -> bool {
        fits(self.namespace(), namespace)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The toolset's or server's part.
    pub fn namespace(&self) -> &str {
        &self.text[self.start..self.colon]
    }

    /// The tool's part.
    pub fn tool(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// Whether it may mean several tools.
    pub fn is_pattern(&self) -> bool {
        self.text.contains('*')
    }

    /// Whether it means this tool, which must be one of its own toolset.
    pub fn matches(&self, tool: &ToolId) -> bool {
        let (namespace, name) = tool.override_parts();
        fits(self.namespace(), namespace) && fits(self.tool(), name)
    }

    /// The order in which keys that mean the same tool are asked: an exact key before a pattern, a longer pattern before
    /// a shorter, and else by their text, so that the answer never hangs on the order of a list.
    pub fn by_precision(&self, other: &Self) -> Ordering {
        let length = |key: &Self| key.text.chars().count();
        self.is_pattern()
            .cmp(&other.is_pattern())
            .then_with(|| length(other).cmp(&length(self)))
            .then_with(|| self.text.cmp(&other.text))
    }
}

/// Whether a pattern, in which `*` is any text, fits all of `text`. Going back to the last star alone is enough, so that
/// no pattern takes more than the product of the two lengths.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star, taken)) = retry {
            retry = Some((star, taken + 1));
            (p, t) = (star, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

impl fmt::Display for OverrideKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for OverrideKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// In its one spelling alone, which names what it is for.
impl<'de> Deserialize<'de> for OverrideKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (namespace, tool) = text.strip_prefix("mcp:").unwrap_or(&text).split_once(':').unwrap_or_default();
        let key = Self::new(namespace, tool);
        if key.text == text { Ok(key) } else { Err(serde::de::Error::custom("is not the key of an override")) }
    }
}
