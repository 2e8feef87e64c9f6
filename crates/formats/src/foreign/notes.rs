//! What is wrong with a foreign file, and what was not taken from it.

use crate::bundle::{Code, Finding, Refused};

/// How many problems, and how many warnings, are told of one file. A hostile one could have a hundred thousand.
const MOST_TOLD: usize = 200;

/// Collects findings while a file is read.
#[derive(Default)]
pub(crate) struct Notes {
    /// The file that is being read, for the findings.
    pub file: Option<String>,
    pub problems: Vec<Finding>,
    pub warnings: Vec<Finding>,
}

impl Notes {
    pub(crate) fn new(file: Option<&str>) -> Self {
        Self { file: file.map(ToOwned::to_owned), ..Self::default() }
    }

    /// Something that cannot be imported.
    pub(super) fn problem(&mut self, message: impl Into<String>) {
        self.problem_of(Code::InvalidManifest, message);
    }

    pub(super) fn problem_of(&mut self, code: Code, message: impl Into<String>) {
        if self.problems.len() < MOST_TOLD {
            self.problems.push(Finding::new(code, self.file.as_deref(), message));
        }
    }

    /// Something that whoever imports it should know.
    pub(super) fn warn(&mut self, message: impl Into<String>) {
        if self.warnings.len() < MOST_TOLD {
            self.warnings.push(Finding::new(Code::InvalidManifest, self.file.as_deref(), message));
        }
    }

    pub(super) fn refused(self) -> Refused {
        Refused { problems: self.problems, warnings: self.warnings }
    }
}

/// A text from the file in a message: on one line, short, with nothing that a terminal acts upon.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().count() > 60 { format!("{cut}…") } else { cut }
}

/// Names of things in a message, not too many of them.
pub(super) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let mut text = names.take(20).map(shown).collect::<Vec<_>>().join(", ");
    if count > 20 {
        text.push_str(&format!(" and {} more", count - 20));
    }
    text
}
