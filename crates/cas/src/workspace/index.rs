//! What is known of the files on disk: the content that each had when it was last read, and the times that show whether it
//! still has it. A cache: losing it costs time and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;

use kitbag_model::{ContentHash, WorkPath};

use super::folder::Stat;
use crate::disk::Temporary;
use crate::error::CasError;
use crate::tree::{Entry, Kind};

/// Coarser than the clock of any file system we know: two changes within it may leave the same times.
const TICK: i128 = 10_000_000;

/// What is known of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) stat: Stat,
    pub(super) entry: Entry,
    /// It was changed so shortly before it was read that another change could leave the same times.
    racy: bool,
}

impl Known {
    /// A file that was read at the time `read_at`, when it had these times.
    pub(super) fn new(stat: Stat, entry: Entry, read_at: i128) -> Self {
        Self { stat, entry, racy: stat.changed + TICK >= read_at }
    }

    /// Whether a file with these times has the content that is known.
    pub(super) fn holds(&self, stat: &Stat) -> bool {
        self.stat == *stat && !self.racy
    }

    /// Whether it probably has, and only reading it can tell.
    pub(super) fn may_hold(&self, stat: &Stat) -> bool {
        self.stat == *stat
    }
}

/// All that is known.
#[derive(Default)]
pub(super) struct Index {
    pub(super) files: BTreeMap<WorkPath, Known>,
    root: Option<ContentHash>,
    /// The generation of blobs that the files' content was relied on in when it was saved, where there are any.
    pub(super) generation: Option<u64>,
}

impl Index {
    /// The state that the known files make up.
    pub(super) fn root(&self) -> Option<ContentHash> {
        self.root
    }

    pub(super) fn set_root(&mut self, root: ContentHash) {
        self.root = Some(root);
    }

    /// What is known of the files in these parts of the folder (each path with everything below it, or it alone), in order;
    /// of all files, if no parts are given.
    pub(super) fn within<'a>(
        &'a self,
        regions: Option<&'a BTreeMap<String, bool>>,
    ) -> Box<dyn Iterator<Item = (&'a WorkPath, &'a Known)> + 'a> {
        let Some(regions) = regions else { return Box::new(self.files.iter()) };
        let mut found: BTreeMap<&WorkPath, &Known> = BTreeMap::new();
        for (path, with_below) in regions {
            found.extend(self.files.get_key_value(path.as_str()));
            if *with_below {
                let below = format!("{path}/");
                let from = self.files.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded));
                found.extend(from.take_while(|(known, _)| known.as_str().starts_with(&below)));
            }
        }
        Box::new(found.into_iter())
    }

    /// The folder may be anything now. What is known of single files is still good: their times speak for them.
    pub(super) fn forget_state(&mut self) {
        self.root = None;
    }

    /// What was saved; nothing if it cannot be read or the machine was started anew since: after a power cut a file may
    /// have the times and not the content.
    pub(super) fn load(path: &Path) -> Self {
        fs::read(path).ok().and_then(|bytes| decode(&bytes)).unwrap_or_default()
    }

    pub(super) fn save(&self, path: &Path, temporary_folder: &Path) -> Result<(), CasError> {
        let temporary = Temporary::create(temporary_folder.join("index"), 0o644)?;
        temporary.write(&encode(self))?;
        temporary.place(path)
    }
}

/// The time of the clock that file systems use.
pub(super) fn now() -> i128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Which start of the machine this is.
pub(super) fn boot_id() -> [u8; 32] {
    *ContentHash::of(&fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()).as_bytes()
}

const MAGIC: &[u8; 8] = b"kitbagi3";

fn encode(index: &Index) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + index.files.len() * 160);
    out.extend(MAGIC);
    out.extend(boot_id());
    out.push(u8::from(index.root.is_some()));
    out.extend(index.root.map_or([0; 32], |root| *root.as_bytes()));
    out.push(u8::from(index.generation.is_some()));
    out.extend(index.generation.unwrap_or_default().to_le_bytes());
    for (path, known) in &index.files {
        out.extend((path.as_str().len() as u16).to_le_bytes());
        out.extend(path.as_str().as_bytes());
        out.extend([known.entry.kind as u8, u8::from(known.racy)]);
        out.extend(known.entry.size.to_le_bytes());
        out.extend(known.entry.hash.as_bytes());
        out.extend(known.stat.inode.to_le_bytes());
        out.extend(known.stat.size.to_le_bytes());
        out.extend(known.stat.mode.to_le_bytes());
        out.extend(known.stat.links.to_le_bytes());
        out.extend(known.stat.modified.to_le_bytes());
        out.extend(known.stat.changed.to_le_bytes());
    }
    let hash = ContentHash::of(&out);
    out.extend(hash.as_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<Index> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if ContentHash::of(body).as_bytes() != hash {
        return None;
    }
    let mut input = body.strip_prefix(MAGIC)?.strip_prefix(&boot_id())?;
    let has_root = take::<1>(&mut input)?[0] == 1;
    let root = ContentHash::from_bytes(take::<32>(&mut input)?);
    let has_generation = take::<1>(&mut input)?[0] == 1;
    let generation = u64::from_le_bytes(take(&mut input)?);
    let mut files = BTreeMap::new();
    while !input.is_empty() {
        let length = usize::from(u16::from_le_bytes(take(&mut input)?));
        let (path, rest) = input.split_at_checked(length)?;
        input = rest;
        let path: WorkPath = std::str::from_utf8(path).ok()?.parse().ok()?;
        let [kind, racy] = take::<2>(&mut input)?;
        let kind =
            [Kind::File, Kind::Executable, Kind::Link, Kind::Folder].into_iter().find(|known| *known as u8 == kind)?;
        let size = u64::from_le_bytes(take(&mut input)?);
        let hash = ContentHash::from_bytes(take(&mut input)?);
        let stat = Stat {
            inode: u64::from_le_bytes(take(&mut input)?),
            size: u64::from_le_bytes(take(&mut input)?),
            mode: u32::from_le_bytes(take(&mut input)?),
            links: u64::from_le_bytes(take(&mut input)?),
            modified: i128::from_le_bytes(take(&mut input)?),
            changed: i128::from_le_bytes(take(&mut input)?),
        };
        files.insert(path, Known { stat, entry: Entry { kind, size, hash }, racy: racy == 1 });
    }
    Some(Index { files, root: has_root.then_some(root), generation: has_generation.then_some(generation) })
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*taken)
}
