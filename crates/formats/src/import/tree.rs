//! The files of an archive, as seen from the folder that matters.

use serde_json::Value;

use crate::archive::Archive;
use crate::bundle::{BundleFile, Finding, content, kept, lift, only_folder};
use crate::foreign::{Notes, json};

/// An archive's files without what a computer left behind.
pub(crate) struct Tree<'a, 'b> {
    pub archive: &'a Archive<'b>,
    /// By path.
    pub files: Vec<BundleFile>,
    /// The folder that everything was in, if that was taken away.
    pub folder: Option<String>,
    warnings: Vec<Finding>,
}

impl<'a, 'b> Tree<'a, 'b> {
    pub(super) fn new(archive: &'a Archive<'b>) -> Self {
        let (files, warnings) = kept(archive);
        Self { archive, files, folder: None, warnings }
    }

    /// As seen from the one folder that everything is in.
    pub(super) fn inside(mut self) -> Option<Self> {
        let folder = only_folder(&self.files)?;
        lift(&mut self.files, &folder);
        self.folder = Some(folder);
        Some(self)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
    }

    /// How many files are below a folder, which is written with a slash behind.
    pub(crate) fn count_below(&self, folder: &str) -> usize {
        self.files.iter().filter(|file| file.path.as_str().starts_with(folder)).count()
    }

    pub(crate) fn content(&self, path: &str) -> Result<Vec<u8>, Finding> {
        content(self.archive, &self.files, path)
    }

    pub(crate) fn json(&self, path: &str) -> Result<Value, Finding> {
        json::parse(&self.content(path)?, Some(path))
    }

    /// Notes on a file, with what is known of the archive.
    pub(crate) fn notes(&self, file: &str) -> Notes {
        Notes { warnings: self.warnings.clone(), ..Notes::new(Some(file)) }
    }
}
