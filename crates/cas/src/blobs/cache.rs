//! How much the copies of blobs take that are kept elsewhere, and that it is no more than there may be: those that were used
//! longest ago go first. A copy that goes costs a fetch and nothing else.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::local::LocalBlobs;
use crate::disk;

/// Of the most that there may be, so much is left after some had to go.
const AFTERWARDS: (u64, u64) = (9, 10);

/// The copies of all chats below one folder.
pub struct Cache {
    folder: PathBuf,
    most: u64,
    /// How much there is, as far as it was counted. It is counted before the first one goes.
    taken: AtomicU64,
    is_counted: AtomicBool,
    is_trimming: AtomicBool,
    /// The files that somebody is about to open, by name, and how many are. Names are hashes, so it does not matter whose they are.
    held: Mutex<HashMap<OsString, usize>>,
    /// Those whose copies these are.
    owners: Mutex<Vec<Weak<LocalBlobs>>>,
}

/// As long as there is this, a copy that was brought keeps its name, however little room there is: otherwise the one that is too large
/// for the cache could never be read.
pub(super) struct Held<'a> {
    cache: &'a Cache,
    name: OsString,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.cache.held();
        if let Some(count) = held.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.name);
            }
        }
    }
}

struct Copy {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

impl Cache {
    /// Copies below `folder`, in chats' folders of whatever depth; at most so many bytes of them.
    pub fn new(folder: PathBuf, most: u64) -> Self {
        Self {
            folder,
            most,
            taken: AtomicU64::new(0),
            is_counted: AtomicBool::new(false),
            is_trimming: AtomicBool::new(false),
            held: Mutex::default(),
            owners: Mutex::default(),
        }
    }

    /// Has these let go of what is removed.
    pub(super) fn watch(&self, blobs: &Arc<LocalBlobs>) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(Arc::downgrade(blobs));
    }

    /// Keeps a copy from being removed, whether it is there yet or not.
    pub(super) fn hold(&self, path: &Path) -> Held<'_> {
        let name = path.file_name().unwrap_or_default().to_owned();
        *self.held().entry(name.clone()).or_default() += 1;
        Held { cache: self, name }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<OsString, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there are so many bytes more, and makes room if that is too much.
    pub fn grew(&self, bytes: u64) {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let is_counted = self.is_counted.load(Ordering::Relaxed);
        if (taken > self.most || !is_counted) && !self.is_trimming.swap(true, Ordering::Acquire) {
            self.trim();
            self.is_trimming.store(false, Ordering::Release);
        }
    }

    /// How many bytes there are, as far as it is known.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Counts what there is, and if it is too much, removes what was used longest ago.
    fn trim(&self) {
        let mut copies = Vec::new();
        find(&self.folder, &mut copies);
        let mut taken: u64 = copies.iter().map(|copy| copy.size).sum();
        if taken > self.most {
            let enough = self.most / AFTERWARDS.1 * AFTERWARDS.0;
            // One for which there will never be room goes before all those for which there is.
            copies.sort_by_key(|copy| (copy.size <= enough, copy.used));
            for copy in copies {
                if taken <= enough {
                    break;
                }
                match self.remove(&copy.path) {
                    Ok(true) => taken -= copy.size,
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, path = %copy.path.display(), "a copy could not be removed"),
                }
            }
            // As long as a file is open the disk is not free.
            let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
            owners.iter().filter_map(Weak::upgrade).for_each(|owner| owner.let_go_of_removed());
        }
        self.taken.store(taken, Ordering::Relaxed);
        self.is_counted.store(true, Ordering::Relaxed);
    }

    /// Removes a copy, unless somebody is about to open it. Whoever has it open reads on.
    fn remove(&self, path: &Path) -> io::Result<bool> {
        // Nobody begins to hold it between the look and the deed.
        let held = self.held();
        if path.file_name().is_some_and(|name| held.contains_key(name)) {
            return Ok(false);
        }
        disk::remove(path).map(|()| true)
    }
}

/// All copies of the chats below a folder: what is in `blobs` and `packs` beside a `workspace`.
fn find(folder: &Path, copies: &mut Vec<Copy>) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for chat in entries(&folder.join("chats")) {
        for kind in ["blobs", "packs"] {
            files(&chat.path().join(kind), copies);
        }
    }
    for organization in entries(&folder.join("orgs")) {
        find(&organization.path(), copies);
    }
}

fn files(folder: &Path, copies: &mut Vec<Copy>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        // What went away in the meantime takes nothing.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            files(&entry.path(), copies);
        } else {
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            copies.push(Copy { path: entry.path(), size: about.len(), used });
        }
    }
}
