//! Blobs on their way into a folder. A few small ones become files of their own; more of them share a pack. Each is
//! complete and on the disk before it gets its name, so a name never leads to half a blob.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kitbag_model::{ContentHash, Hasher};

use super::local::LocalBlobs;
use super::pack::PackWriter;
use super::{BlobWriter, Blobs};
use crate::disk::{self, Temporary};
use crate::error::CasError;

/// Up to so many small blobs get files of their own: each costs a sync, but can be found by its name.
pub(super) const LOOSE: usize = 8;

pub(super) struct LocalWriter<'a> {
    blobs: &'a LocalBlobs,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: HashSet<ContentHash>,
    waiting: Vec<(ContentHash, Vec<u8>)>,
    pack: Option<PackWriter>,
    /// How many bytes were not there before.
    fresh: u64,
}

impl<'a> LocalWriter<'a> {
    pub(super) fn new(blobs: &'a LocalBlobs) -> Self {
        Self { blobs, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn create(&self) -> Result<Temporary, CasError> {
        self.blobs.temporary()
    }

    fn place(&self, temporary: Temporary, hash: &ContentHash) -> Result<(), CasError> {
        self.blobs.place_loose(temporary, hash)
    }
}

impl LocalBlobs {
    /// A file in the temporary folder whose name nobody else uses.
    pub(super) fn temporary(&self) -> Result<Temporary, CasError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Temporary::create(self.temporary_folder().join(format!("{}-{count}", std::process::id())), 0o400)
    }

    /// What a file has from where it stands, in one that has no name yet; how many bytes that is and what their hash is.
    pub(super) fn copy_of(&self, mut source: &File) -> Result<(Temporary, u64, ContentHash), CasError> {
        let file = self.temporary()?;
        let mut hasher = Hasher::default();
        let mut size = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = source.read(&mut buffer).map_err(CasError::at(file.path()))?;
            if count == 0 {
                return Ok((file, size, hasher.finish()));
            }
            hasher.update(&buffer[..count]);
            file.write(&buffer[..count])?;
            size += count as u64;
        }
    }

    /// Gives a complete and synced file the name of its hash.
    pub(super) fn place_loose(&self, temporary: Temporary, hash: &ContentHash) -> Result<(), CasError> {
        let target = self.loose_path(hash);
        let shard = target.parent().expect("a blob lies in a folder").to_owned();
        disk::make_folders(&shard).map_err(CasError::at(&shard))?;
        self.will_change(shard);
        temporary.place(&target)
    }
}

impl BlobWriter for LocalWriter<'_> {
    fn put(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), CasError> {
        if self.blobs.contains(hash)? {
            return Ok(());
        }
        let mut state = self.state();
        if !state.seen.insert(*hash) {
            return Ok(());
        }
        state.fresh += bytes.len() as u64;
        if state.pack.is_none() && state.waiting.len() < LOOSE {
            state.waiting.push((*hash, bytes.to_vec()));
            return Ok(());
        }
        if state.pack.is_none() {
            let mut writer = PackWriter::new(self.create()?);
            for (hash, bytes) in state.waiting.drain(..) {
                writer.push(&hash, &bytes)?;
            }
            state.pack = Some(writer);
        }
        state.pack.as_mut().expect("it was just made").push(hash, bytes)
    }

    fn put_file(&self, source: &File) -> Result<(u64, ContentHash), CasError> {
        let (file, size, hash) = self.blobs.copy_of(source)?;
        if !self.blobs.contains(&hash)? {
            self.blobs.sync(&file)?;
            self.place(file, &hash)?;
            self.state().fresh += size;
        }
        Ok((size, hash))
    }

    fn finish(self: Box<Self>) -> Result<u64, CasError> {
        let (waiting, pack, fresh) = {
            let mut state = self.state();
            (std::mem::take(&mut state.waiting), state.pack.take(), state.fresh)
        };
        for (hash, bytes) in waiting {
            let file = self.create()?;
            file.write(&bytes)?;
            self.blobs.sync(&file)?;
            self.place(file, &hash)?;
        }
        if let Some(writer) = pack {
            let (file, rows, index) = writer.finish()?;
            let (name, target) = self.blobs.place_pack(file, &index)?;
            self.blobs.add_pack(name, File::open(&target).map_err(CasError::at(&target))?, rows);
        }
        self.blobs.sync_names()?;
        Ok(fresh)
    }
}
