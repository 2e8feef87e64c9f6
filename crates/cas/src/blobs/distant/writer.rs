//! Blobs on their way to where they are kept. Each is there whole, under its name, before anybody is told that it is.

use std::collections::HashSet;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kitbag_model::ContentHash;

use super::super::depot::Content;
use super::super::pack::PackWriter;
use super::super::writer::LOOSE;
use super::super::{BlobReader, BlobWriter, Blobs};
use super::DistantBlobs;
use super::known::Key;
use crate::disk::Temporary;
use crate::error::CasError;

/// A pack is brought whole for any of its blobs, so it does not grow without end.
const LARGEST_PACK: u64 = 64 << 20;

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
    large: Vec<ContentHash>,
    /// How many bytes were not there before.
    fresh: u64,
}

/// A complete pack, to be read in parts.
struct Packed(File, u64);

impl BlobReader for Packed {
    fn length(&self) -> u64 {
        self.1
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError> {
        use std::os::unix::fs::FileExt;
        self.0.read_at(buffer, at).map_err(|source| CasError::Io { path: "a pack".into(), source })
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
        let local = self.blobs.local.writer()?;
        let (size, hash) = local.put_file(file)?;
        self.blobs.cache.grew(local.finish()?);
        if !self.blobs.contains(&hash)? {
            let mut state = self.state();
            if state.seen.insert(hash) {
                state.large.push(hash);
                state.fresh += size;
            }
        }
        Ok((size, hash))
    }

    fn finish(self: Box<Self>) -> Result<u64, CasError> {
        let State { waiting, pack, full, large, fresh, .. } = std::mem::take(&mut *self.state());
        let (generation, blobs) = (self.generation, self.blobs);
        let mut copied = self.keep_copies(&waiting)?;
        let loose: Vec<ContentHash> = waiting.iter().map(|(hash, _)| *hash).chain(large.iter().copied()).collect();
        let mut items = Vec::new();
        for (hash, bytes) in waiting {
            items.push((Key::Loose(generation, hash).to_string(), Content::Bytes(bytes)));
        }
        for hash in large {
            // Opened before anything is sent: room that is made meanwhile takes the name away and not the file.
            items.push((Key::Loose(generation, hash).to_string(), Content::Reader(blobs.local.open(&hash)?)));
        }
        let (mut packs, mut indexes): (Vec<(ContentHash, Temporary, _)>, Vec<_>) = (Vec::new(), Vec::new());
        for writer in full.into_iter().chain(pack) {
            let (file, rows, index) = writer.seal()?;
            let name = ContentHash::of(&index);
            let opened = File::open(file.path()).map_err(CasError::at(file.path()))?;
            let size = opened.metadata().map_err(CasError::at(file.path()))?.len();
            copied += size;
            items.push((Key::Pack(generation, name).to_string(), Content::Reader(Box::new(Packed(opened, size)))));
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
