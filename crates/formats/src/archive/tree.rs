//! Whether all paths can live side by side, on a file system that tells upper from lower case and on one that does not.

use kitbag_model::WorkPath;
use unicode_normalization::UnicodeNormalization;

use super::error::{ArchiveError, shown};

/// Refuses two entries that are, or may be taken for, the same; folders that are only part of a path count too.
pub(super) fn check<'a>(
    files: impl Iterator<Item = &'a WorkPath>,
    folders: &'a [WorkPath],
) -> Result<(), ArchiveError> {
    let mut all: Vec<Node<'_>> =
        files.map(|path| Node::new(path, false)).chain(folders.iter().map(|path| Node::new(path, true))).collect();
    // Sorted by folded names, all that is below one folder stands together, whatever its spelling: it is enough to compare
    // neighbours.
    all.sort_by(|one, other| one.folded.cmp(&other.folded).then_with(|| one.path.cmp(other.path)));
    all.windows(2).try_for_each(|pair| compare(&pair[0], &pair[1]))
}

struct Node<'a> {
    path: &'a WorkPath,
    folder: bool,
    /// The names without case and spelling, with NUL between: no name has it, and it sorts before everything, so that a
    /// folder stands directly before what is in it.
    folded: String,
}

impl<'a> Node<'a> {
    fn new(path: &'a WorkPath, folder: bool) -> Self {
        let folded: Vec<String> = path.parts().map(fold).collect();
        Self { path, folder, folded: folded.join("\0") }
    }
}

/// Without upper and lower case. Through upper case first, so that `ß` meets `SS` and the long `ſ` meets `s`.
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let composed: String = name.nfc().collect();
    composed.to_uppercase().to_lowercase().nfc().collect()
}

fn compare(one: &Node<'_>, other: &Node<'_>) -> Result<(), ArchiveError> {
    let (mut left, mut right) = (one.path.parts(), other.path.parts());
    let (mut left_folded, mut right_folded) = (one.folded.split('\0'), other.folded.split('\0'));
    loop {
        match (left.next().zip(left_folded.next()), right.next().zip(right_folded.next())) {
            (Some((a, a_folded)), Some((b, b_folded))) => {
                if a_folded != b_folded {
                    return Ok(());
                }
                if a != b {
                    return Err(twins(one, other, a, b));
                }
            }
            // The first is the whole beginning of the second.
            (None, Some(_)) if one.folder => return Ok(()),
            (None, None) if one.folder == other.folder => {
                return Err(ArchiveError::Duplicate { name: shown(one.path.as_str().as_bytes()) });
            }
            _ => return Err(ArchiveError::FileAndFolder { name: shown(one.path.as_str().as_bytes()) }),
        }
    }
}

fn twins(one: &Node<'_>, other: &Node<'_>, a: &str, b: &str) -> ArchiveError {
    let (name, other) = (shown(one.path.as_str().as_bytes()), shown(other.path.as_str().as_bytes()));
    if a.nfc().eq(b.nfc()) { ArchiveError::UnicodeTwin { name, other } } else { ArchiveError::CaseTwin { name, other } }
}
