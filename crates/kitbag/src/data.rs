//! The data folder: where it is, who serves it, and the files that say so.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kitbag_model::Secret;
use kitbag_server::embedded::write_private;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use crate::cli::Place;
use crate::failure::{Doing, Failure};

/// A data folder. It exists.
pub(crate) struct DataFolder(PathBuf);

/// The running server of a folder, as `server.json` tells it.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct RunningServer {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) pid: u32,
}

/// The right to use a folder. Gone when dropped, and with the process however that ends.
pub(crate) struct Hold {
    _file: File,
}

/// Whether a folder could be held.
pub(crate) enum Attempt {
    Held(Hold),
    /// Somebody else is using it.
    Taken,
}

/// What the person's own files are made without, as it was before the first data folder was opened.
static OWN_MASK: OnceLock<Mode> = OnceLock::new();

/// From now on what this process makes is nobody else's to read: databases, tokens, workspaces.
fn keep_private() {
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    OWN_MASK.get_or_init(|| before);
}

/// The mode of a file that is made for the person, outside the data folder.
pub(crate) fn own_file_mode() -> u32 {
    0o666 & !OWN_MASK.get().copied().unwrap_or(Mode::RWXG | Mode::RWXO).bits()
}

impl DataFolder {
    /// Finds the folder, and makes it if it is not there, for its owner only.
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        keep_private();
        let path = match &place.data {
            Some(path) => path.clone(),
            None => default_path()?,
        };
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).and_then(|()| path.canonicalize());
        made.map(Self)
            .map_err(|error| Failure::wrong_use(format!("the data folder {} cannot be used: {error}", path.display())))
    }

    /// Its mode, if others may enter it.
    pub(crate) fn open_to_others(&self) -> Option<u32> {
        kitbag_server::checks::open_to_others(&self.0)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database_file(&self) -> PathBuf {
        self.0.join("kitbag.db")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.0.join("kitbag.toml")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.0.join("token")
    }

    fn server_file(&self) -> PathBuf {
        self.0.join("server.json")
    }

    /// Keeps new commands from taking the folder, so that a server that waits for the running ones gets its turn.
    pub(crate) fn queue(&self) -> Result<Hold, Failure> {
        let path = self.0.join("lock.queue");
        let file = self.open_lock("lock.queue")?;
        file.lock().doing(path.display())?;
        Ok(Hold { _file: file })
    }

    /// Takes the folder for one server. What an earlier one that was killed said of itself is gone then.
    pub(crate) fn hold_alone(&self) -> Result<Attempt, Failure> {
        let attempt = self.attempt(File::try_lock)?;
        if matches!(attempt, Attempt::Held(_)) {
            let _ = fs::remove_file(self.server_file());
        }
        Ok(attempt)
    }

    /// Takes the folder for a command, beside other commands but not beside a server, nor before one that waits.
    pub(crate) fn hold_shared(&self) -> Result<Attempt, Failure> {
        let queue = self.open_lock("lock.queue")?;
        match queue.try_lock_shared() {
            Ok(()) => self.attempt(File::try_lock_shared),
            Err(TryLockError::WouldBlock) => Ok(Attempt::Taken),
            Err(TryLockError::Error(error)) => Err(error).doing(self.0.display()),
        }
    }

    /// Whether one process has the folder for itself.
    pub(crate) fn is_held_alone(&self) -> Result<bool, Failure> {
        self.attempt(File::try_lock_shared).map(|attempt| matches!(attempt, Attempt::Taken))
    }

    fn open_lock(&self, name: &str) -> Result<File, Failure> {
        let path = self.0.join(name);
        File::options().create(true).truncate(false).write(true).open(&path).doing(path.display())
    }

    fn attempt(&self, lock: fn(&File) -> Result<(), TryLockError>) -> Result<Attempt, Failure> {
        let path = self.0.join("lock");
        let file = self.open_lock("lock")?;
        match lock(&file) {
            Ok(()) => Ok(Attempt::Held(Hold { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(Attempt::Taken),
            Err(TryLockError::Error(error)) => Err(error).doing(path.display()),
        }
    }

    /// Says that a server runs here.
    pub(crate) fn announce(&self, url: &str, token: &Secret) -> Result<Announcement, Failure> {
        let server = RunningServer { url: url.to_owned(), token: token.expose().to_owned(), pid: std::process::id() };
        let path = self.server_file();
        write_private(&path, &serde_json::to_vec(&server)?).doing(path.display())?;
        Ok(Announcement(path))
    }

    /// The server that last said it runs here. It may be gone: only the lock proves that it is there.
    pub(crate) fn announced(&self) -> Result<Option<RunningServer>, Failure> {
        let path = self.server_file();
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).doing(path.display()),
        }
    }
}

/// `server.json`, removed when dropped.
pub(crate) struct Announcement(PathBuf);

impl Drop for Announcement {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn default_path() -> Result<PathBuf, Failure> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/share")))
        .map(|base| base.join("kitbag"))
        .ok_or_else(|| {
            Failure::wrong_use("there is no home folder to keep data in: give one with --data or KITBAG_DATA")
        })
}
