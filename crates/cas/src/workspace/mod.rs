//! A folder on disk that is one state, or one state and what was changed since.
//!
//! [`Workspace::snapshot`] turns what is there into a state; [`Workspace::materialise`] turns the folder into a state.
//! Both cost with what changed: what is on disk is known by a cache of file times (`index`), which the disk itself
//! confirms or refutes, file by file, without being read.

mod files;
mod folder;
mod ignored;
mod index;
mod materialise;
mod parallel;
mod snapshot;
mod walk;
mod watch;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kitbag_model::ContentHash;

use crate::blobs::Blobs;
use crate::disk::{self, Temporary};
use crate::error::CasError;
use folder::Folder;
use ignored::Ignored;
use index::Index;
use walk::Walk;
use watch::Watch;

pub use materialise::Materialised;
pub use snapshot::Snapshot;
pub use walk::Warning;

/// So long another process may take to let go of a folder, before whoever wants it is told to come back later.
const PATIENCE: Duration = Duration::from_secs(3);

/// How much a workspace may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many files, links and empty folders.
    pub entries: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Limits {
    fn or_as_much_as(self, had: Self) -> Self {
        Self { entries: self.entries.max(had.entries), bytes: self.bytes.max(had.bytes) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 20 << 30 }
    }
}

/// The workspace of one chat. Whoever holds it holds it alone: two at once on one folder would overwrite each other.
pub struct Workspace {
    home: PathBuf,
    folder: Folder,
    blobs: Arc<dyn Blobs>,
    index: Index,
    limits: Limits,
    /// What it is known to have had, be that more than the limits.
    had: Limits,
    /// None until it is wanted, or while it is not to be trusted.
    watch: Option<Watch>,
    is_watching: bool,
    /// Held while it is open, so that no other process works with the folder meanwhile.
    _lock: File,
}

impl Workspace {
    /// Opens the folder `workspace/` below a chat's own, making it if it is not there. Waits a while for another process
    /// that has it open.
    pub fn open(home: &Path, blobs: Arc<dyn Blobs>, limits: Limits) -> Result<Self, CasError> {
        Self::open_within(home, blobs, limits, PATIENCE)
    }

    fn open_within(home: &Path, blobs: Arc<dyn Blobs>, limits: Limits, patience: Duration) -> Result<Self, CasError> {
        let path = home.join("workspace");
        disk::make_lasting_folders(&path).map_err(CasError::at(&path))?;
        let lock_path = home.join("lock");
        let lock = disk::create(&lock_path, 0o644).map_err(CasError::at(&lock_path))?;
        let since = Instant::now();
        while let Err(refused) = lock.try_lock() {
            match refused {
                TryLockError::Error(error) => return Err(CasError::at(&lock_path)(error)),
                TryLockError::WouldBlock if since.elapsed() >= patience => {
                    return Err(CasError::InUse { path: home.to_owned() });
                }
                TryLockError::WouldBlock => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        // It was in use when the machine stopped: what the folder holds may never have reached the disk.
        let in_use = home.join(IN_USE);
        if fs::read(&in_use).is_ok_and(|boot| boot != index::boot_id()) {
            disk::put(&home.join(TRANSITION), b"").map_err(CasError::at(home))?;
        }
        // Whole or not at all: half a name of this start of the machine would be taken for another one.
        let mark = Temporary::create(home.join("in-use.new"), 0o644)?;
        mark.write(&index::boot_id())?;
        mark.place(&in_use)?;
        let mut index = Index::load(&home.join("index"));
        // Used up: from now on it is only true in memory, and a killed process must not leave an old one behind.
        disk::remove(&home.join("index")).map_err(CasError::at(home))?;
        if fs::exists(home.join(TRANSITION)).map_err(CasError::at(home))? {
            index.forget_state();
        }
        Ok(Self {
            home: home.to_owned(),
            folder: Folder::open(&path)?,
            blobs,
            index,
            limits,
            had: Limits { entries: 0, bytes: 0 },
            watch: None,
            is_watching: false,
            _lock: lock,
        })
    }

    /// Forgets which state the folder was last at: nobody kept it, or it was never reached. The next look is at everything,
    /// and the next tree is made whole.
    pub fn forget(&mut self) {
        self.index.forget_state();
        self.watch = None;
    }

    /// Says how much a state has that was kept before. The limits may have been higher then; the folder may become that state,
    /// or less, even if it is more than they are now.
    pub fn had(&mut self, sizes: impl Iterator<Item = u64>) {
        let (entries, bytes) = snapshot::count(sizes);
        self.had = Limits { entries, bytes };
    }

    /// Forgets the files, too: what they hold is read again, and brought again if it must be.
    pub fn forget_files(&mut self) {
        self.forget();
        self.index.files.clear();
    }

    /// What the files held when they were last looked at.
    pub fn known_contents(&self) -> impl Iterator<Item = ContentHash> {
        self.index.files.values().map(|known| known.entry.hash)
    }

    /// The state that the folder came from, where other machines may have brought the chat to another one meanwhile.
    pub fn came_from(&self) -> Option<ContentHash> {
        fs::read_to_string(self.home.join(ORIGIN)).ok()?.parse().ok()
    }

    /// Says which state the folder is at, so that it is known after a crash, too.
    pub fn comes_from(&mut self, root: &ContentHash) -> Result<(), CasError> {
        if self.came_from() == Some(*root) {
            return Ok(());
        }
        let mark = Temporary::create(self.home.join("origin.new"), 0o644)?;
        mark.write(root.to_string().as_bytes())?;
        mark.place(&self.home.join(ORIGIN))
    }

    /// From now on, hears from the kernel what changes instead of looking for it, where the machine gives that.
    pub fn watch(&mut self) {
        self.is_watching = true;
    }

    /// Looks at what may have changed: what the watch names, or everything.
    fn look(&mut self) -> Result<Walk, CasError> {
        let ignored = Ignored::read(&self.folder);
        let changed = self.watch.as_mut().and_then(|watch| watch.changed(&self.folder));
        if let (Some(changed), Some(_)) = (changed, self.index.root())
            && let Some(walk) = walk::look_at(&self.folder, &changed, &ignored)?
        {
            return Ok(walk);
        }
        // Armed first, so that nothing that changes during the walk is missed.
        self.watch = if self.is_watching { Watch::arm(&self.folder) } else { None };
        let walk = walk::walk(&self.folder, "", &ignored)?;
        if !walk.odd.is_empty() || !walk.closed.is_empty() || walk.has_hard_links() {
            // A file with two names changes under both and is heard of under one; and what a state cannot hold, or nobody
            // may read, must be found again at the next change of state.
            self.watch = None;
        }
        Ok(walk)
    }

    /// Makes sure that the folder can be used: a tool may have taken every right to it away.
    pub fn open_up(&self) -> Result<(), CasError> {
        disk::open_up(self.path()).map_err(CasError::at(self.path()))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The blobs of this chat.
    pub fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }

    /// Whether a change of state was cut off in the middle. The folder is neither the old state nor the new one, nothing
    /// in it is worth keeping, and it must be materialised before it is used.
    pub fn is_torn(&self) -> Result<bool, CasError> {
        fs::exists(self.home.join(TRANSITION)).map_err(CasError::at(&self.home))
    }

    /// Says that the folder is to become another state, before the books say so. Until [`Workspace::settle`] it counts as torn.
    pub fn unsettle(&mut self) -> Result<(), CasError> {
        let marker = self.home.join(TRANSITION);
        disk::put(&marker, b"").map_err(CasError::at(&marker))
    }

    /// The state that the folder was at when it was last looked at.
    pub fn known_state(&self) -> Option<ContentHash> {
        self.index.root()
    }

    /// The generation of blobs in which what the files held was relied on when it was written down; none if nothing was.
    pub fn saved_in(&self) -> Option<u64> {
        self.index.generation
    }

    /// Writes down what is known of the files, so that the next start need not read them all.
    pub fn save(&mut self) -> Result<(), CasError> {
        self.index.generation = self.blobs.generation();
        self.index.save(&self.home.join("index"), &self.home.join("tmp"))?;
        disk::remove(&self.home.join(IN_USE)).map_err(CasError::at(&self.home))
    }
}

/// Says of a chat's folder, which nobody has open, that its workspace is yet to be laid out.
pub fn to_be_laid_out(home: &Path) -> Result<(), CasError> {
    let marker = home.join(TRANSITION);
    disk::make_lasting_folders(home).and_then(|()| disk::put(&marker, b"")).map_err(CasError::at(&marker))
}

/// The file that is there while the folder is between two states.
const TRANSITION: &str = "materialising";

/// The file that says which state the folder came from.
const ORIGIN: &str = "origin";

/// The file that is there while the folder is in use; it says since which start of the machine.
const IN_USE: &str = "in-use";

#[cfg(test)]
mod tests;
