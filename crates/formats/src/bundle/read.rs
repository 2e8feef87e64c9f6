//! Reading a bundle.

use std::collections::HashSet;

use super::{Bundle, BundleFile, Code, Content, Finding, MANIFEST, Refused, layout, skills};
use crate::archive::{Archive, ArchiveError};
use crate::manifest::{self, Reference};

/// The archive's own errors are about the bundle.
impl From<&ArchiveError> for Finding {
    fn from(error: &ArchiveError) -> Self {
        Self::new(Code::InvalidBundle, None, error.to_string())
    }
}

/// Reads a bundle, or tells everything that is wrong with it. Only what has a meaning is unpacked: the manifest and the
/// skills' first pages.
pub fn read(archive: &Archive<'_>) -> Result<Bundle, Refused> {
    let (files, mut warnings) = layout::files(archive)?;
    let mut problems = Vec::new();
    let text = content(archive, &files, MANIFEST)?;
    let read = match manifest::read(&text) {
        Ok(read) => read,
        Err(found) => {
            problems.extend(found.0.iter().map(|problem| Finding::at(Code::InvalidManifest, MANIFEST, problem)));
            return Err(Refused { problems, warnings });
        }
    };
    warnings.extend(read.warnings.iter().map(|problem| Finding::at(Code::InvalidManifest, MANIFEST, problem)));
    problems.extend(missing(&read.references, &files));
    let skills = skills::read(archive, &files, &read.definition.skills, &mut problems, &mut warnings);
    if !problems.is_empty() {
        return Err(Refused { problems, warnings });
    }
    Ok(Bundle { definition: read.definition, skills, files, warnings })
}

/// The content of one file, which must be there.
pub(crate) fn content(archive: &Archive<'_>, files: &[BundleFile], path: &str) -> Result<Vec<u8>, Finding> {
    let file = files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|at| &files[at]);
    match file.map(|file| &file.content) {
        Some(Content::Made(bytes)) => Ok(bytes.clone()),
        Some(Content::Entry(number)) => {
            archive.read(&archive.entries()[*number]).map_err(|error| Finding::from(&error))
        }
        None => Err(Finding::new(Code::InvalidBundle, Some(path), "is not in the bundle")),
    }
}

/// What the manifest names and the bundle does not have.
fn missing(references: &[Reference], files: &[BundleFile]) -> Vec<Finding> {
    let there: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let is_there = |reference: &&Reference| reference.any_of.iter().any(|path| there.contains(path.as_str()));
    let finding = |reference: &Reference| {
        let names: Vec<String> = reference.any_of.iter().map(ToString::to_string).collect();
        Finding {
            line: Some(reference.line),
            column: Some(1),
            ..Finding::new(
                Code::InvalidManifest,
                Some(MANIFEST),
                format!("{}: the bundle has no file {}", reference.what, names.join(" or ")),
            )
        }
    };
    references.iter().filter(|reference| !is_there(reference)).map(finding).collect()
}
