//! The one place that touches files of a workspace. Every path is resolved by the kernel below the workspace's own folder
//! and through no link, whatever a tool puts there in the meantime.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use kitbag_model::WorkPath;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat as RawStat};
use rustix::io::Errno;

use crate::clear;
use crate::disk;
use crate::error::CasError;
use crate::tree::Kind;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What the file system says about a file without opening it. Equal means unchanged, except for changes within one tick of
/// its clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stat {
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    /// How many names it has.
    pub(super) links: u64,
    pub(super) modified: i128,
    /// The inode's own time. Unlike the one above, a program cannot set it.
    pub(super) changed: i128,
}

impl From<&RawStat> for Stat {
    fn from(raw: &RawStat) -> Self {
        let nanos = |seconds: i64, nanos: u64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            inode: raw.st_ino,
            size: raw.st_size as u64,
            mode: raw.st_mode,
            links: raw.st_nlink,
            modified: nanos(raw.st_mtime, raw.st_mtime_nsec),
            changed: nanos(raw.st_ctime, raw.st_ctime_nsec),
        }
    }
}

impl Stat {
    /// What it is to us; none for sockets, pipes and devices.
    pub(super) fn kind(&self) -> Option<Kind> {
        match rustix::fs::FileType::from_raw_mode(self.mode) {
            rustix::fs::FileType::RegularFile if self.mode & 0o100 != 0 => Some(Kind::Executable),
            rustix::fs::FileType::RegularFile => Some(Kind::File),
            rustix::fs::FileType::Symlink => Some(Kind::Link),
            rustix::fs::FileType::Directory => Some(Kind::Folder),
            _ => None,
        }
    }
}

/// A workspace's folder.
pub(super) struct Folder {
    root: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, CasError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::open(path, flags, Mode::empty());
        let root = match open(flags) {
            Err(Errno::ACCESS) => {
                open(flags | OFlags::PATH).and_then(|locked| disk::chmod(&locked, 0o755)).and_then(|()| open(flags))
            }
            opened => opened,
        };
        Ok(Self { root: root.map_err(CasError::errno(path))?, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Turns an error about a path of the workspace into one that names it.
    pub(super) fn failed(&self, path: &str) -> impl Fn(Errno) -> CasError + use<> {
        let path = self.path.join(path);
        move |error| CasError::errno(&path)(error)
    }

    /// Opens a folder below; `""` is the workspace itself.
    pub(super) fn folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if path.is_empty() { "." } else { path };
        rustix::fs::openat2(&self.root, path, flags, Mode::empty(), BENEATH)
    }

    /// Opens a file to read. It does not block on a pipe that took the file's place.
    pub(super) fn file(&self, path: &WorkPath) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat2(&self.root, path.as_str(), flags, Mode::empty(), BENEATH).map(File::from)
    }

    pub(super) fn stat(&self, path: &WorkPath) -> Result<Stat, Errno> {
        let parent = self.folder(path.parent().unwrap_or_default())?;
        rustix::fs::statat(&parent, path.name(), AtFlags::SYMLINK_NOFOLLOW).map(|raw| Stat::from(&raw))
    }

    pub(super) fn link_target(&self, path: &WorkPath) -> Result<Vec<u8>, Errno> {
        let parent = self.folder(path.parent().unwrap_or_default())?;
        rustix::fs::readlinkat(&parent, path.name(), Vec::new()).map(|target| target.into_bytes())
    }

    /// Makes a file that was not there.
    pub(super) fn create(&self, path: &WorkPath, executable: bool) -> Result<File, Errno> {
        let mode = if executable { 0o755 } else { 0o644 };
        self.opening_up(path.parent().unwrap_or_default(), |_| {
            disk::create_at(&self.root, path.as_str(), mode, BENEATH)
        })
    }

    pub(super) fn create_link(&self, path: &WorkPath, target: &[u8]) -> Result<(), Errno> {
        let parent = path.parent().unwrap_or_default();
        self.opening_up(parent, |parent| disk::link_at(parent, path.name(), target))
    }

    /// Makes a folder, and those above it that are not there.
    pub(super) fn create_folder(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let make = || self.opening_up(parent, |parent| disk::make_folder_at(parent, name));
        match make() {
            Err(Errno::EXIST) => Ok(()),
            Err(Errno::NOENT) if !parent.is_empty() => self.create_folder(parent).and_then(|()| make()),
            done => done,
        }
    }

    /// Makes something in a folder. One that a tool made read-only is opened up first.
    pub(super) fn opening_up<T>(&self, parent: &str, make: impl Fn(&OwnedFd) -> Result<T, Errno>) -> Result<T, Errno> {
        let folder = self.folder(parent)?;
        match make(&folder) {
            Err(Errno::ACCESS) => disk::chmod(&folder, 0o755).and_then(|()| make(&folder)),
            done => done,
        }
    }

    /// Lets its owner do everything to a folder.
    pub(super) fn open_up(&self, path: &str) -> Result<(), Errno> {
        match path.rsplit_once('/').unwrap_or(("", path)) {
            ("", "") => disk::chmod(&self.root, 0o755),
            (parent, name) => clear::open_up(&self.folder(parent)?, name.as_bytes()),
        }
    }

    /// Removes a file, link, pipe or socket, or an empty folder. A folder that a tool made read-only is opened up first.
    pub(super) fn remove(&self, parent: &str, name: &[u8], is_folder: bool) -> Result<(), Errno> {
        clear::remove_one(&self.folder(parent)?, name, is_folder)
    }

    /// Removes whatever has this name, with everything in it.
    pub(super) fn remove_all(&self, parent: &str, name: &[u8]) -> Result<(), Errno> {
        clear::remove_all(&self.folder(parent)?, name)
    }
}
