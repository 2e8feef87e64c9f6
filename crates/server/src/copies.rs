//! Whether what a data folder has of chats is all that there is of it, or copies of what is in a bucket. From outside both look the same, and copies
//! are removed when room is needed. So a mark in the folder says so, from the first start with a bucket on; it knows nothing of which bucket.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::home;

/// The mark.
const MARK: &str = "in-bucket";

/// What it says to who looks.
const TEXT: &str = "The bytes of this installation are in a bucket (--blobs). What is here of them are copies.\n";

/// A data folder that is not for these settings.
#[derive(Debug, thiserror::Error)]
pub enum Misplaced {
    /// It has bytes that are in no bucket.
    #[error(
        "{} has bytes of its own, and bytes are to be in a bucket (--blobs), which does not have them: they would be taken for copies, and removed \
         when room is needed. Bring them there with `kitbag admin move`, and start on another data folder (--data); this one is left as it was",
        .0.display()
    )]
    Originals(PathBuf),
    /// It has copies, and nothing says of what.
    #[error(
        "{} has copies of what is in a bucket, and none is named: files would be missing. Name the bucket (--blobs), or bring everything into another \
         folder with `kitbag admin move`",
        .0.display()
    )]
    Copies(PathBuf),
    /// The disk said no.
    #[error("{}: {source}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> Misplaced + '_ {
    move |source| Misplaced::Disk { path: path.to_owned(), source }
}

/// Looks whether a data folder is for bytes in a bucket, or for bytes of its own. One that has nothing yet is for both.
pub fn check_bytes(data: &Path, are_in_bucket: bool) -> Result<(), Misplaced> {
    let is_marked = data.join(MARK).try_exists().map_err(at(data))?;
    match (is_marked, are_in_bucket) {
        (true, false) => Err(Misplaced::Copies(data.to_owned())),
        (false, true) if has_bytes(data)? => Err(Misplaced::Originals(data.to_owned())),
        _ => Ok(()),
    }
}

/// The same before anything is written there, which makes it one of them.
pub fn settle_bytes(data: &Path, are_in_bucket: bool) -> Result<(), Misplaced> {
    check_bytes(data, are_in_bucket)?;
    let mark = data.join(MARK);
    if !are_in_bucket || mark.try_exists().map_err(at(&mark))? {
        return Ok(());
    }
    // It lasts before the first copy is there, which would be taken for an original without it.
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&mark).map_err(at(&mark))?;
    file.write_all(TEXT.as_bytes()).and_then(|()| file.sync_all()).map_err(at(&mark))?;
    File::open(data).and_then(|folder| folder.sync_all()).map_err(at(data))
}

/// Whether there is a blob of any chat.
fn has_bytes(data: &Path) -> Result<bool, Misplaced> {
    let mut homes = vec![data.to_owned()];
    homes.extend(folders(&data.join(home::OTHERS))?);
    for home in homes {
        for chat in folders(&home.join("chats"))? {
            let mut looked_at = vec![chat.join("blobs"), chat.join("packs")];
            while let Some(folder) = looked_at.pop() {
                for (path, is_folder) in entries(&folder)? {
                    if !is_folder {
                        return Ok(true);
                    }
                    looked_at.push(path);
                }
            }
        }
    }
    Ok(false)
}

fn folders(below: &Path) -> Result<Vec<PathBuf>, Misplaced> {
    Ok(entries(below)?.into_iter().filter(|(_, is_folder)| *is_folder).map(|(path, _)| path).collect())
}

/// What is in a folder, and which of it are folders; nothing if it is not there.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, bool)>, Misplaced> {
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(at(folder))?,
    };
    let entry =
        |entry: io::Result<fs::DirEntry>| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?.is_dir())));
    found.map(entry).collect::<io::Result<_>>().map_err(at(folder))
}
