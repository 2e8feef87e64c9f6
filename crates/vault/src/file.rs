//! The key's file: made once, never written over, refused when others may read it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::key::{self, Key};
use crate::{KEY_FILE, VaultError};

/// More than any number of keys that somebody keeps.
const LONGEST: u64 = 64 * 1024;

/// The keys of the file, or of a new one.
pub(crate) fn read_or_make(path: &Path) -> Result<Vec<Key>, VaultError> {
    if let Some(keys) = read(path)? {
        return Ok(keys);
    }
    make(path).map_err(|source| VaultError::Io { what: "make", path: path.to_owned(), source })?;
    // Whoever was first made it; everybody reads the same one.
    read(path)?.ok_or_else(|| VaultError::Io {
        what: "read",
        path: path.to_owned(),
        source: io::Error::new(ErrorKind::NotFound, "it was taken away just after it was made"),
    })
}

/// The keys of the file, if it is there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<Key>>, VaultError> {
    let failed = |source| VaultError::Io { what: "read", path: path.to_owned(), source };
    // A link is not followed: whoever may plant one could have us trust a key of theirs. A pipe must not hold us up.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => {
            return Err(VaultError::NotAFile(path.to_owned()));
        }
        Err(error) => return Err(failed(error)),
    };
    // What was opened is judged, not what the path leads to by then.
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(VaultError::NotAFile(path.to_owned()));
    }
    let mode = about.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(VaultError::Open { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::new());
    (&file).take(LONGEST).read_to_string(&mut text).map_err(failed)?;
    key::parse(&text).map(Some).map_err(|source| VaultError::File { path: path.to_owned(), source })
}

/// Writes a new key, unless somebody else was faster. It is durable before anything can be sealed with it: a key that a power cut
/// takes away takes everything with it.
fn make(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let key = key::generate().map_err(io::Error::other)?;
    // Such files have mode 0600 from their first moment.
    let mut fresh = tempfile::Builder::new().prefix(&format!(".{KEY_FILE}.")).tempfile_in(folder)?;
    fresh.write_all(key.as_bytes())?;
    fresh.as_file().sync_all()?;
    match fresh.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error),
    }
    File::open(folder)?.sync_all()
}
