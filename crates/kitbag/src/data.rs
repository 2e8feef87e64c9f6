//! The data folder: where it is, who serves it, and the files that say so.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use kitbag_model::Secret;
use kitbag_server::embedded::write_private;
use serde::{Deserialize, Serialize};

use crate::cli::Place;
use crate::failure::{Doing, Failure};

/// A data folder. It exists.
pub(crate) struct DataFolder(PathBuf);

/// The running server of a folder, as `server.json` tells it.
#[derive(Deserialize, Serialize)]
pub(crate) struct RunningServer {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) pid: u32,
}

impl RunningServer {
    /// Whether its process is there. A killed server leaves its file behind.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
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

impl DataFolder {
    /// Finds the folder, and makes it if it is not there, for its owner only.
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        let path = match &place.data {
            Some(path) => path.clone(),
            None => default_path()?,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .doing(format!("cannot make {}", path.display()))?;
        let path = path.canonicalize().doing(path.display())?;
        Ok(Self(path))
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

    /// Takes the folder for one server.
    pub(crate) fn hold_alone(&self) -> Result<Attempt, Failure> {
        self.attempt(File::try_lock)
    }

    /// Takes the folder for a command, beside other commands but not beside a server.
    pub(crate) fn hold_shared(&self) -> Result<Attempt, Failure> {
        self.attempt(File::try_lock_shared)
    }

    fn attempt(&self, lock: fn(&File) -> Result<(), TryLockError>) -> Result<Attempt, Failure> {
        let path = self.0.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path).doing(path.display())?;
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
