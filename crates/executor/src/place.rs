//! Where an executor keeps what it needs: `<data>/executor`, for its owner alone.
//!
//! `credentials.json` says whom it is paired with, `spool` has what the server does not know yet, `runs` the folders that agents work
//! in, `tools` what tools keep, and `lock` is held by the one executor that works here.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// Whoever only looks whether an executor works here holds the lock for a moment, so it is tried a few times.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(20);

/// The executor's part of a data folder. It exists.
#[derive(Clone, Debug)]
pub struct Place {
    data: PathBuf,
    folder: PathBuf,
}

/// The right to be the executor of a folder. Gone when dropped, and with the process however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What `server.json` says of the server that runs on a data folder; its token is not for executors.
#[derive(Deserialize)]
struct Announced {
    url: String,
}

impl Place {
    /// Below a data folder; both are made where they are missing.
    pub fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("executor");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let data = data.canonicalize()?;
        Ok(Self { folder: data.join("executor"), data })
    }

    /// The folder that is used when none is named.
    pub fn usual_data() -> Option<PathBuf> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
        Some(base.join("kitbag"))
    }

    /// The data folder that it is part of.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// All of it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whom it is paired with.
    pub fn credentials(&self) -> PathBuf {
        self.folder.join("credentials.json")
    }

    /// What the server does not know yet.
    pub fn spool(&self) -> PathBuf {
        self.folder.join("spool")
    }

    /// Where agents work.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// What Kitbag's own tools keep from one run to the next, such as Python packages.
    pub fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }

    /// Takes the folder for one executor; nothing if there is one already.
    pub async fn lock(&self) -> io::Result<Option<Lock>> {
        let file = self.lock_file()?;
        for _ in 0..LOOKS {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Lock { _file: file })),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether an executor works here.
    pub fn is_locked(&self) -> io::Result<bool> {
        match self.lock_file()?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock_file(&self) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(self.folder.join("lock"))
    }

    /// The address of the server that last said it runs on this data folder.
    pub fn announced(&self) -> Option<String> {
        let bytes = fs::read(self.data.join("server.json")).ok()?;
        serde_json::from_slice::<Announced>(&bytes).ok().map(|server| server.url)
    }

    /// Removes the folders of all attempts: nobody works in them when an executor starts. How many there were.
    pub fn clear_runs(&self) -> usize {
        let below = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            // No organisation's id begins with a dot: what does is nobody's run.
            let hidden = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
            let folders = entries.filter(|entry| !hidden(entry)).map(|entry| entry.path());
            folders.filter(|path| path.is_dir() && !path.is_symlink()).collect()
        };
        let mut removed = 0;
        for organization in below(&self.runs()) {
            for run in below(&organization) {
                removed += below(&run).iter().filter(|attempt| remove(attempt)).count();
                remove(&run);
            }
            remove(&organization);
        }
        removed
    }
}

/// Removes a folder with everything in it, also what an agent locked. What cannot be removed is left for the next start.
pub fn remove(folder: &Path) -> bool {
    let removed = kitbag_cas::clear::remove_doomed(folder);
    if let Err(error) = &removed {
        tracing::warn!(%error, folder = %folder.display(), "a folder could not be removed");
    }
    removed.is_ok()
}
