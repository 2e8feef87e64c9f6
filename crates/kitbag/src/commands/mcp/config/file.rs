//! Another program's own file: read whole, and written whole or not at all, with what it was beside it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kitbag_formats::clients::NotWritten;

use crate::failure::{Doing, Failure};

/// The most bytes of a file: some programs keep their whole history beside their servers.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A file as it was read.
pub(super) struct OwnFile {
    /// Where it really is: what is a link stays one.
    path: PathBuf,
    /// What is in it; nothing if it is not there.
    pub(super) text: String,
    /// Its mode, if it is there.
    mode: Option<u32>,
}

impl OwnFile {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A link that leads nowhere would be replaced by a file.
                if path.is_symlink() {
                    return Err(Failure::failed(format!("{} is a link to a file that is not there", path.display())));
                }
                return Ok(Self { path: path.to_owned(), text: String::new(), mode: None });
            }
            Err(error) => return Err(error).doing(path.display()),
        };
        let data = file.metadata().doing(path.display())?;
        if !data.is_file() || data.len() > LARGEST {
            return Err(Failure::failed(format!("{} is no file, or too large", path.display())));
        }
        let mut text = String::new();
        let read = file.take(LARGEST).read_to_string(&mut text);
        read.map_err(|error| Failure::failed(format!("{}: it is not changed: {error}", path.display())))?;
        let path = path.canonicalize().doing(path.display())?;
        Ok(Self { path, text, mode: Some(data.permissions().mode() & 0o7777) })
    }

    /// Why it stays as it is.
    pub(super) fn refused(&self, reason: &NotWritten) -> Failure {
        Failure::failed(format!("{} was not changed: {reason}", self.path.display()))
    }

    /// Puts the new text in its place. Where the old one is now, if there was one.
    pub(super) fn write(&self, text: &str) -> Result<Option<PathBuf>, Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o755).create(folder).doing(folder.display())?;
        // There is a token in it.
        let mode = self.mode.unwrap_or(0o600);
        let backup = self.mode.map(|_| beside(&self.path));
        if let Some(backup) = &backup {
            put(folder, backup, &self.text, mode)?;
            let now = fs::read_to_string(&self.path).doing(self.path.display())?;
            if now != self.text {
                return Err(Failure::failed(format!(
                    "{} was not changed: somebody else wrote it meanwhile. Try again",
                    self.path.display()
                )));
            }
        }
        put(folder, &self.path, text, mode)?;
        Ok(backup)
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".before-kitbag");
    path.with_file_name(name)
}

fn put(folder: &Path, path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = tempfile::NamedTempFile::new_in(folder).doing(cannot())?;
    file.write_all(text.as_bytes()).doing(cannot())?;
    file.as_file().set_permissions(Permissions::from_mode(mode)).doing(cannot())?;
    file.as_file().sync_all().doing(cannot())?;
    file.persist(path).doing(cannot())?;
    Ok(())
}
