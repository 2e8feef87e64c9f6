//! How much of the disk the parts of the data folder take.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;
use utoipa::ToSchema;

/// So many files are looked at: somebody waits for the answer.
const MOST_FILES: u64 = 200_000;

/// What `st_blocks` counts in.
const BLOCK: u64 = 512;

/// A part of the data folder.
#[derive(Serialize, ToSchema)]
#[schema(as = DataPart)]
pub(crate) struct PartView {
    /// The file or folder in it.
    name: String,
    /// What it takes on the disk.
    bytes: u64,
    files: u64,
}

pub(super) struct Counted {
    pub(super) parts: Vec<PartView>,
    pub(super) cut: bool,
}

/// Counts what is in each entry of the folder. No link is followed; a file with several names counts once.
pub(super) fn count(data: &Path) -> Counted {
    let (mut left, mut seen, mut parts) = (MOST_FILES, HashSet::new(), Vec::new());
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let mut part = PartView { name: entry.file_name().to_string_lossy().into_owned(), bytes: 0, files: 0 };
        let mut folders = vec![entry.path()];
        while let Some(path) = folders.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            left = left.saturating_sub(1);
            if left == 0 {
                break;
            }
            if found.nlink() < 2 || found.is_dir() || seen.insert((found.dev(), found.ino())) {
                part.bytes += found.blocks() * BLOCK;
            }
            match found.is_dir() {
                true => folders.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path())),
                false => part.files += 1,
            }
        }
        parts.push(part);
    }
    parts.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
    Counted { parts, cut: left == 0 }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::count;

    #[test]
    fn parts_are_counted_once_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![1; 1 << 20]).unwrap();
        fs::create_dir_all(folder.path().join("chats/a")).unwrap();
        fs::write(folder.path().join("chats/a/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(folder.path().join("chats/a/file"), folder.path().join("chats/again")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("chats/way-out")).unwrap();
        fs::write(folder.path().join("token"), "x").unwrap();
        let counted = count(folder.path());
        assert!(!counted.cut);
        let names: Vec<(&str, u64)> = counted.parts.iter().map(|part| (part.name.as_str(), part.files)).collect();
        assert_eq!(names, [("chats", 3), ("token", 1)]);
        assert!((100_000..200_000).contains(&counted.parts[0].bytes), "{}", counted.parts[0].bytes);
    }
}
