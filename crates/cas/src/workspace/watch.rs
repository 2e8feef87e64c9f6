//! Hears from the kernel which paths of the folder may have changed, so that the others need not be looked at.
//!
//! It says where to look, never what is there: every path it names is looked at. It is armed before the folder is walked, so
//! whatever changes after the walk is heard. It gives up, and the walk decides again, when events were lost, when a folder
//! could not be watched, and from time to time in any case: a program that maps a file into memory can change it long
//! after it was last heard of.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::Dir;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::folder::Folder;

/// So long a walk is believed without another one.
const TRUSTED_FOR: Duration = Duration::from_secs(60);

/// More paths than this are not worth looking at one by one.
const MOST_PATHS: usize = 2000;

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// A watch over a folder and those below it.
pub(super) struct Watch {
    inotify: OwnedFd,
    folders: HashMap<i32, String>,
    armed_at: Instant,
}

impl Watch {
    /// Watches a folder and everything below; none if the machine does not give it.
    pub(super) fn arm(folder: &Folder) -> Option<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let mut watch = Self { inotify, folders: HashMap::new(), armed_at: Instant::now() };
        watch.add(folder, "").ok()?;
        Some(watch)
    }

    /// Watches a folder, then those in it: one that is made in between is heard of.
    fn add(&mut self, folder: &Folder, path: &str) -> Result<(), Errno> {
        let opened = match folder.folder(path) {
            Ok(opened) => opened,
            // Gone again; its parent's watch has said or will say so.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        // By descriptor, so that no link can take the folder's place.
        let by_descriptor = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let number = inotify::add_watch(&self.inotify, by_descriptor.as_str(), EVENTS)?;
        self.folders.insert(number, path.to_owned());
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            match entry.file_type() {
                rustix::fs::FileType::Directory => {}
                // A file system that does not say: then we cannot know what to watch.
                rustix::fs::FileType::Unknown => return Err(Errno::INVAL),
                _ => continue,
            }
            // A name that we cannot keep: the walk will say so.
            let name = std::str::from_utf8(name).map_err(|_| Errno::INVAL)?;
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            self.add(folder, &below)?;
        }
        Ok(())
    }

    /// The paths that may have changed since the last time; none if only a walk can tell.
    pub(super) fn changed(&mut self, folder: &Folder) -> Option<BTreeSet<String>> {
        if self.armed_at.elapsed() > TRUSTED_FOR {
            return None;
        }
        let mut changed = BTreeSet::new();
        let mut new_folders = Vec::new();
        let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => break,
                Err(_) => return None,
            };
            let kind = event.events();
            if kind.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
                return None;
            }
            let Some(parent) = self.folders.get(&event.wd()) else { continue };
            let Some(name) = event.file_name() else {
                // About the folder itself. Its parent says the same by name, except for the top one.
                if parent.is_empty() && kind.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
                    return None;
                }
                if kind.intersects(ReadFlags::IGNORED) {
                    self.folders.remove(&event.wd());
                }
                continue;
            };
            let name = name.to_str().ok()?;
            let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") };
            // A folder that moves takes its watches along under its old name.
            if kind.contains(ReadFlags::ISDIR | ReadFlags::MOVED_FROM) {
                return None;
            }
            if kind.contains(ReadFlags::ISDIR) && kind.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                new_folders.push(path.clone());
            }
            changed.insert(path);
            if changed.len() > MOST_PATHS {
                return None;
            }
        }
        for path in new_folders {
            self.add(folder, &path).ok()?;
        }
        Some(changed)
    }
}
