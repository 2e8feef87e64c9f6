//! Blobs in a folder: loose ones in `blobs/<2 hex>/<hash>`, many small ones together in `packs/`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use kitbag_model::{ContentHash, Hasher};

use super::pack::{self, PackWriter, Span};
use super::writer::LocalWriter;
use super::{BlobReader, BlobWriter, Blobs, Swept};
use crate::disk::{self, Temporary};
use crate::error::CasError;

/// So much of a large blob is in memory at a time.
const PART: u64 = 1 << 20;

/// Of so many large blobs it is remembered that they are whole.
const REMEMBERED: usize = 256;

/// A copy that was used is said to be, unless that was said so short a time ago: each time changes its file, and it is read much more
/// often than room is made.
const SAID: Duration = Duration::from_secs(60);

/// The blobs of one chat.
pub struct LocalBlobs {
    folder: PathBuf,
    packs: RwLock<Packs>,
    /// Large blobs that were read whole, each with the stamp that its file had.
    whole: Mutex<HashMap<ContentHash, Stamp>>,
    /// Folders with names that may not be durable yet. They outlive the writer that failed to make them so: the next one
    /// finds its blobs there and relies on them.
    changed: Mutex<BTreeSet<PathBuf>>,
    /// Whether what is here are copies: they need not survive a power cut, and remember when they were last used.
    are_copies: bool,
}

/// What is known of the packs.
#[derive(Default)]
struct Packs {
    files: HashMap<String, Arc<File>>,
    blobs: HashMap<ContentHash, (Arc<File>, Span)>,
}

impl LocalBlobs {
    /// Opens the blobs below a chat's folder.
    pub fn open(folder: &Path) -> Result<Self, CasError> {
        Self::open_as(folder, false)
    }

    /// The same for copies of what is kept elsewhere.
    pub(super) fn open_copies(folder: &Path) -> Result<Self, CasError> {
        Self::open_as(folder, true)
    }

    fn open_as(folder: &Path, are_copies: bool) -> Result<Self, CasError> {
        for name in ["blobs", "packs", "tmp"] {
            let path = folder.join(name);
            disk::make_lasting_folders(&path).map_err(CasError::at(&path))?;
        }
        let blobs = Self {
            folder: folder.to_owned(),
            packs: RwLock::default(),
            whole: Mutex::default(),
            changed: Mutex::default(),
            are_copies,
        };
        blobs.find_packs()?;
        Ok(blobs)
    }

    /// How many bytes the blobs below a chat's folder take. What is not there takes none.
    pub fn stored(folder: &Path) -> io::Result<u64> {
        fn below(folder: &Path) -> io::Result<u64> {
            let entries = match fs::read_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                entries => entries?,
            };
            let mut bytes = 0;
            for entry in entries {
                let entry = entry?;
                bytes += match entry.metadata() {
                    Ok(about) if about.is_dir() => below(&entry.path())?,
                    Ok(about) => about.len(),
                    // It went away in the meantime.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                    Err(error) => return Err(error),
                };
            }
            Ok(bytes)
        }
        Ok(below(&folder.join("blobs"))? + below(&folder.join("packs"))?)
    }

    pub(super) fn loose_path(&self, hash: &ContentHash) -> PathBuf {
        let name = hash.to_string();
        self.folder.join("blobs").join(&name[..2]).join(name)
    }

    pub(super) fn pack_path(&self, name: &ContentHash) -> PathBuf {
        self.packs_folder().join(format!("{name}.pack"))
    }

    pub(super) fn packs_folder(&self) -> PathBuf {
        self.folder.join("packs")
    }

    pub(super) fn temporary_folder(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Says that a folder is about to get a name.
    pub(super) fn will_change(&self, folder: PathBuf) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(folder);
    }

    /// Makes a file's content durable, if it has to be.
    pub(super) fn sync(&self, file: &Temporary) -> Result<(), CasError> {
        if self.are_copies { Ok(()) } else { file.sync() }
    }

    /// Makes all names durable.
    pub(super) fn sync_names(&self) -> Result<(), CasError> {
        if self.are_copies {
            return Ok(());
        }
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shards = self.folder.join("blobs");
        let above = changed.iter().any(|folder| folder.starts_with(&shards)).then_some(&shards);
        for folder in changed.iter().chain(above) {
            disk::sync_folder(folder).map_err(CasError::at(folder))?;
        }
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).retain(|folder| !changed.contains(folder));
        Ok(())
    }

    /// Makes a new pack known.
    pub(super) fn add_pack(&self, name: String, file: File, rows: Vec<(ContentHash, Span)>) {
        let file = Arc::new(file);
        let mut packs = self.packs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        packs.blobs.extend(rows.into_iter().map(|(hash, span)| (hash, (Arc::clone(&file), span))));
        packs.files.insert(name, file);
    }

    /// Looks for packs that are not known yet: another process may have written them.
    fn find_packs(&self) -> Result<(), CasError> {
        let folder = self.packs_folder();
        for entry in fs::read_dir(&folder).map_err(CasError::at(&folder))? {
            let entry = entry.map_err(CasError::at(&folder))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if self.read_packs().files.contains_key(&name) || !name.ends_with(".pack") {
                continue;
            }
            let path = entry.path();
            let file = File::open(&path).map_err(CasError::at(&path))?;
            match pack::read_index(&file).map_err(CasError::at(&path))? {
                Some(rows) => self.add_pack(name, file, rows),
                // Its blobs are missing then, and whoever needs one is told so by name.
                None => tracing::error!(pack = %path.display(), "a pack is damaged"),
            }
        }
        Ok(())
    }

    fn read_packs(&self) -> std::sync::RwLockReadGuard<'_, Packs> {
        self.packs.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn packed(&self, hash: &ContentHash) -> Option<(Arc<File>, Span)> {
        self.read_packs().blobs.get(hash).cloned()
    }

    fn open_loose(&self, hash: &ContentHash) -> Result<Option<File>, CasError> {
        let path = self.loose_path(hash);
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CasError::at(&path)(error)),
        }
    }

    /// Shows the bytes of a blob to `take`, part by part, and fails unless they have its hash.
    fn stream(&self, hash: &ContentHash, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), CasError> {
        let source = self.source(hash)?;
        self.used(&source.file);
        self.show(&source, hash, take)
    }

    fn show(
        &self,
        source: &Source,
        hash: &ContentHash,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), CasError> {
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; source.length.clamp(1, PART) as usize];
        let mut at = 0;
        loop {
            let count = source.read_at(&mut buffer, at)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            take(&buffer[..count]).map_err(CasError::at(&self.folder))?;
            at += count as u64;
        }
        if hasher.finish() == *hash { Ok(()) } else { Err(CasError::Corrupt { hash: *hash }) }
    }

    fn source(&self, hash: &ContentHash) -> Result<Source, CasError> {
        for attempt in 0..2 {
            if let Some((file, span)) = self.packed(hash) {
                return Ok(Source { file, start: span.offset, length: span.length, path: self.packs_folder() });
            }
            if let Some(file) = self.open_loose(hash)? {
                let path = self.loose_path(hash);
                let length = file.metadata().map_err(CasError::at(&path))?.len();
                return Ok(Source { file: Arc::new(file), start: 0, length, path });
            }
            if attempt == 0 {
                self.find_packs()?;
            }
        }
        Err(CasError::Missing { hash: *hash })
    }

    fn used(&self, file: &File) {
        // A time that is still to come is as good as none.
        let is_old = |at: SystemTime| SystemTime::now().duration_since(at).map_or(true, |age| age > SAID);
        if self.are_copies && file.metadata().and_then(|data| data.modified()).is_ok_and(is_old) {
            disk::touch(file);
        }
    }

    /// Lets go of packs whose files somebody removed to make room.
    pub(super) fn let_go_of_removed(&self) {
        let mut packs = self.packs.write().unwrap_or_else(PoisonError::into_inner);
        let is_removed = |file: &&Arc<File>| file.metadata().is_ok_and(|data| data.nlink() == 0);
        let removed: HashSet<*const File> = packs.files.values().filter(is_removed).map(Arc::as_ptr).collect();
        if !removed.is_empty() {
            packs.files.retain(|_, file| !removed.contains(&Arc::as_ptr(file)));
            packs.blobs.retain(|_, (file, _)| !removed.contains(&Arc::as_ptr(file)));
        }
    }

    /// Takes away the copy of a blob, with the pack that it is in.
    pub(super) fn drop_copy(&self, hash: &ContentHash) -> Result<(), CasError> {
        let loose = self.loose_path(hash);
        disk::remove(&loose).map_err(CasError::at(&loose))?;
        let mut packs = self.packs.write().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = packs.blobs.get(hash).map(|(file, _)| Arc::clone(file)) else { return Ok(()) };
        let name = packs.files.iter().find(|(_, known)| Arc::ptr_eq(known, &file)).map(|(name, _)| name.clone());
        packs.blobs.retain(|_, (known, _)| !Arc::ptr_eq(known, &file));
        if let Some(name) = name {
            packs.files.remove(&name);
            let path = self.packs_folder().join(name);
            disk::remove(&path).map_err(CasError::at(&path))?;
        }
        Ok(())
    }

    /// Whether a large blob was read whole before and its file was not touched since: then a part of it can be read without
    /// reading the rest again.
    fn is_remembered(&self, hash: &ContentHash, stamp: &Stamp) -> bool {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).get(hash) == Some(stamp)
    }

    fn remember(&self, hash: &ContentHash, stamp: Stamp) {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if whole.len() >= REMEMBERED && !whole.contains_key(hash) {
            whole.clear();
        }
        whole.insert(*hash, stamp);
    }

    fn each_loose(&self, mut visit: impl FnMut(ContentHash, &fs::DirEntry) -> io::Result<()>) -> Result<(), CasError> {
        let folder = self.folder.join("blobs");
        let failed = CasError::at(&folder);
        for shard in fs::read_dir(&folder).map_err(&failed)? {
            let shard = shard.map_err(&failed)?.path();
            for entry in fs::read_dir(&shard).map_err(&failed)? {
                let entry = entry.map_err(&failed)?;
                if let Some(hash) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                    visit(hash, &entry).map_err(&failed)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the blobs of a pack that are still wanted into a new one, and forgets the old.
    fn repack(&self, name: &str, file: &Arc<File>, live: &[(ContentHash, Span)]) -> Result<(), CasError> {
        let old = self.packs_folder().join(name);
        let failed = CasError::at(&old);
        let new = if live.is_empty() {
            None
        } else {
            let path = self.temporary_folder().join(name);
            let mut writer = PackWriter::new(Temporary::create(path, 0o400)?);
            for (hash, span) in live {
                let mut bytes = vec![0; span.length as usize];
                file.read_exact_at(&mut bytes, span.offset).map_err(&failed)?;
                writer.push(hash, &bytes)?;
            }
            let (pack, rows, index) = writer.finish()?;
            let (new_name, target) = self.place_pack(pack, &index)?;
            self.sync_names()?;
            Some((new_name, File::open(&target).map_err(&failed)?, rows))
        };
        let mut packs = self.packs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        packs.files.remove(name);
        packs.blobs.retain(|_, (known, _)| !Arc::ptr_eq(known, file));
        drop(packs);
        let kept = new.as_ref().is_some_and(|(new_name, ..)| new_name == name);
        if let Some((new_name, file, rows)) = new {
            self.add_pack(new_name, file, rows);
        }
        if !kept {
            disk::remove(&old).map_err(&failed)?;
        }
        Ok(())
    }

    /// Gives a finished pack its name, which is durable after [`Self::sync_names`].
    pub(super) fn place_pack(&self, pack: Temporary, index: &ContentHash) -> Result<(String, PathBuf), CasError> {
        let name = format!("{index}.pack");
        let target = self.packs_folder().join(&name);
        self.will_change(self.packs_folder());
        pack.place(&target)?;
        Ok((name, target))
    }
}

/// Where the bytes of a blob lie.
struct Source {
    file: Arc<File>,
    start: u64,
    length: u64,
    path: PathBuf,
}

impl BlobReader for Source {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError> {
        let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        self.file.read_exact_at(&mut buffer[..count], self.start + at).map_err(CasError::at(&self.path))?;
        Ok(count)
    }
}

/// What tells whether a file is still the one that was read: its inode, and when that was last changed.
type Stamp = (u64, i64, i64);

fn stamp(file: &File) -> io::Result<Stamp> {
    let data = file.metadata()?;
    Ok((data.ino(), data.ctime(), data.ctime_nsec()))
}

impl Blobs for LocalBlobs {
    fn contains(&self, hash: &ContentHash) -> Result<bool, CasError> {
        if self.read_packs().blobs.contains_key(hash) {
            return Ok(true);
        }
        let path = self.loose_path(hash);
        fs::exists(&path).map_err(CasError::at(&path))
    }

    fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, CasError> {
        let mut bytes = Vec::new();
        self.stream(hash, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn verify(&self, hash: &ContentHash) -> Result<(), CasError> {
        self.stream(hash, &mut |_| Ok(()))
    }

    fn open(&self, hash: &ContentHash) -> Result<Box<dyn BlobReader>, CasError> {
        let source = self.source(hash)?;
        let now = || stamp(&source.file).map_err(CasError::at(&source.path));
        let before = now()?;
        let mut is_whole = self.is_remembered(hash, &before);
        if !is_whole {
            self.show(&source, hash, &mut |_| Ok(()))?;
            // Of what was changed while it was read nothing is known.
            is_whole = now()? == before;
        }
        // That it was used changes the file as well, and is remembered with it.
        self.used(&source.file);
        if is_whole && source.length > PART {
            self.remember(hash, now()?);
        }
        Ok(Box::new(source))
    }

    fn copy_to(&self, hash: &ContentHash, file: &File) -> Result<(), CasError> {
        self.stream(hash, &mut |part| disk::write(file, part))
    }

    fn writer<'a>(&'a self) -> Result<Box<dyn BlobWriter + 'a>, CasError> {
        Ok(Box::new(LocalWriter::new(self)))
    }

    fn replace(&self, hash: &ContentHash, mut file: &File) -> Result<bool, CasError> {
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; PART as usize];
        let failed = CasError::at(&self.folder);
        loop {
            match file.read(&mut buffer).map_err(&failed)? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            }
        }
        if hasher.finish() != *hash {
            return Ok(false);
        }
        file.rewind().map_err(&failed)?;
        // Packs are read first, so the damaged one must go from its pack, not only from memory.
        let packs: Vec<(String, Arc<File>)> =
            self.read_packs().files.iter().map(|(name, file)| (name.clone(), Arc::clone(file))).collect();
        for (name, file) in packs {
            let rows = pack::read_index(&file).map_err(CasError::at(&self.folder))?.unwrap_or_default();
            if rows.iter().any(|(row, _)| row == hash) {
                let rest: Vec<_> = rows.into_iter().filter(|(row, _)| row != hash).collect();
                self.repack(&name, &file, &rest)?;
            }
        }
        disk::remove(&self.loose_path(hash)).map_err(CasError::at(&self.folder))?;
        let writer = self.writer()?;
        let (_, written) = writer.put_file(file)?;
        writer.finish()?;
        // Somebody may have written to it between the two times that it was read.
        Ok(written == *hash)
    }

    fn list(&self) -> Result<Vec<ContentHash>, CasError> {
        self.find_packs()?;
        let mut all: Vec<ContentHash> = self.read_packs().blobs.keys().copied().collect();
        self.each_loose(|hash, _| {
            all.push(hash);
            Ok(())
        })?;
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    fn sweep(&self, is_live: &dyn Fn(&ContentHash) -> bool, grace: Duration) -> Result<Swept, CasError> {
        let old = |data: fs::Metadata| {
            let age = data.modified().map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
            age.is_ok_and(|age| age >= grace)
        };
        let mut swept = Swept::default();
        self.each_loose(|hash, entry| {
            let data = entry.metadata()?;
            if !is_live(&hash) && old(data.clone()) {
                disk::remove(&entry.path())?;
                swept.blobs += 1;
                swept.bytes += data.len();
            }
            Ok(())
        })?;
        self.find_packs()?;
        let packs: Vec<(String, Arc<File>)> =
            self.read_packs().files.iter().map(|(name, file)| (name.clone(), Arc::clone(file))).collect();
        for (name, file) in packs {
            let failed = CasError::at(&self.folder);
            if !old(file.metadata().map_err(&failed)?) {
                continue;
            }
            let rows = pack::read_index(&file).map_err(&failed)?.unwrap_or_default();
            let (live, dead): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(hash, _)| is_live(hash));
            let bytes = |rows: &[(ContentHash, Span)]| rows.iter().map(|(_, span)| span.length).sum::<u64>();
            // Writing the living again to save a few bytes costs more than it brings.
            if dead.is_empty() || (!live.is_empty() && bytes(&dead) < bytes(&live)) {
                continue;
            }
            self.repack(&name, &file, &live)?;
            swept.blobs += dead.len() as u64;
            swept.bytes += bytes(&dead);
        }
        self.clear_temporary(grace)?;
        Ok(swept)
    }
}

impl LocalBlobs {
    /// What a killed writer left.
    fn clear_temporary(&self, grace: Duration) -> Result<(), CasError> {
        let folder = self.temporary_folder();
        let failed = CasError::at(&folder);
        for entry in fs::read_dir(&folder).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let age = entry.metadata().and_then(|data| data.modified()).map_err(&failed)?;
            if SystemTime::now().duration_since(age).unwrap_or_default() >= grace {
                disk::remove(&entry.path()).map_err(&failed)?;
            }
        }
        Ok(())
    }
}
