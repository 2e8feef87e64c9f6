//! How much the copies of blobs take that are kept elsewhere, and that it is no more than there may be: those that were used
//! longest ago go first. A copy that goes costs a fetch and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

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
        }
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
            copies.sort_by_key(|copy| copy.used);
            let enough = self.most / AFTERWARDS.1 * AFTERWARDS.0;
            for copy in copies {
                if taken <= enough {
                    break;
                }
                // Whoever has it open reads on.
                match disk::remove(&copy.path) {
                    Ok(()) => taken -= copy.size,
                    Err(error) => tracing::warn!(%error, path = %copy.path.display(), "a copy could not be removed"),
                }
            }
        }
        self.taken.store(taken, Ordering::Relaxed);
        self.is_counted.store(true, Ordering::Relaxed);
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
