//! Where the files of installed toolsets lie: `toolsets/<id>/`, one folder each.
//!
//! Rows and files cannot change in one act. So files are first put into a folder of their own, named by their generation, and
//! made durable; then the rows change, and name that generation; then the folder moves to its place. Whoever looks for a
//! toolset's files looks for its generation's folder first, so at no moment, and after no crash, are they anything but the
//! files that the rows speak of.
//!
//! Where several servers share a bucket, a generation lies there before the rows name it ([`shared`]), each server lays it out in a
//! folder of its generation when it first needs it, and that is its place.

mod shared;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use kitbag_bucket::Folder;
use kitbag_model::{OrgId, ToolsetId, WorkPath};
use uuid::Uuid;

use crate::home;
use crate::storage::Storage;

/// Something about the files of toolsets failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShelfError {
    /// The disk said no.
    #[error("{}: {source}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The bucket that has them does not answer.
    #[error("{0}")]
    Bucket(String),
    /// The bucket does not have them, or others.
    #[error("the files of the toolset are not in the bucket as they were installed ({0}); import the toolset again")]
    Gone(String),
}

fn at(path: &Path) -> impl Fn(io::Error) -> ShelfError + '_ {
    move |source| ShelfError::Disk { path: path.to_owned(), source }
}

/// Removes whatever is there. A link is removed, not what it leads to.
fn clear(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Makes everything below a folder durable, with one call for all of its files.
fn sync(path: &Path) -> Result<(), ShelfError> {
    let folder = File::open(path).map_err(at(path))?;
    rustix::fs::syncfs(&folder).map_err(io::Error::from).map_err(at(path))
}

/// The toolsets' files of one organisation.
#[derive(Clone)]
pub(crate) struct Shelf {
    folder: PathBuf,
    /// Where the files are that several servers share.
    bucket: Option<Folder>,
}

/// A folder for files that are to become a toolset's. It goes away unless it is kept.
pub(crate) struct Staging {
    generation: String,
    path: PathBuf,
    kept: bool,
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Staging {
    pub(crate) fn generation(&self) -> &str {
        &self.generation
    }

    /// A new file.
    pub(crate) fn create(&self, path: &WorkPath, executable: bool) -> Result<File, ShelfError> {
        use std::os::unix::fs::OpenOptionsExt;
        let target = self.path.join(path.as_str());
        if let Some(parent) = path.parent() {
            let parent = self.path.join(parent);
            fs::create_dir_all(&parent).map_err(at(&parent))?;
        }
        let mode = if executable { 0o755 } else { 0o644 };
        File::options().write(true).create_new(true).mode(mode).open(&target).map_err(at(&target))
    }

    /// Something about one of its files failed.
    pub(crate) fn failed(&self, path: &WorkPath, source: io::Error) -> ShelfError {
        ShelfError::Disk { path: self.path.join(path.as_str()), source }
    }

    /// Makes everything in it durable, with one call for all of its files.
    pub(crate) fn sync(&self) -> Result<(), ShelfError> {
        sync(&self.path)
    }

    /// From now on it is a toolset's: the rows say so.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Shelf {
    /// The shelf of an organisation.
    pub(crate) fn of(storage: &Storage, org: &OrgId) -> Self {
        Self { folder: home::of(storage.data(), org).join("toolsets"), bucket: storage.toolsets(org) }
    }

    #[cfg(test)]
    fn new(folder: PathBuf) -> Self {
        Self { folder, bucket: None }
    }

    fn staged(&self) -> PathBuf {
        self.folder.join(".staged")
    }

    /// A new empty folder for files.
    pub(crate) fn stage(&self) -> Result<Staging, ShelfError> {
        let generation = Uuid::now_v7().to_string();
        let path = self.staged().join(&generation);
        fs::create_dir_all(&path).map_err(at(&path))?;
        Ok(Staging { generation, path, kept: false })
    }

    /// Where the files of a toolset are; where they are shared, once they are laid out.
    pub(crate) fn folder_of(&self, id: &ToolsetId, generation: &str) -> PathBuf {
        let staged = self.staged().join(generation);
        if self.bucket.is_some() || staged.is_dir() { staged } else { self.folder.join(id.as_str()) }
    }

    /// Moves the files of a toolset to their place, if they are not there yet.
    pub(crate) fn settle(&self, id: &ToolsetId, generation: &str) -> Result<(), ShelfError> {
        let staged = self.staged().join(generation);
        if self.bucket.is_some() || !staged.is_dir() {
            return Ok(());
        }
        self.remove(id)?;
        let place = self.folder.join(id.as_str());
        fs::rename(&staged, &place).map_err(at(&place))
    }

    /// Removes the files of a toolset.
    pub(crate) fn remove(&self, id: &ToolsetId) -> Result<(), ShelfError> {
        let place = self.folder.join(id.as_str());
        let gone = self.staged().join(format!("old-{}", Uuid::now_v7()));
        fs::create_dir_all(self.staged()).map_err(at(&gone))?;
        match fs::rename(&place, &gone) {
            // Out of sight at once; how long it takes to delete them is nobody's business.
            Ok(()) => clear(&gone).map_err(at(&gone)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(at(&place)(error)),
        }
    }

    /// Says that a toolset is about to go, so that its files go even if this process does not live to see it.
    pub(crate) fn announce_removal(&self, id: &ToolsetId) -> Result<(), ShelfError> {
        let mark = self.staged().join(format!("gone-{id}"));
        fs::create_dir_all(self.staged()).map_err(at(&mark))?;
        fs::write(&mark, "").map_err(at(&mark))
    }

    /// Takes that back.
    pub(crate) fn withdraw_removal(&self, id: &ToolsetId) {
        let _ = fs::remove_file(self.staged().join(format!("gone-{id}")));
    }

    /// Finishes what a killed process began. `known` are the toolsets that there are, with their generations. Only for
    /// whoever has the data folder alone.
    pub(crate) fn tidy_up(&self, known: &HashMap<ToolsetId, Option<String>>) -> Result<(), ShelfError> {
        let staged = self.staged();
        let entries = match fs::read_dir(&staged) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(at(&staged))?,
        };
        for entry in entries {
            let entry = entry.map_err(at(&staged))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = known.iter().find(|(_, generation)| generation.as_deref() == Some(name.as_str()));
            if let Some((id, _)) = owner {
                self.settle(id, &name)?;
            } else if let Some(id) = name.strip_prefix("gone-").and_then(|id| id.parse::<ToolsetId>().ok()) {
                if !known.contains_key(&id) {
                    self.remove(&id)?;
                }
                self.withdraw_removal(&id);
            } else {
                clear(&entry.path()).map_err(at(&entry.path()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn put(shelf: &Shelf, content: &str) -> String {
        let staged = shelf.stage().unwrap();
        staged.create(&"a/b.txt".parse().unwrap(), false).unwrap().write_all(content.as_bytes()).unwrap();
        staged.sync().unwrap();
        let generation = staged.generation().to_owned();
        staged.keep();
        generation
    }

    fn content(shelf: &Shelf, id: &ToolsetId, generation: &str) -> String {
        fs::read_to_string(shelf.folder_of(id, generation).join("a/b.txt")).unwrap()
    }

    /// A process may be killed between any two of these steps.
    #[test]
    fn at_no_moment_are_the_files_others_than_the_rows_say() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path().to_owned());
        let id: ToolsetId = "app".parse().unwrap();
        let old = put(&shelf, "old");
        assert_eq!(content(&shelf, &id, &old), "old");
        shelf.settle(&id, &old).unwrap();
        assert_eq!(content(&shelf, &id, &old), "old");
        // Staged, but the rows never changed.
        let never = put(&shelf, "never");
        assert_eq!(content(&shelf, &id, &old), "old");
        // The rows changed, and nothing else.
        let new = put(&shelf, "new");
        assert_eq!(content(&shelf, &id, &new), "new");
        // Killed while the folders moved: the old one is out of the way, the new one not there yet.
        fs::rename(folder.path().join("app"), folder.path().join(".staged/old-x")).unwrap();
        assert_eq!(content(&shelf, &id, &new), "new");
        shelf.tidy_up(&HashMap::from([(id.clone(), Some(new.clone()))])).unwrap();
        assert_eq!(content(&shelf, &id, &new), "new");
        assert!(folder.path().join("app/a/b.txt").is_file());
        assert_eq!(fs::read_dir(folder.path().join(".staged")).unwrap().count(), 0, "{never} and old-x are gone");
    }

    #[test]
    fn a_removal_that_was_cut_off_is_finished_or_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path().to_owned());
        let id: ToolsetId = "app".parse().unwrap();
        let generation = put(&shelf, "x");
        shelf.settle(&id, &generation).unwrap();
        shelf.announce_removal(&id).unwrap();
        shelf.tidy_up(&HashMap::from([(id.clone(), Some(generation))])).unwrap();
        assert!(folder.path().join("app").is_dir(), "the rows are still there");
        shelf.announce_removal(&id).unwrap();
        shelf.tidy_up(&HashMap::new()).unwrap();
        assert!(!folder.path().join("app").exists());
        // What nobody announced is not ours to delete.
        fs::create_dir(folder.path().join("by-hand")).unwrap();
        shelf.tidy_up(&HashMap::new()).unwrap();
        assert!(folder.path().join("by-hand").is_dir());
    }
}
