//! What a toolset is made of, as checked data: the same whether it came from a manifest, the API or the database.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::container::Container;
use crate::hash::{ContentHash, Hasher};
use crate::id::text_serde;
use crate::launch::Launch;
use crate::name::{LocalToolId, ServerId, SkillId, ToolsetId};
use crate::override_key::OverrideKey;
use crate::overrides::Override;
use crate::path::WorkPath;
use crate::python::{Entrypoint, PythonNeeds};
use crate::text::{line_type, text_type};
use crate::version::Version;

line_type!(
    /// What people call a toolset or a tool.
    DisplayName,
    120
);
text_type!(
    /// What a toolset, a tool or a server is for. It may have several lines.
    Description,
    16_384,
    several_lines
);

/// A toolset without its files.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its id.
    pub id: ToolsetId,
    /// What people call it.
    pub name: DisplayName,
    /// Its version.
    pub version: Version,
    /// What it is for.
    pub description: Option<Description>,
    /// Its Python tools.
    pub tools: Vec<PythonTool>,
    /// What it changes about its own tools and those of its servers. No key is there twice.
    pub overrides: Vec<(OverrideKey, Override)>,
    /// The MCP servers it declares.
    pub servers: Vec<McpServer>,
    /// The containers it declares.
    pub containers: Vec<Container>,
    /// The skills it lists.
    pub skills: Vec<SkillRef>,
    /// What its Python tools need.
    pub python: PythonNeeds,
    /// What its tools may do besides reading and writing the workspace.
    pub permissions: Permissions,
}

/// A tool that is a Python function.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PythonTool {
    /// Its id inside the toolset.
    pub id: LocalToolId,
    /// Which function it is.
    pub entrypoint: Entrypoint,
    /// What people call it.
    pub name: Option<DisplayName>,
    /// What a model reads about it.
    pub description: Option<Description>,
    /// The JSON Schema of its arguments. A function that is decorated brings its own, which wins.
    pub input_schema: Option<Map<String, Value>>,
    /// Whether a person is asked before each call.
    pub requires_confirmation: Option<bool>,
    /// Whether it is there at all.
    pub enabled: bool,
}

/// An MCP server that a toolset declares.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// Its id inside the toolset.
    pub id: ServerId,
    /// How it is reached.
    pub launch: Launch,
    /// Whether it is used at all.
    pub enabled: bool,
    /// Whether a person is asked before each call of its tools.
    pub requires_confirmation: Option<bool>,
    /// What it is for.
    pub description: Option<Description>,
}

impl McpServer {
    /// The hash that trust in it is bound to: what would start, and whether its tools may be called without a question. A new
    /// version that takes the question away needs a new yes.
    pub fn fingerprint(&self) -> ContentHash {
        let launch = self.launch.fingerprint();
        if self.requires_confirmation != Some(false) {
            return launch;
        }
        let mut hasher = Hasher::default();
        hasher.update(b"kitbag server without questions 1\n");
        hasher.update(launch.as_bytes());
        hasher.finish()
    }
}

/// A skill that a toolset lists.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillRef {
    /// Its id inside the toolset.
    pub id: SkillId,
    /// The folder with its `SKILL.md`.
    pub path: WorkPath,
    /// Whether it is used at all.
    pub enabled: bool,
}

impl SkillRef {
    /// The folder of a skill that says none.
    pub fn default_path(id: &SkillId) -> WorkPath {
        WorkPath::below("skills", id.as_str()).expect("a skill id is a plain name")
    }
}

/// What the tools of a toolset may do besides reading and writing the workspace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Permissions {
    /// Reach the network.
    pub network: bool,
    /// Leave processes behind that outlive a call and belong to its chat.
    pub listen: bool,
}

/// A closed set of words: `words!(/// doc  Name, "kind", { Variant = "word" … })`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $error:ident, $said:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every one there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As it is written in the API and the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        /// A text that is none of the words.
        #[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
        #[error($said)]
        pub struct $error;

        impl FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or($error)
            }
        }

        text_serde!($name);
    };
}
pub(crate) use words;

words!(
    /// How a toolset came here.
    SourceType, UnknownSourceType, "unknown source type; the types are zip, local and url", {
        /// As an archive.
        Zip = "zip",
        /// It was made here, or read from a folder of this machine.
        Local = "local",
        /// From an address.
        Url = "url",
    }
);

words!(
    /// Who sees a toolset.
    Visibility, UnknownVisibility, "unknown visibility; it is private, org or public", {
        /// Whoever made it, and who manages the organisation.
        Private = "private",
        /// The organisation.
        Org = "org",
        /// Everybody who is signed in.
        Public = "public",
    }
);

words!(
    /// What a file of a toolset is for.
    FileKind, UnknownFileKind, "unknown kind of file; the kinds are python, artifact, asset and config", {
        /// A module below `tools/`.
        Python = "python",
        /// A page that a renderer shows.
        Artifact = "artifact",
        /// Anything else.
        Asset = "asset",
        /// The manifest.
        Config = "config",
    }
);

impl FileKind {
    /// The kind of a file, which follows from where it is.
    pub fn of(path: &WorkPath) -> Self {
        let (first, text) = (path.parts().next(), path.as_str());
        match first {
            Some("tools") if text.ends_with(".py") => Self::Python,
            Some("artifacts") if path.parent().is_some() => Self::Artifact,
            _ if matches!(text, "toolset.yaml" | "toolset.yml") => Self::Config,
            _ => Self::Asset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files() {
        for (path, kind) in [
            ("tools/a.py", FileKind::Python),
            ("tools/deep/a.py", FileKind::Python),
            ("tools/data.json", FileKind::Asset),
            ("tools", FileKind::Asset),
            ("lib/a.py", FileKind::Asset),
            ("artifacts/a.html", FileKind::Artifact),
            ("artifacts", FileKind::Asset),
            ("assets/a", FileKind::Asset),
            ("toolset.yaml", FileKind::Config),
            ("toolset.yml", FileKind::Config),
            ("assets/toolset.yaml", FileKind::Asset),
            ("skills/a/SKILL.md", FileKind::Asset),
        ] {
            assert_eq!(FileKind::of(&path.parse().unwrap()), kind, "{path}");
        }
    }

    #[test]
    fn words() {
        for word in ["zip", "local", "url"] {
            assert_eq!(word.parse::<SourceType>().map(SourceType::as_str), Ok(word));
        }
        for word in ["private", "org", "public"] {
            assert_eq!(word.parse::<Visibility>().map(Visibility::as_str), Ok(word));
        }
        assert_eq!("Zip".parse::<SourceType>(), Err(UnknownSourceType));
        assert_eq!("".parse::<Visibility>(), Err(UnknownVisibility));
    }

    #[test]
    fn trust_in_a_server_covers_its_questions() {
        let launch = crate::launch::RawLaunch { command: Some("npx".to_owned()), ..Default::default() };
        let launch = launch.check().unwrap();
        let of = |requires_confirmation| {
            let id = "a".parse().unwrap();
            McpServer { id, launch: launch.clone(), enabled: true, requires_confirmation, description: None }
                .fingerprint()
        };
        assert_eq!((of(None), of(Some(true))), (launch.fingerprint(), launch.fingerprint()));
        assert_ne!(of(Some(false)), launch.fingerprint());
    }

    #[test]
    fn a_skill_without_a_path() {
        assert_eq!(SkillRef::default_path(&"pdf-tools".parse().unwrap()).as_str(), "skills/pdf-tools");
    }
}
