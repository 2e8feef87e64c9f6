//! A folder of root's, shown to others under another user id, for as long as somebody needs it.
//!
//! The sandbox mounts such a tree inside itself. A container engine is somebody else and mounts by path, so for it the tree must be at a place of
//! this machine: it is put there, and taken away again. What a killed server left there is cleared at the next start.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};

/// A tree of mounts at a place of this machine. It goes away with this.
#[derive(Debug)]
pub struct Shown {
    at: PathBuf,
}

impl Shown {
    /// Puts a tree, as [`crate::keeper::Keeper::tree`] makes it, over an empty folder.
    pub fn new(tree: OwnedFd, at: &Path) -> io::Result<Self> {
        move_mount(tree.as_fd(), "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(Self { at: at.to_owned() })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // What stays is cleared at the next start.
        let _ = hide(&self.at);
    }
}

/// Takes away what is shown at a place, if anything is.
pub fn hide(at: &Path) -> io::Result<()> {
    match unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Nothing is mounted there, or there is no such place.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
        // Whoever may not mount has mounted nothing.
        Err(rustix::io::Errno::PERM) if !rustix::process::getuid().is_root() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes away everything that is shown below a folder, whoever put it there.
pub fn hide_all(below: &Path) -> io::Result<()> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")?;
    let mut places: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|place| PathBuf::from(unescaped(place)))
        .filter(|place| place.starts_with(below) && place != below)
        .collect();
    // What is shown in what is shown goes first.
    places.sort_unstable_by(|one, other| other.cmp(one));
    places.iter().try_for_each(|place| hide(place))
}

/// A path as the kernel writes it there: blanks and the like in octal.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}
