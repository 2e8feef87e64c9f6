//! Removes folders with everything in them, however deep, by descriptor and through no link; and remembers which are to go.
//!
//! A tree that is deeper than a path can be long, or than descriptors can be open, is taken down by moving the folders in it
//! up beside it. A folder that its owner locked is opened up first.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::disk;
use crate::error::CasError;

const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// A folder that is to go has a file beside it whose name ends so.
const DOOMED: &str = "doomed";

/// Says, durably, that a folder is to go: whoever dies before it is gone leaves word for the next one.
pub fn doom(path: &Path) -> Result<(), CasError> {
    let mark = path.with_extension(DOOMED);
    let folder = mark.parent().map_or(Ok(()), disk::make_lasting_folders);
    let done =
        folder.and_then(|()| disk::put(&mark, b"")).and_then(|()| mark.parent().map_or(Ok(()), disk::sync_folder));
    done.map_err(CasError::at(&mark))
}

/// Takes back what [`doom`] said.
pub fn spare(path: &Path) -> Result<(), CasError> {
    let mark = path.with_extension(DOOMED);
    disk::remove(&mark).map_err(CasError::at(&mark))
}

/// The folders below this one that are to go.
pub fn doomed(parent: &Path) -> Result<Vec<PathBuf>, CasError> {
    let mut found = Vec::new();
    let listed = match fs::read_dir(parent) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        listed => listed.map_err(CasError::at(parent))?,
    };
    for entry in listed {
        let path = entry.map_err(CasError::at(parent))?.path();
        if path.extension().is_some_and(|ending| ending == DOOMED) {
            found.push(path.with_extension(""));
        }
    }
    Ok(found)
}

/// Removes a folder with everything in it, if it is there, and then what [`doom`] said of it.
pub fn remove_doomed(path: &Path) -> Result<(), CasError> {
    remove_folder(path)?;
    spare(path)
}

/// Removes a folder with everything in it, if it is there.
pub fn remove_folder(path: &Path) -> Result<(), CasError> {
    let failed = CasError::errno(path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(failed(Errno::INVAL)) };
    let parent = match rustix::fs::open(parent, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened.map_err(&failed)?,
    };
    let name = name.as_encoded_bytes();
    let opened = match open_folder(&parent, name) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened.map_err(&failed)?,
    };
    // What is in it first, so that what is moved up stays inside.
    for entry in names(&opened).map_err(&failed)? {
        remove_all(&opened, &entry).map_err(&failed)?;
    }
    remove_one(&parent, name, true).map_err(&failed)
}

/// Removes whatever has this name in a folder, with everything in it.
pub(crate) fn remove_all(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let mut waiting = vec![name.to_vec()];
    let mut count = 0;
    while let Some(name) = waiting.pop() {
        match remove_one(folder, &name, false) {
            Err(Errno::ISDIR) => {}
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(error) => return Err(error),
        }
        let opened = open_folder(folder, &name)?;
        for inner in names(&opened)? {
            let removed = match remove_one(&opened, &inner, false) {
                Err(Errno::ISDIR) => remove_one(&opened, &inner, true),
                done => done,
            };
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => waiting.push(move_up(&opened, &inner, folder, &mut count)?),
                Err(error) => return Err(error),
            }
        }
        remove_one(folder, &name, true)?;
    }
    Ok(())
}

/// Gives a folder a name in `to` that nothing has.
fn move_up(from: &OwnedFd, name: &[u8], to: &OwnedFd, count: &mut u64) -> Result<Vec<u8>, Errno> {
    loop {
        let new_name = format!(".kitbag-removed-{count}").into_bytes();
        *count += 1;
        let rename = || disk::rename_at((from.as_fd(), name), (to.as_fd(), &new_name), RenameFlags::NOREPLACE);
        let moved = match rename() {
            // A folder that moves is written to, because it says what is above it.
            Err(Errno::ACCESS | Errno::PERM) => open_up(from, name).and_then(|()| rename()),
            done => done,
        };
        match moved {
            Err(Errno::EXIST) => {}
            done => return done.map(|()| new_name),
        }
    }
}

/// Removes a file, link, pipe or socket, or an empty folder. A folder that a tool made read-only is opened up first.
pub(crate) fn remove_one(folder: &OwnedFd, name: &[u8], is_folder: bool) -> Result<(), Errno> {
    match disk::remove_at(folder.as_fd(), name, is_folder) {
        Err(Errno::ACCESS | Errno::PERM) => {
            disk::chmod(folder, 0o755)?;
            disk::remove_at(folder.as_fd(), name, is_folder)
        }
        done => done,
    }
}

/// Opens a folder in another one, also if it is locked.
fn open_folder(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            open_up(parent, name)?;
            rustix::fs::openat(parent, name, FOLDER, Mode::empty())
        }
        opened => opened,
    }
}

/// Lets its owner do everything to a folder.
pub(crate) fn open_up(parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    disk::chmod(&rustix::fs::openat(parent, name, flags, Mode::empty())?, 0o755)
}

pub(crate) fn names(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    let listed = match Dir::read_from(folder) {
        Err(Errno::ACCESS) => disk::chmod(folder, 0o755).and_then(|()| Dir::read_from(folder)),
        listed => listed,
    };
    for entry in listed? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}
