//! `.kitbagignore`: what of a workspace is not part of its states, in the words of `.gitignore`.

use std::io::Read;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use kitbag_model::WorkPath;

use super::folder::Folder;

/// The file, at the top of the workspace. It is part of the states itself.
pub(super) const NAME: &str = ".kitbagignore";

/// More than this is not a list of patterns.
const LARGEST: u64 = 256 * 1024;

/// The patterns of a workspace.
pub(super) struct Ignored(Option<Gitignore>);

impl Ignored {
    /// Reads the file, if there is one. A line that is no pattern ignores nothing.
    pub(super) fn read(folder: &Folder) -> Self {
        let read = || {
            let file = folder.file(&NAME.parse().ok()?).ok()?;
            let mut text = String::new();
            file.take(LARGEST).read_to_string(&mut text).ok()?;
            let mut builder = GitignoreBuilder::new("");
            for line in text.lines() {
                let _ = builder.add_line(None, line);
            }
            builder.build().ok()
        };
        Self(read())
    }

    /// Whether a path is ignored, given that the folders above it are not.
    pub(super) fn matches(&self, path: &WorkPath, is_folder: bool) -> bool {
        self.0.as_ref().is_some_and(|patterns| patterns.matched(path, is_folder).is_ignore())
    }

    /// Whether a path, or a folder above it, is ignored.
    pub(super) fn covers(&self, path: &WorkPath, is_folder: bool) -> bool {
        self.0.as_ref().is_some_and(|patterns| patterns.matched_path_or_any_parents(path, is_folder).is_ignore())
    }
}
