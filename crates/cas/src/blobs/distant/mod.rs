//! Blobs that are kept elsewhere (a [`Depot`]), with copies here. Several machines may have the same ones.
//!
//! What is written lies below the number of the chat's *generation*: `g7/blobs/<hash>`, or many small ones together in
//! `g7/packs/<hash of the index>.pack`, with the index beside it. A collection begins a new generation and takes away only what
//! lies in older ones; a writer relies only on what lies in the generation that it writes into, or on what rows name. So nobody
//! relies on what somebody else, however slow, is about to take away (docs/decisions/bytes-in-a-bucket.md).

mod again;
mod known;
mod sweep;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use kitbag_model::ContentHash;

use super::depot::{Content, Depot};
use super::local::LocalBlobs;
use super::pack::{self, Rows};
use super::{BlobReader, BlobWriter, Blobs, Cache, Swept};
use crate::disk::{self, Temporary};
use crate::error::CasError;
use known::{Key, Known, Place};
use writer::DistantWriter;

/// So many things are brought at a time, so that few files are open.
const AT_ONCE: usize = 128;

/// A check believes a list of what is there for so long.
const FRESH: Duration = Duration::from_secs(10);

/// A pack, by its generation and name, and what is in it.
type Indexed = ((u64, ContentHash), Rows);

/// The blobs of one chat.
pub struct DistantBlobs {
    local: LocalBlobs,
    depot: Arc<dyn Depot>,
    cache: Arc<Cache>,
    known: RwLock<Known>,
    /// One at a time brings something: the next one finds it here.
    fetching: Mutex<()>,
}

impl DistantBlobs {
    /// The blobs that `depot` has, with copies below a chat's folder.
    pub fn open(home: &Path, depot: Arc<dyn Depot>, cache: Arc<Cache>, generation: u64) -> Result<Self, CasError> {
        let known = RwLock::new(Known::new(generation));
        Ok(Self { local: LocalBlobs::open_copies(home)?, depot, cache, known, fetching: Mutex::default() })
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_known(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks what is there, unless that was done before.
    fn ensure_listed(&self) -> Result<(), CasError> {
        if self.known().listed_at.is_some() {
            return Ok(());
        }
        let _one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.known().listed_at.is_some() { Ok(()) } else { self.list_anew() }
    }

    /// Looks what is there. For whoever has `fetching`.
    fn list_anew(&self) -> Result<(), CasError> {
        let now = Instant::now();
        let keys: Vec<Key> = self.depot.list()?.iter().filter_map(|object| object.key.parse().ok()).collect();
        let packs: HashSet<(u64, ContentHash)> = keys.iter().filter_map(Key::pack).collect();
        let unread: Vec<(u64, ContentHash)> = {
            let known = self.known();
            let indexes = keys.iter().filter_map(Key::index).filter(|index| packs.contains(index));
            indexes.filter(|index| !known.packs.contains_key(index)).collect()
        };
        let indexes = self.read_indexes(&unread)?;
        self.change_known().replace(&keys, &packs, indexes, now);
        Ok(())
    }

    /// The indexes of these packs, but for those that are not what their name says.
    fn read_indexes(&self, packs: &[(u64, ContentHash)]) -> Result<Vec<Indexed>, CasError> {
        let mut indexes = Vec::new();
        for part in packs.chunks(AT_ONCE) {
            let keys = part.iter().map(|(generation, name)| Key::Index(*generation, *name).to_string()).collect();
            for (pack, brought) in part.iter().zip(self.bring(keys)?) {
                let Some(file) = brought else { continue };
                let bytes = fs::read(file.path()).map_err(CasError::at(file.path()))?;
                match pack::rows_of(&bytes).filter(|_| ContentHash::of(&bytes) == pack.1) {
                    Some(rows) => indexes.push((*pack, rows)),
                    None => tracing::error!(pack = %pack.1, "the index of a pack is damaged"),
                }
            }
        }
        Ok(indexes)
    }

    /// Brings these into files here; none for what is not there.
    fn bring(&self, keys: Vec<String>) -> Result<Vec<Option<Temporary>>, CasError> {
        let files = keys.iter().map(|_| self.local.temporary()).collect::<Result<Vec<Temporary>, _>>()?;
        let wanted = keys.into_iter().zip(files.iter().map(Temporary::file)).collect();
        let found = self.depot.get(wanted)?;
        Ok(files.into_iter().zip(found).map(|(file, found)| found.then_some(file)).collect())
    }

    /// Brings copies of what lies at these places. Whether all were there.
    fn copy_here(&self, places: &[Place]) -> Result<bool, CasError> {
        let mut all = true;
        for part in places.chunks(AT_ONCE) {
            for (place, brought) in
                part.iter().zip(self.bring(part.iter().map(|place| place.key().to_string()).collect())?)
            {
                let Some(file) = brought else {
                    all = false;
                    continue;
                };
                let size = file.file().metadata().map_err(CasError::at(file.path()))?.len();
                match place {
                    Place::Loose(_, hash) => self.local.place_loose(file, hash)?,
                    Place::Pack(_, name) => {
                        let opened = File::open(file.path()).map_err(CasError::at(file.path()))?;
                        match pack::read_index(&opened).map_err(CasError::at(file.path()))? {
                            Some(rows) => {
                                let (name, _) = self.local.place_pack(file, name)?;
                                self.local.add_pack(name, opened, rows);
                            }
                            // Its blobs are missing then, and whoever needs one is told so by name.
                            None => tracing::error!(pack = %name, "a pack is damaged"),
                        }
                    }
                }
                self.cache.grew(size);
            }
        }
        Ok(all)
    }

    /// Brings a copy of a blob.
    fn fetch(&self, hash: &ContentHash) -> Result<(), CasError> {
        let _one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.local.contains(hash)? {
            return Ok(());
        }
        // What is known may be old: another machine may have moved it, or written it just now.
        for is_again in [false, true] {
            if is_again || self.known().listed_at.is_none() {
                self.list_anew()?;
            }
            let place = self.known().place(hash);
            if let Some(place) = place
                && self.copy_here(&[place])?
            {
                return Ok(());
            }
        }
        Err(CasError::Missing { hash: *hash })
    }

    /// Reads the copy of a blob. One that is not here, or damaged, is brought first.
    fn with_copy<T>(
        &self,
        hash: &ContentHash,
        mut read: impl FnMut(&LocalBlobs) -> Result<T, CasError>,
    ) -> Result<T, CasError> {
        match read(&self.local) {
            Err(CasError::Missing { .. }) => {}
            Err(CasError::Corrupt { .. }) => {
                tracing::warn!(blob = %hash, "the copy of a blob was damaged; it is brought again");
                self.local.drop_copy(hash)?;
            }
            done => return done,
        }
        self.fetch(hash)?;
        match read(&self.local) {
            // Room was made in the meantime, and it was this one that went.
            Err(CasError::Missing { .. }) => {
                self.fetch(hash)?;
                read(&self.local)
            }
            done => done,
        }
    }
}

impl Blobs for DistantBlobs {
    fn contains(&self, hash: &ContentHash) -> Result<bool, CasError> {
        if self.known().is_relied_on(hash) {
            return Ok(true);
        }
        self.ensure_listed()?;
        Ok(self.known().is_relied_on(hash))
    }

    fn missing(&self, hashes: &[ContentHash]) -> Result<Vec<ContentHash>, CasError> {
        self.secure(hashes)
    }

    fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, CasError> {
        self.with_copy(hash, |local| local.read(hash))
    }

    fn verify(&self, hash: &ContentHash) -> Result<(), CasError> {
        // A copy is no proof that it is kept.
        let is_known = self.known().place(hash).is_some();
        // Another machine may have written it just now.
        if !is_known || self.known().listed_at.is_none_or(|at| at.elapsed() > FRESH) {
            let _one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
            self.list_anew()?;
        }
        if self.known().place(hash).is_none() {
            return Err(CasError::Missing { hash: *hash });
        }
        self.with_copy(hash, |local| local.verify(hash))
    }

    fn open(&self, hash: &ContentHash) -> Result<Box<dyn BlobReader>, CasError> {
        self.with_copy(hash, |local| local.open(hash))
    }

    fn copy_to(&self, hash: &ContentHash, file: &File) -> Result<(), CasError> {
        let mut is_again = false;
        self.with_copy(hash, |local| {
            if std::mem::replace(&mut is_again, true) {
                disk::empty(file).map_err(|source| CasError::Io { path: "a workspace file".into(), source })?;
            }
            local.copy_to(hash, file)
        })
    }

    fn writer<'a>(&'a self) -> Result<Box<dyn BlobWriter + 'a>, CasError> {
        Ok(Box::new(DistantWriter::new(self)))
    }

    fn replace(&self, hash: &ContentHash, file: &File) -> Result<bool, CasError> {
        self.local.drop_copy(hash)?;
        if !self.local.replace(hash, file)? {
            return Ok(false);
        }
        let generation = self.known().generation;
        self.depot.replace(Key::Loose(generation, *hash).to_string(), Content::Reader(self.local.open(hash)?))?;
        self.change_known().add_loose(generation, *hash);
        Ok(true)
    }

    fn list(&self) -> Result<Vec<ContentHash>, CasError> {
        let _one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        self.list_anew()?;
        Ok(self.known().all())
    }

    fn sweep(&self, is_live: &dyn Fn(&ContentHash) -> bool, grace: Duration) -> Result<Swept, CasError> {
        self.sweep_older(is_live, grace)
    }

    fn expect(&self, hashes: &[ContentHash]) -> Result<(), CasError> {
        let mut missing = Vec::new();
        for hash in hashes {
            if !self.local.contains(hash)? {
                missing.push(*hash);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.ensure_listed()?;
        let _one = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let places: HashSet<Place> = {
            let known = self.known();
            missing.iter().filter_map(|hash| known.place(hash)).collect()
        };
        // What could not be brought is looked for again when it is needed.
        self.copy_here(&places.into_iter().collect::<Vec<Place>>()).map(drop)
    }

    fn generation(&self) -> Option<u64> {
        Some(self.known().generation)
    }

    fn enter(&self, generation: u64, kept: HashSet<ContentHash>) {
        let mut known = self.change_known();
        known.generation = generation;
        known.kept = kept;
    }
}
