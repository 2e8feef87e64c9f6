//! What is known of what is kept elsewhere: keys, and which blob lies where.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use kitbag_model::ContentHash;

use super::super::pack::Rows;

/// A key, as it is written: below the generation that it was written in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    /// A blob.
    Loose(u64, ContentHash),
    /// Many of them, under the hash of their index.
    Pack(u64, ContentHash),
    /// That index.
    Index(u64, ContentHash),
}

/// Where a blob lies.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Place {
    Loose(u64, ContentHash),
    Pack(u64, ContentHash),
}

impl Place {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Loose(generation, hash) => Key::Loose(*generation, *hash),
            Self::Pack(generation, name) => Key::Pack(*generation, *name),
        }
    }
}

impl Key {
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Loose(generation, _) | Self::Pack(generation, _) | Self::Index(generation, _) => *generation,
        }
    }

    pub(super) fn pack(&self) -> Option<(u64, ContentHash)> {
        if let Self::Pack(generation, name) = self { Some((*generation, *name)) } else { None }
    }

    pub(super) fn index(&self) -> Option<(u64, ContentHash)> {
        if let Self::Index(generation, name) = self { Some((*generation, *name)) } else { None }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loose(generation, hash) => write!(f, "g{generation}/blobs/{hash}"),
            Self::Pack(generation, name) => write!(f, "g{generation}/packs/{name}.pack"),
            Self::Index(generation, name) => write!(f, "g{generation}/packs/{name}.index"),
        }
    }
}

impl FromStr for Key {
    type Err = ();

    /// What is not ours has no meaning, and is left alone.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let (Some(generation), Some(kind), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let generation = generation.strip_prefix('g').and_then(|number| number.parse().ok()).ok_or(())?;
        let hash = |text: &str| text.parse::<ContentHash>().map_err(|_| ());
        match (kind, name.rsplit_once('.')) {
            ("blobs", None) => Ok(Self::Loose(generation, hash(name)?)),
            ("packs", Some((name, "pack"))) => Ok(Self::Pack(generation, hash(name)?)),
            ("packs", Some((name, "index"))) => Ok(Self::Index(generation, hash(name)?)),
            _ => Err(()),
        }
    }
}

/// What is known.
pub(super) struct Known {
    /// The generation that is written into.
    pub(super) generation: u64,
    /// What rows name, and so stays.
    pub(super) kept: HashSet<ContentHash>,
    /// When everything was last looked for.
    pub(super) listed_at: Option<Instant>,
    /// Each blob that lies by itself, with the newest generation that it lies in.
    loose: HashMap<ContentHash, u64>,
    /// What is in which pack.
    pub(super) packs: HashMap<(u64, ContentHash), Rows>,
    packed: HashMap<ContentHash, (u64, ContentHash)>,
}

impl Known {
    pub(super) fn new(generation: u64) -> Self {
        Self {
            generation,
            kept: HashSet::new(),
            listed_at: None,
            loose: HashMap::new(),
            packs: HashMap::new(),
            packed: HashMap::new(),
        }
    }

    /// Whether a writer may take it for granted that a blob is there.
    pub(super) fn is_relied_on(&self, hash: &ContentHash) -> bool {
        let is_new = |generation: u64| generation == self.generation;
        self.kept.contains(hash)
            || self.loose.get(hash).is_some_and(|generation| is_new(*generation))
            || self.packed.get(hash).is_some_and(|(generation, _)| is_new(*generation))
    }

    /// Where a blob lies. By itself is better: it may stand in for one that is damaged in its pack.
    pub(super) fn place(&self, hash: &ContentHash) -> Option<Place> {
        let loose = self.loose.get(hash).map(|generation| Place::Loose(*generation, *hash));
        loose.or_else(|| self.packed.get(hash).map(|(generation, name)| Place::Pack(*generation, *name)))
    }

    /// All blobs.
    pub(super) fn all(&self) -> Vec<ContentHash> {
        let mut all: Vec<ContentHash> = self.loose.keys().chain(self.packed.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn add_loose(&mut self, generation: u64, hash: ContentHash) {
        let newest = self.loose.entry(hash).or_default();
        *newest = generation.max(*newest);
    }

    pub(super) fn add_pack(&mut self, generation: u64, name: ContentHash, rows: Rows) {
        for (hash, _) in &rows {
            let newest = self.packed.entry(*hash).or_insert((generation, name));
            if generation >= newest.0 {
                *newest = (generation, name);
            }
        }
        self.packs.insert((generation, name), rows);
    }

    /// Nothing is known any more of what lies where.
    pub(super) fn forget_places(&mut self) {
        let (generation, kept) = (self.generation, std::mem::take(&mut self.kept));
        *self = Self { kept, ..Self::new(generation) };
    }

    /// This is all that there is: these keys, and of the packs those whose index is known or comes with them.
    pub(super) fn replace(
        &mut self,
        keys: &[Key],
        packs: &HashSet<(u64, ContentHash)>,
        read: Vec<((u64, ContentHash), Rows)>,
        now: Instant,
    ) {
        let mut indexes = std::mem::take(&mut self.packs);
        indexes.extend(read);
        self.forget_places();
        self.listed_at = Some(now);
        for key in keys {
            if let Key::Loose(generation, hash) = key {
                self.add_loose(*generation, *hash);
            }
        }
        for ((generation, name), rows) in indexes.into_iter().filter(|(pack, _)| packs.contains(pack)) {
            self.add_pack(generation, name, rows);
        }
    }
}
