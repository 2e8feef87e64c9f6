//! What an entry may be called. Stricter than the paths of a workspace: an archive goes from one system to another, so a
//! name must mean the same on all of them.

use kitbag_model::{PathError, WorkPath};

use super::Limits;
use super::error::{ArchiveError, shown};

/// Names that are devices on Windows in every folder, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A checked path, from a name without the `/` at a folder's end.
pub(super) fn check(text: &str, limits: &Limits) -> Result<WorkPath, ArchiveError> {
    let name = || shown(text.as_bytes());
    if text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && text.as_bytes().get(1) == Some(&b':') {
        return Err(ArchiveError::Drive { name: name() });
    }
    if text.contains('\\') {
        return Err(ArchiveError::Backslash { name: name() });
    }
    if text.contains(misleading) {
        return Err(ArchiveError::Character { name: name() });
    }
    if text.len() > limits.path_bytes {
        return Err(ArchiveError::LongPath { name: name(), allowed: limits.path_bytes });
    }
    if text.split('/').any(|part| part == "..") {
        return Err(ArchiveError::Traversal { name: name() });
    }
    let path: WorkPath = text.parse().map_err(|error| match error {
        PathError::Absolute => ArchiveError::Absolute { name: name() },
        PathError::Empty | PathError::Dots => ArchiveError::EmptyPart { name: name() },
        PathError::Character => ArchiveError::Character { name: name() },
        PathError::LongName => ArchiveError::LongName { name: name() },
        PathError::Long => ArchiveError::LongPath { name: name(), allowed: 4096 },
    })?;
    if path.parts().count() > limits.depth {
        return Err(ArchiveError::Deep { name: name(), allowed: limits.depth });
    }
    for part in path.parts() {
        if part.ends_with(['.', ' ']) {
            return Err(ArchiveError::TrailingDot { name: name() });
        }
        if is_device(part) {
            return Err(ArchiveError::Reserved { name: name() });
        }
    }
    Ok(path)
}

/// Control characters, line separators, and those that turn the direction of the text around them.
fn misleading(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).trim_end().to_lowercase();
    if DEVICES.contains(&stem.as_str()) {
        return true;
    }
    let Some(number) = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt")) else { return false };
    let mut digits = number.chars();
    // Windows takes the superscript digits for digits here.
    matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
}
