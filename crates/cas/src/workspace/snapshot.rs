//! From the folder to a state.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Mutex;

use kitbag_model::{ContentHash, WorkPath};
use rustix::io::Errno;

use super::folder::Stat;
use super::index::{Known, now};
use super::walk::Warning;
use super::{Workspace, parallel};
use crate::blobs::{BlobWriter, SMALL};
use crate::error::CasError;
use crate::tree::{self, Entry, Kind, Nodes, Tree};

/// A state that was taken.
#[derive(Debug)]
pub struct Snapshot {
    /// The state. Its nodes are to be kept before anybody may rely on it; its blobs are durable already.
    pub tree: Tree,
    /// What differs from the state that the folder was at, where that is known.
    pub edits: BTreeMap<WorkPath, Option<Entry>>,
    /// What could not be kept.
    pub warnings: Vec<Warning>,
    /// The generation of blobs that it relies on, where there are any: it must still be the one when the state is kept.
    pub generation: Option<u64>,
}

impl Workspace {
    /// Takes the state that the folder is in. Only files whose times say that they may have changed are read.
    pub fn snapshot(&mut self, nodes: &impl Nodes) -> Result<Snapshot, CasError> {
        let taken = self.take(nodes);
        if taken.is_err() {
            // What was heard and half of what was found are used up.
            self.forget();
        }
        taken
    }

    fn take(&mut self, nodes: &impl Nodes) -> Result<Snapshot, CasError> {
        self.open_up()?;
        let generation = self.blobs.generation();
        let walk = self.look()?;
        let mut edits: BTreeMap<WorkPath, Option<Entry>> = BTreeMap::new();
        let mut unknown = Vec::new();
        let mut known = self.index.within(walk.regions.as_ref()).peekable();
        for (path, stat) in &walk.found {
            while let Some((gone, _)) = known.next_if(|(known, _)| *known < path) {
                if !walk.is_closed(gone) {
                    edits.insert(gone.clone(), None);
                }
            }
            match known.next_if(|(known, _)| *known == path) {
                Some((_, known)) if known.holds(stat) => {}
                _ => unknown.push((path.clone(), *stat)),
            }
        }
        edits.extend(known.filter(|(gone, _)| !walk.is_closed(gone)).map(|(gone, _)| (gone.clone(), None)));
        self.check_limits(&edits, &unknown)?;
        for path in edits.keys() {
            self.index.files.remove(path);
        }
        let mut warnings = walk.warnings();
        for (path, read) in self.read_files(unknown)? {
            let (before, now) = match read {
                Read::Known(known) => (self.index.files.insert(path.clone(), known), Some(known)),
                Read::Gone => (self.index.files.remove(&path), None),
                Read::Unreadable => {
                    warnings.push(Warning::unreadable(path.as_str()));
                    // What is known of it is not what is on disk, and only a walk finds that again.
                    self.watch = None;
                    continue;
                }
            };
            if before.map(|before| before.entry) != now.map(|known| known.entry) {
                edits.insert(path, now.map(|known| known.entry));
            }
        }
        let tree = self.tree_after(&edits, nodes)?;
        self.index.set_root(tree.root);
        Ok(Snapshot { tree, edits, warnings, generation })
    }

    /// The tree of everything that is known now.
    fn tree_after(&self, edits: &BTreeMap<WorkPath, Option<Entry>>, nodes: &impl Nodes) -> Result<Tree, CasError> {
        // Many edits touch every node anyway; then it is quicker to make all of them than to look for each.
        match self.index.root() {
            Some(root) if edits.len() * 8 < self.index.files.len() + 64 => Ok(tree::edit(&root, edits, nodes)?),
            _ => Ok(tree::build(&self.index.files.iter().map(|(path, known)| (path.clone(), known.entry)).collect())),
        }
    }

    /// What there will be, before anything is read. What is too much already may become less, else nobody could tidy up.
    fn check_limits(
        &self,
        edits: &BTreeMap<WorkPath, Option<Entry>>,
        unknown: &[(WorkPath, Stat)],
    ) -> Result<(), CasError> {
        if edits.is_empty() && unknown.is_empty() {
            // To count what was counted before would cost as much as there is, not as much as changed.
            return Ok(());
        }
        let size = |known: &Known| known.entry.size;
        let (had_entries, had_bytes) = count(self.index.files.values().map(size));
        let allowed = self.limits.or_as_much_as(self.had);
        let replaced = edits.keys().chain(unknown.iter().map(|(path, _)| path));
        let (less_entries, less_bytes) = count(replaced.filter_map(|path| self.index.files.get(path)).map(size));
        let (more_entries, more_bytes) = count(unknown.iter().map(|(_, stat)| stat.size));
        let entries = (had_entries, had_entries - less_entries + more_entries, allowed.entries, self.limits.entries);
        let bytes = (had_bytes, had_bytes - less_bytes + more_bytes, allowed.bytes, self.limits.bytes);
        for (what, (had, has, allowed, most)) in [("files", entries), ("bytes", bytes)] {
            if has > allowed.max(had) {
                return Err(CasError::Limit { what, has, most });
            }
        }
        Ok(())
    }

    /// Reads files and puts their content into the store, durably.
    fn read_files(&self, files: Vec<(WorkPath, Stat)>) -> Result<Vec<(WorkPath, Read)>, CasError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let writer = self.blobs.writer()?;
        let results = Mutex::new(Vec::with_capacity(files.len()));
        let batches: Vec<&[(WorkPath, Stat)]> = files.chunks(64).collect();
        parallel::run(batches, Vec::new, |batch, buffer: &mut Vec<u8>, _| {
            let mut read = Vec::with_capacity(batch.len());
            for (path, stat) in batch {
                read.push((path.clone(), self.read_one(path, stat, &*writer, buffer)?));
            }
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut read);
            Ok::<_, CasError>(())
        })?;
        writer.finish()?;
        Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Reads a file to know what it holds, and keeps nothing of it.
    pub(super) fn look_again(&self, path: &WorkPath, stat: &Stat) -> Result<Option<Known>, CasError> {
        match self.read_one(path, stat, &OnlyHash, &mut Vec::new())? {
            Read::Known(known) => Ok(Some(known)),
            Read::Gone | Read::Unreadable => Ok(None),
        }
    }

    fn read_one(
        &self,
        path: &WorkPath,
        stat: &Stat,
        writer: &dyn BlobWriter,
        buffer: &mut Vec<u8>,
    ) -> Result<Read, CasError> {
        let failed = self.folder.failed(path.as_str());
        let read_at = now();
        let gone = |error| matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
        match stat.kind() {
            Some(Kind::Folder) => Ok(Read::Known(Known::new(*stat, Entry::folder(), read_at))),
            Some(Kind::Link) => {
                let target = match self.folder.link_target(path) {
                    Ok(target) => target,
                    Err(error) if gone(error) || error == Errno::INVAL => return Ok(Read::Gone),
                    Err(Errno::ACCESS) => return Ok(Read::Unreadable),
                    Err(error) => return Err(failed(error)),
                };
                let hash = ContentHash::of(&target);
                writer.put(&hash, &target)?;
                let entry = Entry { kind: Kind::Link, size: target.len() as u64, hash };
                Ok(Read::Known(Known::new(*stat, entry, read_at)))
            }
            _ => {
                let file = match self.folder.file(path) {
                    Ok(file) => file,
                    Err(error) if gone(error) => return Ok(Read::Gone),
                    Err(Errno::ACCESS) => return Ok(Read::Unreadable),
                    Err(error) => return Err(failed(error)),
                };
                let stat = Stat::from(&rustix::fs::fstat(&file).map_err(&failed)?);
                // Something else took its place; whatever it is now is the next snapshot's.
                let Some(kind @ (Kind::File | Kind::Executable)) = stat.kind() else { return Ok(Read::Gone) };
                let (size, hash) = if stat.size <= SMALL {
                    buffer.clear();
                    (&file)
                        .take(SMALL + 1)
                        .read_to_end(buffer)
                        .map_err(CasError::at(&self.folder.path().join(path)))?;
                    if buffer.len() as u64 > SMALL {
                        std::io::Seek::rewind(&mut &file).map_err(CasError::at(self.folder.path()))?;
                        writer.put_file(&file)?
                    } else {
                        let hash = ContentHash::of(buffer);
                        writer.put(&hash, buffer)?;
                        (buffer.len() as u64, hash)
                    }
                } else {
                    writer.put_file(&file)?
                };
                // If it was written to while it was read, its times have changed, and it is read again next time.
                Ok(Read::Known(Known::new(stat, Entry { kind, size, hash }, read_at)))
            }
        }
    }
}

/// How many, and how much in all.
pub(super) fn count(sizes: impl Iterator<Item = u64>) -> (u64, u64) {
    sizes.fold((0, 0), |(entries, bytes), size| (entries + 1, bytes + size))
}

/// What came of reading a file.
#[derive(Clone, Copy)]
enum Read {
    Known(Known),
    /// It went away in the meantime.
    Gone,
    /// We may not.
    Unreadable,
}

/// A writer that writes nothing.
struct OnlyHash;

impl BlobWriter for OnlyHash {
    fn put(&self, _: &ContentHash, _: &[u8]) -> Result<(), CasError> {
        Ok(())
    }

    fn put_file(&self, mut file: &std::fs::File) -> Result<(u64, ContentHash), CasError> {
        let mut hasher = kitbag_model::Hasher::default();
        let mut buffer = vec![0; 1 << 20];
        let mut size = 0;
        loop {
            let count = file.read(&mut buffer).map_err(CasError::at("a workspace file".as_ref()))?;
            if count == 0 {
                return Ok((size, hasher.finish()));
            }
            hasher.update(&buffer[..count]);
            size += count as u64;
        }
    }

    fn finish(self: Box<Self>) -> Result<u64, CasError> {
        Ok(0)
    }
}
