//! The one room that changes the disk. Each function is one step that happens or fails as a whole, except that a write can be
//! half done; each is a fault point of its name. It knows nothing of blobs and workspaces.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::CasError;
use crate::fault::{self, step};

/// Makes a file, or empties the one that is there.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    step("create")?;
    File::options().write(true).create(true).truncate(true).mode(mode).open(path)
}

/// Writes all of it to a file.
pub(crate) fn write(file: &File, bytes: &[u8]) -> io::Result<()> {
    fault::write(file, bytes)
}

/// Makes a small file with this content, or puts it in place of what the file has.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(&create(path, 0o644)?, bytes)
}

/// Makes a file's content durable.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    step("sync")?;
    file.sync_data()
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    step("sync folder")?;
    File::open(path)?.sync_all()
}

/// Gives a file another name, in place of whatever has it.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    step("rename")?;
    fs::rename(from, to)
}

/// Empties a file that is open for writing, so that it can be written from its beginning again.
pub(crate) fn empty(mut file: &File) -> io::Result<()> {
    step("empty")?;
    file.set_len(0)?;
    io::Seek::rewind(&mut file)
}

/// Says of a copy that it was used just now. That it could not be said costs nothing but a copy.
pub(crate) fn touch(file: &File) {
    let _ = file.set_modified(SystemTime::now());
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    step("remove")?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Lets the owner of a folder use it, whatever somebody has made of its mode.
pub(crate) fn open_up(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    step("open up")?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 | 0o700))
}

/// Makes a folder and those above it.
pub(crate) fn make_folders(path: &Path) -> io::Result<()> {
    step("make folder")?;
    fs::create_dir_all(path)
}

/// Makes a folder and those above it, so that a power cut does not take them away again.
pub(crate) fn make_lasting_folders(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    make_folders(path)?;
    missing.iter().filter_map(|folder| folder.parent()).try_for_each(sync_folder)
}

/// The same steps below an open folder, which no link can lead out of.
pub(crate) fn create_at(root: &OwnedFd, path: &str, mode: u32, resolve: ResolveFlags) -> Result<File, Errno> {
    errno(step("create"))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(root, path, flags, Mode::from_raw_mode(mode), resolve).map(File::from)
}

pub(crate) fn link_at(folder: &OwnedFd, name: &str, target: &[u8]) -> Result<(), Errno> {
    errno(step("link"))?;
    rustix::fs::symlinkat(target, folder, name)
}

pub(crate) fn make_folder_at(folder: &OwnedFd, name: &str) -> Result<(), Errno> {
    errno(step("make folder"))?;
    rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755))
}

pub(crate) fn remove_at(folder: BorrowedFd<'_>, name: &[u8], is_folder: bool) -> Result<(), Errno> {
    errno(step("remove"))?;
    rustix::fs::unlinkat(folder, name, if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() })
}

pub(crate) fn rename_at(
    (from, name): (BorrowedFd<'_>, &[u8]),
    (to, new_name): (BorrowedFd<'_>, &[u8]),
    flags: RenameFlags,
) -> Result<(), Errno> {
    errno(step("rename"))?;
    rustix::fs::renameat_with(from, name, to, new_name, flags)
}

/// Changes who may do what, also if the descriptor was opened for nothing but its name.
pub(crate) fn chmod(opened: &impl AsFd, mode: u32) -> Result<(), Errno> {
    errno(step("chmod"))?;
    let by_descriptor = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    rustix::fs::chmod(by_descriptor, Mode::from_raw_mode(mode))
}

fn errno(done: io::Result<()>) -> Result<(), Errno> {
    done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// A file that is being written under a name that means nothing. Unless it gets its real one, it goes.
pub(crate) struct Temporary {
    path: PathBuf,
    file: File,
    is_placed: bool,
}

impl Temporary {
    pub(crate) fn create(path: PathBuf, mode: u32) -> Result<Self, CasError> {
        let file = create(&path, mode).map_err(CasError::at(&path))?;
        Ok(Self { path, file, is_placed: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), CasError> {
        write(&self.file, bytes).map_err(CasError::at(&self.path))
    }

    pub(crate) fn chmod(&self, mode: u32) -> Result<(), CasError> {
        chmod(&self.file, mode).map_err(CasError::errno(&self.path))
    }

    pub(crate) fn sync(&self) -> Result<(), CasError> {
        sync(&self.file).map_err(CasError::at(&self.path))
    }

    /// Gives it its real name.
    pub(crate) fn place(self, target: &Path) -> Result<(), CasError> {
        self.place_by(|temporary| rename(temporary, target)).map_err(CasError::at(target))
    }

    /// The same, where only the caller knows how to reach the place.
    pub(crate) fn place_by<E>(mut self, place: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
        place(&self.path)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(&self.file, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_placed {
            // If even that fails, the next collection takes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
