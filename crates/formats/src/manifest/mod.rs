//! `toolset.yaml`: what a toolset is made of, as its author writes it.
//!
//! Reading tells everything that is wrong at once, each with its place; writing gives one text for one definition. Whether
//! the files that a manifest names exist is for whoever has the files: see [`Read::references`].

mod containers;
mod document;
mod keys;
mod overrides;
mod read;
mod write;

use kitbag_model::{Definition, WorkPath};

pub use document::schema;
pub use read::read;
pub(crate) use read::text_of;
pub use write::write;

use crate::yaml::Problem;

/// The first line of a manifest that is made for an author. Editors that know it complete keys and mark mistakes by the
/// schema, which is put beside the manifest.
pub const EDITOR_LINE: &str = "# yaml-language-server: $schema=./toolset.schema.json";

/// A manifest that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it says.
    pub definition: Definition,
    /// What its author should know, though it is allowed.
    pub warnings: Vec<Problem>,
    /// The files that it names.
    pub references: Vec<Reference>,
}

/// A file that a manifest names and that must be beside it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reference {
    /// What names it: `tools[0].entrypoint`.
    pub what: String,
    /// The file, or the files of which one is enough; the first that exists counts.
    pub any_of: Vec<WorkPath>,
    /// The line that names it, counted from 1.
    pub line: usize,
}

#[cfg(test)]
mod tests;
