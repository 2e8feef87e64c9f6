//! Ids that people choose for what a toolset is made of. They become folder names and parts of other ids, so each has a
//! narrow alphabet and is checked where it enters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{IdError, is_name, text_serde};

macro_rules! chosen_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        text_serde!($name);
    };
}

chosen_id!(
    /// A toolset: the name of a folder, and the first part of its tools' ids.
    ToolsetId
);
chosen_id!(
    /// An MCP server inside its toolset.
    ServerId
);
chosen_id!(
    /// A Python or container tool inside its toolset. Inside one toolset they differ in more than case.
    LocalToolId
);
chosen_id!(
    /// A skill inside its toolset; also the name of its folder and the `name` in its `SKILL.md`.
    SkillId
);

/// Words that are part of the syntax of tool ids and selectors. A toolset of that name could not be addressed.
const RESERVED_TOOLSETS: [&str; 4] = ["mcp", "toolset", "builtin", "all"];

impl ToolsetId {
    /// The toolset that the built-in tools form. It has no rows and no files, and nobody can install one of that name.
    pub fn builtin() -> Self {
        Self("builtin".to_owned())
    }

    /// Ids for something that people call `name`, best first, without an end: the name itself where it is an id, else what is left
    /// of it in small letters, digits and hyphens, then the same with numbers. `otherwise` stands for a name of which nothing is
    /// left.
    pub fn from_name<'a>(name: &str, otherwise: &'a str) -> impl Iterator<Item = Self> + 'a {
        let mut words = String::new();
        for c in name.chars().map(|c| c.to_ascii_lowercase()) {
            if c.is_ascii_alphanumeric() || (c == '_' && !words.is_empty()) {
                words.push(c);
            } else if !words.is_empty() && !words.ends_with('-') {
                words.push('-');
            }
        }
        // Room for a number.
        words.truncate(56);
        let words = words.trim_end_matches(['-', '_']).to_owned();
        let base = if words.is_empty() { otherwise.to_owned() } else { words };
        let same = name.parse().ok().into_iter();
        let numbered = (0_u64..).map(move |number| if number == 0 { base.clone() } else { format!("{base}-{number}") });
        same.chain(numbered.filter_map(|text| text.parse().ok()))
    }
}

impl FromStr for ToolsetId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let kind = "toolset";
        if !is_name(text) {
            return Err(IdError::NotName { kind });
        }
        if RESERVED_TOOLSETS.contains(&text) || is_device(text) {
            return Err(IdError::Reserved { kind, id: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for ServerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let kind = "server";
        if !is_name(text) {
            return Err(IdError::NotName { kind });
        }
        if is_device(text) {
            return Err(IdError::Reserved { kind, id: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl LocalToolId {
    /// The form in which two ids of one toolset are compared.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for LocalToolId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let first = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let mut bytes = text.bytes();
        let good = text.len() <= 64 && bytes.next().is_some_and(first) && bytes.all(|b| first(b) || b == b'-');
        if good { Ok(Self(text.to_owned())) } else { Err(IdError::NotLocalTool) }
    }
}

impl FromStr for SkillId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if text.len() <= 64 && text.split('-').all(word) { Ok(Self(text.to_owned())) } else { Err(IdError::NotSkill) }
    }
}

/// An MCP server among all toolsets.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServerKey {
    /// The toolset that declares it.
    pub toolset: ToolsetId,
    /// Its id there.
    pub server: ServerId,
}

impl fmt::Display for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.toolset, self.server)
    }
}

impl FromStr for ServerKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (toolset, server) = text.split_once('~').ok_or(IdError::NotServerKey)?;
        Ok(Self { toolset: toolset.parse()?, server: server.parse()? })
    }
}

text_serde!(ServerKey);

/// Whether Windows keeps this name for a device. A data folder is copied between systems, and bundles are unpacked there.
fn is_device(text: &str) -> bool {
    let numbered = |prefix: &str| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!(text, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolset_and_server_ids() {
        for good in ["github", "0x", "a_b-c", "ext__mcp", "com", "com10", "console", &"a".repeat(64)] {
            assert_eq!(good.parse::<ToolsetId>().map(|id| id.to_string()), Ok(good.to_owned()));
            assert_eq!(good.parse::<ServerId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        let look_alike = "gіthub"; // the second letter is Cyrillic
        for bad in ["", "A", "-a", "_a", "a.b", "a b", "../x", "a~b", "a:b", "a\n", look_alike, &"a".repeat(65)] {
            assert_eq!(bad.parse::<ToolsetId>(), Err(IdError::NotName { kind: "toolset" }), "{bad:?}");
            assert_eq!(bad.parse::<ServerId>(), Err(IdError::NotName { kind: "server" }), "{bad:?}");
        }
        for reserved in ["mcp", "toolset", "builtin", "all"] {
            assert_eq!(
                reserved.parse::<ToolsetId>(),
                Err(IdError::Reserved { kind: "toolset", id: reserved.to_owned() })
            );
            assert!(reserved.parse::<ServerId>().is_ok(), "{reserved}");
        }
        for device in ["con", "nul", "aux", "prn", "com1", "lpt9", "com0"] {
            assert!(matches!(device.parse::<ToolsetId>(), Err(IdError::Reserved { .. })), "{device}");
            assert!(matches!(device.parse::<ServerId>(), Err(IdError::Reserved { .. })), "{device}");
        }
    }

    #[test]
    fn ids_from_names() {
        let long = "x".repeat(80);
        let cut = &long[..56];
        for (name, ids) in [
            ("github", ["github", "github", "github-1"]),
            ("My Server!", ["my-server", "my-server-1", "my-server-2"]),
            ("a_b", ["a_b", "a_b", "a_b-1"]),
            ("../../etc", ["etc", "etc-1", "etc-2"]),
            ("世界", ["mcp-server", "mcp-server-1", "mcp-server-2"]),
            ("", ["mcp-server", "mcp-server-1", "mcp-server-2"]),
            ("MCP", ["mcp-1", "mcp-2", "mcp-3"]),
            ("con", ["con-1", "con-2", "con-3"]),
            (&long, [cut, &format!("{cut}-1"), &format!("{cut}-2")]),
        ] {
            let found: Vec<String> =
                ToolsetId::from_name(name, "mcp-server").take(3).map(|id| id.to_string()).collect();
            assert_eq!(found, ids, "{name:?}");
        }
    }

    #[test]
    fn tool_ids_inside_a_toolset() {
        for good in ["write_file", "_x", "0", "A-b", "con", &"a".repeat(64)] {
            assert_eq!(good.parse::<LocalToolId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "-a", "a:b", "a b", "a.b", "é", "*", &"a".repeat(65)] {
            assert_eq!(bad.parse::<LocalToolId>(), Err(IdError::NotLocalTool), "{bad:?}");
        }
        assert_eq!("Read".parse::<LocalToolId>().unwrap().folded(), "read");
    }

    #[test]
    fn skill_ids() {
        for good in ["a", "a-b", "pdf-processing", "0-9", &"a".repeat(64)] {
            assert_eq!(good.parse::<SkillId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "A", "-a", "a-", "a--b", "a_b", "café", "a b", &"a".repeat(65)] {
            assert_eq!(bad.parse::<SkillId>(), Err(IdError::NotSkill), "{bad:?}");
        }
    }

    #[test]
    fn server_keys() {
        let key: ServerKey = "app~srv".parse().unwrap();
        assert_eq!((key.toolset.as_str(), key.server.as_str(), key.to_string()), ("app", "srv", "app~srv".to_owned()));
        for bad in ["app", "~srv", "app~", "app~a~b", "mcp~srv", "App~srv", ""] {
            assert!(bad.parse::<ServerKey>().is_err(), "{bad:?}");
        }
        assert_eq!("app".parse::<ServerKey>(), Err(IdError::NotServerKey));
    }
}
