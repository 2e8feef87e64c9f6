//! Blobs on their way to where they are kept. Each is there whole, under its name, before anybody is told that it is.

use std::collections::HashSet;
use std::fs::{self, File};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kitbag_model::ContentHash;

use super::super::depot::Content;
use super::super::pack::PackWriter;
use super::super::writer::LOOSE;
use super::super::{BlobReader, BlobWriter, Blobs};
use super::known::Key;
use super::{AT_ONCE, DistantBlobs};
use crate::disk::Temporary;
use crate::error::CasError;

/// A pack is brought whole for any of its blobs, so it does not grow without end.
const LARGEST_PACK: u64 = 64 << 20;

/// Large blobs that wait are open, and what is open takes room on the disk though the cache let go of it. So many bytes of them wait.
const WAITING: u64 = 1 << 30;

pub(super) struct DistantWriter<'a> {
    blobs: &'a DistantBlobs,
    /// What everything of it is written into, whatever is entered meanwhile.
    generation: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: HashSet<ContentHash>,
    waiting: Vec<(ContentHash, Vec<u8>)>,
    pack: Option<PackWriter>,
    full: Vec<PackWriter>,
    large: Vec<(ContentHash, Whole)>,
    /// How many bytes were not there before.
    fresh: u64,
}

/// A complete file, to be read in parts.
struct Whole(File, u64);

impl Whole {
    fn open(file: &Temporary, size: u64) -> Result<Self, CasError> {
        Ok(Self(File::open(file.path()).map_err(CasError::at(file.path()))?, size))
    }
}

impl BlobReader for Whole {
    fn length(&self) -> u64 {
        self.1
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError> {
        use std::os::unix::fs::FileExt;
        self.0.read_at(buffer, at).map_err(|source| CasError::Io { path: "a copy".into(), source })
    }
}

impl<'a> DistantWriter<'a> {
    pub(super) fn new(blobs: &'a DistantBlobs) -> Self {
        Self { blobs, generation: blobs.known().generation, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a small blob, whether it is there or not.
    pub(super) fn push(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), CasError> {
        let mut state = self.state();
        if !state.seen.insert(*hash) {
            return Ok(());
        }
        state.fresh += bytes.len() as u64;
        if state.pack.is_none() && state.full.is_empty() && state.waiting.len() < LOOSE {
            state.waiting.push((*hash, bytes.to_vec()));
            return Ok(());
        }
        let mut writer = match state.pack.take() {
            Some(writer) => writer,
            None => PackWriter::new(self.blobs.local.temporary()?),
        };
        for (hash, bytes) in state.waiting.drain(..) {
            writer.push(&hash, &bytes)?;
        }
        writer.push(hash, bytes)?;
        if writer.length() < LARGEST_PACK {
            state.pack = Some(writer)
        } else {
            state.full.push(writer)
        }
        Ok(())
    }

    /// Takes a large blob, and sends those that wait if they are many: whoever has to wait for them does so here or in the end.
    fn push_large(&self, hash: ContentHash, opened: Whole) -> Result<(), CasError> {
        let many = {
            let mut state = self.state();
            if !state.seen.insert(hash) {
                return Ok(());
            }
            state.fresh += opened.1;
            state.large.push((hash, opened));
            if state.large.len() < AT_ONCE && state.large.iter().map(|(_, file)| file.1).sum::<u64>() < WAITING {
                return Ok(());
            }
            std::mem::take(&mut state.large)
        };
        let hashes: Vec<ContentHash> = many.iter().map(|(hash, _)| *hash).collect();
        self.blobs.depot.put(many.into_iter().map(|large| self.item(large)).collect())?;
        // They are there, so if all of this comes to nothing whoever tries again need not send them.
        let mut known = self.blobs.change_known();
        hashes.into_iter().for_each(|hash| known.add_loose(self.generation, hash));
        Ok(())
    }

    fn item(&self, (hash, opened): (ContentHash, Whole)) -> (String, Content) {
        (Key::Loose(self.generation, hash).to_string(), Content::Reader(Box::new(opened)))
    }

    /// Puts small blobs among the copies: whoever wrote them reads them soon.
    fn keep_copies(&self, small: &[(ContentHash, Vec<u8>)]) -> Result<u64, CasError> {
        let mut copied = 0;
        for (hash, bytes) in small {
            let file = self.blobs.local.temporary()?;
            file.write(bytes)?;
            self.blobs.local.place_loose(file, hash)?;
            copied += bytes.len() as u64;
        }
        Ok(copied)
    }
}

impl BlobWriter for DistantWriter<'_> {
    fn put(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), CasError> {
        if self.blobs.contains(hash)? { Ok(()) } else { self.push(hash, bytes) }
    }

    fn put_file(&self, file: &File) -> Result<(u64, ContentHash), CasError> {
        let blobs = self.blobs;
        let (copy, size, hash) = blobs.local.copy_of(file)?;
        // Opened before it has a name: room that is made, for this one or for others, takes the name away and not the file.
        let opened = Whole::open(&copy, size)?;
        let path = blobs.local.loose_path(&hash);
        let was_here = fs::exists(&path).map_err(CasError::at(&path))?;
        // In place of one that is there, which may be damaged: copies are not synced.
        blobs.local.place_loose(copy, &hash)?;
        if !was_here {
            blobs.cache.grew(size);
        }
        if !blobs.contains(&hash)? {
            self.push_large(hash, opened)?;
        }
        Ok((size, hash))
    }

    fn finish(self: Box<Self>) -> Result<u64, CasError> {
        let State { waiting, pack, full, large, fresh, .. } = std::mem::take(&mut *self.state());
        let (generation, blobs) = (self.generation, self.blobs);
        let mut copied = self.keep_copies(&waiting)?;
        let hashes = waiting.iter().map(|(hash, _)| *hash);
        let loose: Vec<ContentHash> = hashes.chain(large.iter().map(|(hash, _)| *hash)).collect();
        let mut items: Vec<(String, Content)> = large.into_iter().map(|large| self.item(large)).collect();
        for (hash, bytes) in waiting {
            items.push((Key::Loose(generation, hash).to_string(), Content::Bytes(bytes)));
        }
        let (mut packs, mut indexes): (Vec<(ContentHash, Temporary, _)>, Vec<_>) = (Vec::new(), Vec::new());
        for writer in full.into_iter().chain(pack) {
            let (file, rows, index) = writer.seal()?;
            let name = ContentHash::of(&index);
            let size = file.file().metadata().map_err(CasError::at(file.path()))?.len();
            copied += size;
            items.push((Key::Pack(generation, name).to_string(), Content::Reader(Box::new(Whole::open(&file, size)?))));
            indexes.push((Key::Index(generation, name).to_string(), Content::Bytes(index)));
            packs.push((name, file, rows));
        }
        if !items.is_empty() {
            blobs.depot.put(items)?;
        }
        // Behind its pack: whoever finds an index finds what it speaks of.
        if !indexes.is_empty() {
            blobs.depot.put(indexes)?;
        }
        for (name, file, rows) in packs {
            let opened = File::open(file.path()).map_err(CasError::at(file.path()))?;
            let (file_name, _) = blobs.local.place_pack(file, &name)?;
            blobs.local.add_pack(file_name, opened, rows.clone());
            blobs.change_known().add_pack(generation, name, rows);
        }
        let mut known = blobs.change_known();
        loose.into_iter().for_each(|hash| known.add_loose(generation, hash));
        drop(known);
        blobs.cache.grew(copied);
        Ok(fresh)
    }
}
