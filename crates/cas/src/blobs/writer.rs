//! Blobs on their way into a folder. A few small ones become files of their own; more of them share a pack. Each is
//! complete and on the disk before it gets its name, so a name never leads to half a blob.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kitbag_model::{ContentHash, Hasher};

use super::local::{LocalBlobs, sync_folder};
use super::pack::PackWriter;
use super::{BlobWriter, Blobs};
use crate::error::CasError;

/// Up to so many small blobs get files of their own: each costs a sync, but can be found by its name.
const LOOSE: usize = 8;

pub(super) struct LocalWriter<'a> {
    blobs: &'a LocalBlobs,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: HashSet<ContentHash>,
    waiting: Vec<(ContentHash, Vec<u8>)>,
    pack: Option<(PathBuf, PackWriter)>,
    shards: HashSet<PathBuf>,
}

impl<'a> LocalWriter<'a> {
    pub(super) fn new(blobs: &'a LocalBlobs) -> Self {
        Self { blobs, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A name in the temporary folder that nobody else uses.
    fn temporary(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.blobs.temporary_folder().join(format!("{}-{count}", std::process::id()))
    }

    fn create(&self) -> Result<(PathBuf, File), CasError> {
        let path = self.temporary();
        let options = File::options().write(true).create(true).truncate(true).mode(0o400).open(&path);
        options.map_err(CasError::at(&path)).map(|file| (path, file))
    }

    /// Gives a complete and synced file the name of its hash.
    fn place(&self, temporary: &PathBuf, hash: &ContentHash) -> Result<(), CasError> {
        let target = self.blobs.loose_path(hash);
        let shard = target.parent().expect("a blob lies in a folder").to_owned();
        fs::create_dir_all(&shard).map_err(CasError::at(&shard))?;
        fs::rename(temporary, &target).map_err(CasError::at(&target))?;
        self.state().shards.insert(shard);
        Ok(())
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
        if state.pack.is_none() && state.waiting.len() < LOOSE {
            state.waiting.push((*hash, bytes.to_vec()));
            return Ok(());
        }
        if state.pack.is_none() {
            let (path, file) = self.create()?;
            let mut writer = PackWriter::new(file);
            for (hash, bytes) in state.waiting.drain(..) {
                writer.push(&hash, &bytes).map_err(CasError::at(&path))?;
            }
            state.pack = Some((path, writer));
        }
        let (path, writer) = state.pack.as_mut().expect("it was just made");
        writer.push(hash, bytes).map_err(CasError::at(path))
    }

    fn put_file(&self, mut source: &File) -> Result<(u64, ContentHash), CasError> {
        let (path, mut file) = self.create()?;
        let failed = CasError::at(&path);
        let mut hasher = Hasher::default();
        let mut size = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = source.read(&mut buffer).map_err(&failed)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            file.write_all(&buffer[..count]).map_err(&failed)?;
            size += count as u64;
        }
        let hash = hasher.finish();
        if self.blobs.contains(&hash)? {
            fs::remove_file(&path).map_err(&failed)?;
        } else {
            file.sync_data().map_err(&failed)?;
            self.place(&path, &hash)?;
        }
        Ok((size, hash))
    }

    fn finish(self: Box<Self>) -> Result<(), CasError> {
        let (waiting, pack) = {
            let mut state = self.state();
            (std::mem::take(&mut state.waiting), state.pack.take())
        };
        for (hash, bytes) in waiting {
            let (path, mut file) = self.create()?;
            file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(CasError::at(&path))?;
            self.place(&path, &hash)?;
        }
        if let Some((path, writer)) = pack {
            let (rows, index) = writer.finish().map_err(CasError::at(&path))?;
            let (name, target) = self.blobs.place_pack(&path, &index)?;
            self.blobs.add_pack(name, File::open(&target).map_err(CasError::at(&target))?, rows);
        }
        let shards = std::mem::take(&mut self.state().shards);
        if !shards.is_empty() {
            for shard in &shards {
                sync_folder(shard)?;
            }
            sync_folder(shards.iter().next().and_then(|shard| shard.parent()).expect("a shard lies in a folder"))?;
        }
        Ok(())
    }
}

impl Drop for LocalWriter<'_> {
    fn drop(&mut self) {
        // Given up half-way: what was begun has no name yet and is of no use.
        if let Some((path, _)) = self.state().pack.take() {
            let _ = fs::remove_file(path);
        }
    }
}
