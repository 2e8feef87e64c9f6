//! What can be wrong with lists of toolsets and tools. All that is wrong is told together.

use std::fmt;

/// One of the settings that decide which tools a client gets.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Setting {
    /// Which toolsets.
    Toolsets,
    /// Which tools beside them.
    EnabledTools,
    /// Which tools not.
    DisabledTools,
    /// Whether meta tools are listed in place of the tools.
    Dynamic,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Toolsets, Self::EnabledTools, Self::DisabledTools, Self::Dynamic];

    /// Its name in a query.
    pub fn query(self) -> &'static str {
        match self {
            Self::Toolsets => "toolsets",
            Self::EnabledTools => "enabled_tools",
            Self::DisabledTools => "disabled_tools",
            Self::Dynamic => "dynamic",
        }
    }

    /// Its name as a header, behind the prefix.
    pub fn header(self) -> &'static str {
        match self {
            Self::Toolsets => "Toolsets",
            Self::EnabledTools => "Enabled-Tools",
            Self::DisabledTools => "Disabled-Tools",
            Self::Dynamic => "Dynamic",
        }
    }

    /// What one entry of it is called.
    fn entry(self) -> &'static str {
        match self {
            Self::Toolsets => "toolset",
            Self::EnabledTools => "enabled tool",
            Self::DisabledTools => "disabled tool",
            Self::Dynamic => "value",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Toolsets => "toolsets",
            Self::EnabledTools => "enabled tools",
            Self::DisabledTools => "disabled tools",
            Self::Dynamic => "dynamic",
        })
    }
}

/// One thing that is wrong with the lists.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Problem {
    /// Nothing has that name, or nothing that the caller may know of.
    #[error("Unknown {}: {name}", .setting.entry())]
    Unknown {
        /// In which list.
        setting: Setting,
        /// The entry as it was written.
        name: String,
    },
    /// Several tools have that name.
    #[error("Ambiguous {}: {name} (write one of: {})", .setting.entry(), ids.join(", "))]
    Ambiguous {
        /// In which list.
        setting: Setting,
        /// The entry as it was written.
        name: String,
        /// What it could mean.
        ids: Vec<String>,
    },
    /// An entry that takes away, where none can.
    #[error("The {setting} take no entry with - in front: {name} (name it in the disabled tools instead)")]
    TakesAway {
        /// In which list.
        setting: Setting,
        /// The entry as it was written.
        name: String,
    },
    /// A list that is too long.
    #[error("The {setting} have {has} entries; at most {most} are allowed", most = super::Lists::MOST)]
    TooMany {
        /// Which list.
        setting: Setting,
        /// How many there are.
        has: usize,
    },
    /// A yes or no that is neither.
    #[error("{setting}: Expected one of: yes, y, true, 1, no, n, false, 0, but got {value}")]
    NotBool {
        /// Which setting.
        setting: Setting,
        /// What was written.
        value: String,
    },
    /// Query and header, even if they say the same.
    #[error("Both query and header specify {0}")]
    Both(Setting),
    /// Twice by the same way.
    #[error("The {way} specifies {setting} more than once")]
    Twice {
        /// `query` or `header`.
        way: &'static str,
        /// Which setting.
        setting: Setting,
    },
    /// A header that is no text.
    #[error("The header for {0} is not UTF-8 text")]
    NotText(Setting),
    /// The lists leave nothing.
    #[error("No tools left")]
    NoToolsLeft,
}

/// Everything that is wrong with the lists.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub(super) fn none_or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Notes one, once.
    pub(super) fn add(&mut self, problem: Problem) {
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Each as a text.
    pub fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages().join("; "))
    }
}

impl std::error::Error for Problems {}
