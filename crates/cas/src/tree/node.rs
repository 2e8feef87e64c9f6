//! One node, and how it is written: paths share what they have in common with the one before, numbers take as few bytes
//! as they need. What is read is checked, since it may come from a damaged disk.

use kitbag_model::{ContentHash, WorkPath};

use super::{Entry, Kind};

/// A part of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Node {
    /// Entries.
    Leaf(Vec<(WorkPath, Entry)>),
    /// Other nodes.
    Inner {
        /// How far above the leaves: 1 for one whose children are leaves.
        level: u8,
        /// The nodes below it, in the order of their paths.
        children: Vec<Child>,
    },
}

/// A node as the one above it knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Child {
    /// The last path below it.
    pub last: WorkPath,
    /// Its name.
    pub hash: ContentHash,
    /// How many entries are below it.
    pub entries: u64,
    /// How many bytes their contents have.
    pub bytes: u64,
}

/// Why a node is not there.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NodeError {
    /// Nobody has it.
    #[error("the tree node {hash} is missing")]
    Missing {
        /// Its name.
        hash: ContentHash,
    },
    /// What is kept under its name is something else.
    #[error("the tree node {hash} is damaged: {reason}")]
    Damaged {
        /// Its name.
        hash: ContentHash,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Where nodes are kept failed.
    #[error("the tree node {hash} cannot be read: {reason}")]
    Unreadable {
        /// Its name.
        hash: ContentHash,
        /// What the keeper said.
        reason: String,
    },
}

/// The most zero bits a hash can have makes for no more levels than this.
const MOST_LEVELS: u8 = 16;

impl Node {
    /// How far above the leaves it is.
    pub fn level(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Inner { level, .. } => *level,
        }
    }

    /// How many entries are below it, and how many bytes their contents have.
    pub fn totals(&self) -> (u64, u64) {
        match self {
            Self::Leaf(entries) => (entries.len() as u64, entries.iter().map(|(_, entry)| entry.size).sum()),
            Self::Inner { children, .. } => {
                children.iter().fold((0, 0), |(entries, bytes), child| (entries + child.entries, bytes + child.bytes))
            }
        }
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.level()];
        let mut before = "";
        match self {
            Self::Leaf(entries) => {
                put_number(&mut out, entries.len() as u64);
                for (path, entry) in entries {
                    put_path(&mut out, before, path.as_str());
                    before = path.as_str();
                    out.push(entry.kind as u8);
                    put_number(&mut out, entry.size);
                    out.extend(entry.hash.as_bytes());
                }
            }
            Self::Inner { children, .. } => {
                put_number(&mut out, children.len() as u64);
                for child in children {
                    put_path(&mut out, before, child.last.as_str());
                    before = child.last.as_str();
                    put_number(&mut out, child.entries);
                    put_number(&mut out, child.bytes);
                    out.extend(child.hash.as_bytes());
                }
            }
        }
        out
    }

    /// Reads what [`Node::encode`] wrote, if it is what its name says.
    pub fn decode(hash: &ContentHash, bytes: &[u8]) -> Result<Self, NodeError> {
        let damaged = |reason| NodeError::Damaged { hash: *hash, reason };
        if ContentHash::of(bytes) != *hash {
            return Err(damaged("its content has another hash"));
        }
        let mut input = Input(bytes);
        let node = input.node().ok_or_else(|| damaged("it is not written as a node"))?;
        if input.0.is_empty() { Ok(node) } else { Err(damaged("something follows it")) }
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_path(out: &mut Vec<u8>, before: &str, path: &str) {
    let shared = before.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
    put_number(out, shared as u64);
    put_number(out, (path.len() - shared) as u64);
    out.extend(&path.as_bytes()[shared..]);
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn hash(&mut self) -> Option<ContentHash> {
        self.take(32)?.try_into().ok().map(ContentHash::from_bytes)
    }

    fn path(&mut self, before: &[u8]) -> Option<WorkPath> {
        let (shared, rest) = (self.number()?, self.number()?);
        let mut bytes = before.get(..usize::try_from(shared).ok()?)?.to_vec();
        bytes.extend(self.take(usize::try_from(rest).ok()?)?);
        String::from_utf8(bytes).ok()?.parse().ok()
    }

    fn node(&mut self) -> Option<Node> {
        let level = self.byte().filter(|level| *level <= MOST_LEVELS)?;
        let count = self.number()?;
        let mut before: Option<WorkPath> = None;
        let mut next = |input: &mut Self| {
            let path = input.path(before.as_ref().map_or(&[], |path| path.as_str().as_bytes()))?;
            // Sorted, and none twice.
            if before.as_ref().is_some_and(|before| *before >= path) {
                return None;
            }
            before = Some(path.clone());
            Some(path)
        };
        if level == 0 {
            let mut entry = || {
                let path = next(self)?;
                let kind = match self.byte()? {
                    0 => Kind::File,
                    1 => Kind::Executable,
                    2 => Kind::Link,
                    3 => Kind::Folder,
                    _ => return None,
                };
                Some((path, Entry { kind, size: self.number()?, hash: self.hash()? }))
            };
            return (0..count).map(|_| entry()).collect::<Option<_>>().map(Node::Leaf);
        }
        let mut child = || {
            let last = next(self)?;
            Some(Child { last, entries: self.number()?, bytes: self.number()?, hash: self.hash()? })
        };
        let children = (0..count).map(|_| child()).collect::<Option<_>>()?;
        Some(Node::Inner { level, children })
    }
}
