//! A person's own changes, file by file. They change the folder; the next snapshot keeps them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kitbag_model::{ContentHash, WorkPath};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::Workspace;
use crate::blobs::Swept;
use crate::disk::{self, Temporary};
use crate::error::CasError;
use crate::tree::Kind;

impl Workspace {
    /// Writes a file, whole or not at all, making the folders above it. The executable bit of one that was there stays.
    #[cfg(test)]
    pub(crate) fn write_file(&self, path: &WorkPath, bytes: &[u8]) -> Result<(), CasError> {
        self.write_with(path, self.is_executable(path), |file| disk::write(file, bytes))
    }

    /// Writes a file with the content of a blob.
    pub fn write_blob(&self, path: &WorkPath, hash: &ContentHash, executable: bool) -> Result<(), CasError> {
        let mut outcome = Ok(());
        self.write_with(path, executable, |file| {
            outcome = self.blobs.copy_to(hash, file);
            if outcome.is_ok() { Ok(()) } else { Err(ErrorKind::Other.into()) }
        })
        .or_else(|error| outcome.and(Err(error)))
    }

    /// Moves a complete file from outside into the workspace, making the folders above it. It must lie on the same file
    /// system, and nobody else may know its name. Unless `executable` is given, the bit of one that was there stays.
    pub fn place_file(&self, path: &WorkPath, from: &Path, executable: Option<bool>) -> Result<(), CasError> {
        let executable = executable.unwrap_or_else(|| self.is_executable(path));
        let file = File::open(from).map_err(CasError::at(from))?;
        disk::chmod(&file, if executable { 0o755 } else { 0o644 }).map_err(CasError::errno(from))?;
        self.place(from, path).map_err(self.folder.failed(path.as_str()))
    }

    /// Makes a folder, and those above it. One that is there already stays as it is.
    pub fn make_folder(&self, path: &WorkPath) -> Result<(), CasError> {
        self.folder.create_folder(path.as_str()).map_err(self.folder.failed(path.as_str()))
    }

    /// Whether something has this name.
    pub fn has_path(&self, path: &WorkPath) -> Result<bool, CasError> {
        match self.folder.stat(path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.folder.failed(path.as_str())(error)),
        }
    }

    fn is_executable(&self, path: &WorkPath) -> bool {
        self.folder.stat(path).is_ok_and(|stat| stat.kind() == Some(Kind::Executable))
    }

    fn write_with(
        &self,
        path: &WorkPath,
        executable: bool,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), CasError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("edit-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let file = Temporary::create(self.home.join("tmp").join(&name), 0o644)?;
        write(file.file()).map_err(CasError::at(file.path()))?;
        file.chmod(if executable { 0o755 } else { 0o644 })?;
        file.place_by(|temporary| self.place(temporary, path)).map_err(self.folder.failed(path.as_str()))
    }

    fn place(&self, temporary: &Path, path: &WorkPath) -> Result<(), Errno> {
        let parent = path.parent().unwrap_or_default();
        if !parent.is_empty() {
            self.folder.create_folder(parent)?;
        }
        let temporary = (rustix::fs::CWD, temporary.as_os_str().as_encoded_bytes());
        self.folder.opening_up(parent, |parent| {
            disk::rename_at(temporary, (parent.as_fd(), path.name().as_bytes()), RenameFlags::empty())
        })
    }

    /// Gives a file, link or folder another name, unless something has that name already. Whether it was there.
    pub fn rename(&self, from: &WorkPath, to: &WorkPath) -> Result<bool, CasError> {
        match self.folder.stat(from) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            other => other.map_err(self.folder.failed(from.as_str()))?,
        };
        if let Some(parent) = to.parent() {
            self.folder.create_folder(parent).map_err(self.folder.failed(parent))?;
        }
        let done = (|| {
            let (old, new) = (
                self.folder.folder(from.parent().unwrap_or_default())?,
                self.folder.folder(to.parent().unwrap_or_default())?,
            );
            let (from, to) = (from.name().as_bytes(), to.name().as_bytes());
            disk::rename_at((old.as_fd(), from), (new.as_fd(), to), RenameFlags::NOREPLACE)
        })();
        match done {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.folder.failed(to.as_str())(error)),
        }
    }

    /// Forgets blobs that nobody wants. Those of files that were read and not changed since stay too: the next state relies on
    /// them without reading the files again.
    pub fn sweep(&self, is_live: &dyn Fn(&ContentHash) -> bool, grace: Duration) -> Result<Swept, CasError> {
        let known: HashSet<ContentHash> = self.index.files.values().map(|known| known.entry.hash).collect();
        self.blobs.sweep(&|hash| known.contains(hash) || is_live(hash), grace)
    }

    /// Stores a blob again from a file of the folder that still has its content. Whether there was one.
    pub fn mend(&self, hash: &ContentHash) -> Result<bool, CasError> {
        let same = self.index.files.iter().filter(|(_, known)| known.entry.hash == *hash).map(|(path, _)| path);
        for path in same {
            let Ok(file) = self.folder.file(path) else { continue };
            if self.blobs.replace(hash, &file)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a file or a link. Whether there was one.
    pub fn remove_file(&self, path: &WorkPath) -> Result<bool, CasError> {
        match self.folder.remove(path.parent().unwrap_or_default(), path.name().as_bytes(), false) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR) => Ok(false),
            Err(error) => Err(self.folder.failed(path.as_str())(error)),
        }
    }
}
