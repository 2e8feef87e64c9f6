//! Which rule put a tool in or out.

use std::fmt;

use serde::Serialize;

/// Why a client gets a tool, or does not.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "kind", content = "by", rename_all = "camelCase")]
pub enum Reason {
    /// In: no list of toolsets was given, or it says `all`.
    AllToolsets,
    /// In: its toolset is listed.
    Toolset(String),
    /// In: this entry of the enabled tools.
    Enabled(String),
    /// Out: this entry of the disabled tools.
    Disabled(String),
    /// Out: neither its toolset nor it is listed.
    NotListed,
    /// Out: the server's own lists do not have it.
    Global(Box<Reason>),
    /// Out: this selector of the chat takes it away, or without one none of them admits it.
    Chat(Option<String>),
    /// Out: it, its server or its toolset is off.
    Off,
    /// Out: it cannot be called.
    Problem(String),
}

impl Reason {
    /// Whether it puts a tool in.
    pub fn is_in(&self) -> bool {
        matches!(self, Self::AllToolsets | Self::Toolset(_) | Self::Enabled(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllToolsets => f.write_str("all toolsets"),
            Self::Toolset(id) => write!(f, "toolset {id}"),
            Self::Enabled(entry) => write!(f, "enabled by {entry}"),
            Self::Disabled(entry) => write!(f, "disabled by {entry}"),
            Self::NotListed => f.write_str("not in any list"),
            Self::Global(reason) => write!(f, "server's own lists: {reason}"),
            Self::Chat(Some(selector)) => write!(f, "taken away by the chat's selector {selector}"),
            Self::Chat(None) => f.write_str("not admitted by the chat's selectors"),
            Self::Off => f.write_str("off"),
            Self::Problem(text) => f.write_str(text),
        }
    }
}
