//! The folder of an attempt: `<root>/<organisation>/<run>/<attempt>/`, with the files that the agent works on in `work` and what the
//! engine keeps for itself in `home`. Each attempt has a new one: nothing of another attempt, run or person is in it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kitbag_cas::clear::remove_folder;
use kitbag_model::run::wire::{AttemptId, FileRef};
use kitbag_model::{ContentHash, OrgId, WorkPath};

use super::Files;
use crate::Failure;

/// An attempt's folder.
#[derive(Clone, Debug)]
pub struct RunFolder {
    top: PathBuf,
}

impl RunFolder {
    /// Makes it anew; what an attempt that was cut off left there goes, however deep or locked it is.
    pub fn make(root: &Path, org: &OrgId, id: AttemptId) -> Result<Self, Failure> {
        // All three are checked ids: none has a separator or begins with a dot.
        let top = root.join(org.as_str()).join(id.run_id.to_string()).join(id.attempt.to_string());
        let made = Self { top };
        let make = || {
            remove_folder(&made.top).map_err(io::Error::other)?;
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(made.work())?;
            builder.create(made.home())
        };
        make().map_err(|error| failed(&made.top, &error))?;
        Ok(made)
    }

    /// Where the agent works.
    pub fn work(&self) -> PathBuf {
        self.top.join("work")
    }

    /// What the engine takes for its home.
    pub fn home(&self) -> PathBuf {
        self.top.join("home")
    }

    /// Puts the run's files there.
    pub async fn fill(&self, files: &BTreeMap<WorkPath, FileRef>, contents: &impl Files) -> Result<(), Failure> {
        for (path, file) in files {
            let content = fetched(contents, path, file).await.map_err(|why| Failure::new("WORKSPACE_FAILED", why))?;
            write_new(&self.work(), path, file.executable, &content).map_err(|error| failed(path.as_ref(), &error))?;
        }
        Ok(())
    }

    /// Takes it away. What cannot be removed is left for the next start.
    pub fn remove(&self) {
        if let Err(error) = remove_folder(&self.top) {
            tracing::warn!(%error, folder = %self.top.display(), "the folder of a run could not be removed");
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new("WORKSPACE_FAILED", format_args!("`{}`: {error}", path.display()))
}

/// The content of a file, which is what was promised or nothing.
pub(super) async fn fetched(contents: &impl Files, path: &WorkPath, file: &FileRef) -> Result<Vec<u8>, String> {
    let content = contents.get(file.sha256).await.map_err(|failure| failure.to_string())?;
    if content.len() as u64 == file.size && ContentHash::of(&content) == file.sha256 {
        Ok(content)
    } else {
        Err(format!("what came for `{path}` is not what its hash says"))
    }
}

/// Writes a file that is not there yet, below a folder. A link on the way is not followed: the kernel is asked step by step.
pub(super) fn write_new(below: &Path, path: &WorkPath, executable: bool, content: &[u8]) -> io::Result<()> {
    let mut folder = below.to_owned();
    let mut parts = path.parts().peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            let mode = if executable { 0o755 } else { 0o644 };
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(folder.join(part))?;
            return file.write_all(content);
        }
        folder.push(part);
        own_folder(&folder)?;
    }
    Ok(())
}

/// A folder that is there, and is one, or that is made.
pub(super) fn own_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(folder)?.is_dir() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotADirectory, "a file or a link is where a folder has to be")),
        },
        made => made,
    }
}
