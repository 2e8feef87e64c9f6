//! From a state to the folder: only what differs is touched.
//!
//! While it runs, a file says that the folder is between two states. Whoever finds that file after a crash knows that
//! nothing in the folder is worth keeping, and materialises the state that the database names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use kitbag_model::{ContentHash, WorkPath};
use rustix::io::Errno;

use super::folder::Stat;
use super::index::{Known, now};
use super::walk::Walk;
use super::{TRANSITION, Workspace, parallel};
use crate::disk;
use crate::error::CasError;
use crate::tree::{self, Entry, Kind, NodeError, Nodes};

/// What was done to the folder.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Materialised {
    /// How many files, links and empty folders were written.
    pub written: usize,
    /// How many were removed and not written again.
    pub removed: usize,
}

/// What must happen to the folder.
#[derive(Default)]
struct Work {
    remove: BTreeMap<WorkPath, bool>,
    write: BTreeMap<WorkPath, Entry>,
}

impl Workspace {
    /// Makes the folder be `target`, whatever it is now. What it was is lost unless a snapshot has it. The folder counts as
    /// torn until [`Workspace::settle`]: whoever keeps the books says first that this is its state now.
    pub fn materialise(&mut self, target: &ContentHash, nodes: &impl Nodes) -> Result<Materialised, CasError> {
        let done = self.bring_about(target, nodes);
        if done.is_err() {
            self.forget();
        }
        done
    }

    fn bring_about(&mut self, target: &ContentHash, nodes: &impl Nodes) -> Result<Materialised, CasError> {
        // Before the first thing that can fail: whatever happens, the folder is not taken for a state that somebody made.
        if self.index.root() != Some(*target) {
            self.unsettle()?;
        }
        let (walk, work) = self.look_and_plan(target, nodes)?;
        if work.remove.is_empty() && work.write.is_empty() && walk.odd.is_empty() {
            self.index.set_root(*target);
            return Ok(Materialised::default());
        }
        self.unsettle()?;
        self.index.forget_state();
        // Before anything goes: what cannot be had is found out while the folder is still whole.
        let files = work.write.values().filter(|entry| entry.kind != Kind::Folder);
        self.blobs.expect(&files.map(|entry| entry.hash).collect::<Vec<ContentHash>>())?;
        self.remove_all(&work, &walk)?;
        self.write_all(&work.write)?;
        self.index.set_root(*target);
        let removed = work.remove.keys().filter(|path| !work.write.contains_key(*path)).count();
        Ok(Materialised { written: work.write.len(), removed })
    }

    /// What is there, and what must happen to it. The state that the folder was at may be gone by now: a chat went on elsewhere, and somebody
    /// collected what nothing named. Then the folder is as one of which nothing is known.
    fn look_and_plan(&mut self, target: &ContentHash, nodes: &impl Nodes) -> Result<(Walk, Work), CasError> {
        let walk = self.look_into_all()?;
        match self.plan(target, &walk, nodes) {
            Err(CasError::Node(NodeError::Missing { .. })) if self.index.root().is_some_and(|root| root != *target) => {
                self.forget();
                let walk = self.look_into_all()?;
                let work = self.plan(target, &walk, nodes)?;
                Ok((walk, work))
            }
            planned => Ok((walk, planned?)),
        }
    }

    /// Looks at everything; folders that a tool locked are opened up, because what is in them is to go or to stay.
    fn look_into_all(&mut self) -> Result<Walk, CasError> {
        let mut walk = self.look()?;
        while let Some(folder) = walk.closed.last().cloned() {
            let closed = walk.closed;
            for path in &closed {
                self.folder.open_up(path).map_err(self.folder.failed(path))?;
            }
            walk = self.look()?;
            if walk.closed == closed {
                return Err(self.folder.failed(&folder)(Errno::ACCESS));
            }
        }
        Ok(walk)
    }

    /// Says that the folder is one state again.
    pub fn settle(&mut self) -> Result<(), CasError> {
        let marker = self.home.join(TRANSITION);
        disk::remove(&marker).map_err(CasError::at(&marker))
    }

    fn plan(&mut self, target: &ContentHash, walk: &Walk, nodes: &impl Nodes) -> Result<Work, CasError> {
        // Every path about which something is to be decided, with what is wanted there.
        let mut wanted: BTreeMap<WorkPath, Option<Entry>> = BTreeMap::new();
        let on_disk: BTreeMap<&WorkPath, &Stat> = walk.found.iter().map(|(path, stat)| (path, stat)).collect();
        match self.index.root() {
            Some(root) => {
                for change in tree::diff(&root, target, nodes)? {
                    wanted.insert(change.path, change.after);
                }
                let strange = walk.found.iter().filter(|(path, stat)| !self.is_known(path, stat)).map(|(path, _)| path);
                let looked_at = self.index.within(walk.regions.as_ref()).map(|(path, _)| path);
                let missing = looked_at.filter(|path| !on_disk.contains_key(path));
                for path in strange.chain(missing) {
                    if !wanted.contains_key(path) {
                        wanted.insert(path.clone(), tree::find(target, path.as_str(), nodes)?);
                    }
                }
            }
            None => {
                self.index.files.retain(|path, _| on_disk.contains_key(path));
                wanted.extend(walk.found.iter().map(|(path, _)| (path.clone(), None)));
                wanted.extend(tree::entries(target, nodes)?.into_iter().map(|(path, entry)| (path, Some(entry))));
            }
        }
        let mut work = Work::default();
        for (path, want) in wanted {
            // What was not looked at has not changed: it is what is known of it.
            let unlooked = || self.index.files.get(&path).map(|known| known.stat).filter(|_| !walk.covers(&path));
            let stat = on_disk.get(&path).map(|stat| **stat).or_else(unlooked);
            if let (Some(entry), Some(stat)) = (want, stat.as_ref())
                && self.has(&path, stat, &entry)?
            {
                continue;
            }
            if let Some(stat) = stat {
                work.remove.insert(path.clone(), stat.kind() == Some(Kind::Folder));
            } else if want.is_none() {
                self.index.files.remove(&path);
            }
            if let Some(entry) = want {
                work.write.insert(path, entry);
            }
        }
        Ok(work)
    }

    fn is_known(&self, path: &WorkPath, stat: &Stat) -> bool {
        self.index.files.get(path).is_some_and(|known| known.holds(stat))
    }

    /// Whether the file on disk is what is wanted. One that was changed a moment before it was last read must be read again
    /// to know; that is still cheaper than to write it.
    fn has(&mut self, path: &WorkPath, stat: &Stat, want: &Entry) -> Result<bool, CasError> {
        let Some(known) = self.index.files.get(path).copied().filter(|known| known.entry == *want) else {
            return Ok(false);
        };
        if known.holds(stat) || !known.may_hold(stat) {
            return Ok(known.holds(stat));
        }
        let Some(again) = self.look_again(path, stat)? else { return Ok(false) };
        let same = again.entry == *want;
        if same {
            self.index.files.insert(path.clone(), again);
        }
        Ok(same)
    }

    /// Removes what is in the way, and then the folders that are left empty.
    fn remove_all(&mut self, work: &Work, walk: &Walk) -> Result<(), CasError> {
        let mut folders: BTreeSet<String> = BTreeSet::new();
        let mut leave = |parent: &str| {
            let mut parent = parent;
            while !parent.is_empty() && folders.insert(parent.to_owned()) {
                parent = parent.rsplit_once('/').map_or("", |(above, _)| above);
            }
        };
        for (path, is_folder) in &work.remove {
            let parent = path.parent().unwrap_or_default();
            match self.folder.remove(parent, path.name().as_bytes(), *is_folder) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(self.folder.failed(path.as_str())(error)),
            }
            self.index.files.remove(path);
            leave(parent);
        }
        for (parent, name, _) in &walk.odd {
            use std::os::unix::ffi::OsStrExt;
            // It may be a folder whose name we cannot keep: with whatever is in it.
            match self.folder.remove_all(parent, name.as_bytes()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(self.folder.failed(parent)(error)),
            }
            leave(parent);
        }
        // Backwards, so that a folder comes behind those in it.
        for path in folders.iter().rev() {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            match self.folder.remove(parent, name.as_bytes(), true) {
                Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(self.folder.failed(path)(error)),
            }
        }
        Ok(())
    }

    fn write_all(&mut self, wanted: &BTreeMap<WorkPath, Entry>) -> Result<(), CasError> {
        let parents: BTreeSet<&str> = wanted.keys().filter_map(|path| path.parent()).collect();
        for parent in parents {
            self.folder.create_folder(parent).map_err(self.folder.failed(parent))?;
        }
        let all: Vec<(&WorkPath, &Entry)> = wanted.iter().collect();
        let written = Mutex::new(Vec::with_capacity(all.len()));
        let batches: Vec<&[(&WorkPath, &Entry)]> = all.chunks(64).collect();
        parallel::run(
            batches,
            || (),
            |batch, (), _| {
                let mut done = Vec::with_capacity(batch.len());
                for (path, entry) in batch {
                    done.push(((*path).clone(), self.write_one(path, entry)?));
                }
                written.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut done);
                Ok::<_, CasError>(())
            },
        )?;
        self.index.files.extend(written.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner));
        Ok(())
    }

    fn write_one(&self, path: &WorkPath, entry: &Entry) -> Result<Known, CasError> {
        let failed = self.folder.failed(path.as_str());
        let written_at = now();
        let stat = match entry.kind {
            Kind::Folder => {
                self.folder.create_folder(path.as_str()).map_err(&failed)?;
                self.folder.stat(path).map_err(&failed)?
            }
            Kind::Link => {
                self.folder.create_link(path, &self.blobs.read(&entry.hash)?).map_err(&failed)?;
                self.folder.stat(path).map_err(&failed)?
            }
            Kind::File | Kind::Executable => {
                let create = || self.folder.create(path, entry.kind == Kind::Executable);
                let file = match create() {
                    // Something that is ignored is in the way, and so was not looked at.
                    Err(Errno::EXIST) => {
                        let parent = path.parent().unwrap_or_default();
                        self.folder.remove(parent, path.name().as_bytes(), false).and_then(|()| create())
                    }
                    done => done,
                };
                let file = file.map_err(&failed)?;
                self.blobs.copy_to(&entry.hash, &file)?;
                Stat::from(&rustix::fs::fstat(&file).map_err(&failed)?)
            }
        };
        Ok(Known::new(stat, *entry, written_at))
    }
}
