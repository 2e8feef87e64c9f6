//! The tree of a state: a sorted map from path to [`Entry`], cut into nodes.
//!
//! Where the cuts are follows from the paths alone: a path whose hash ends in enough zero bits ends its node, with more
//! zero bits also the node above, and so on. So one set of paths has one shape, however it came about; a changed file
//! changes one node on each level; and a folder with 10,000 files is no different from a thousand folders with ten.

mod build;
mod diff;
mod edit;
mod node;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use kitbag_model::{ContentHash, WorkPath};

pub use diff::{Change, diff};
pub use node::{Node, NodeError};

/// What a path of a workspace is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// A file.
    File,
    /// A file that may be executed.
    Executable,
    /// A symbolic link; its content is where it points.
    Link,
    /// A folder with nothing in it. Folders with something in them are not kept: their content shows them.
    Folder,
}

/// What a path has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// How many bytes its content has.
    pub size: u64,
    /// The hash of its content.
    pub hash: ContentHash,
}

impl Entry {
    /// An empty folder.
    pub fn folder() -> Self {
        Self { kind: Kind::Folder, size: 0, hash: ContentHash::of(b"") }
    }
}

/// Where nodes are kept.
pub trait Nodes {
    /// The node of this name.
    fn node(&self, hash: &ContentHash) -> Result<Arc<Node>, NodeError>;
}

/// A state: the name of its top node, and the nodes that were made for it.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The name of the top node. It stands for the whole state.
    pub root: ContentHash,
    /// What must be kept for it and may not be there yet.
    pub new_nodes: Vec<(ContentHash, Vec<u8>)>,
}

/// The tree of nothing.
pub fn empty() -> Tree {
    build::empty()
}

/// The tree of these entries.
pub fn build(entries: &BTreeMap<WorkPath, Entry>) -> Tree {
    build::build(entries)
}

/// The tree that follows from `root` when these paths are set or taken away. It costs with the number of edits.
pub fn edit(
    root: &ContentHash,
    edits: &BTreeMap<WorkPath, Option<Entry>>,
    nodes: &impl Nodes,
) -> Result<Tree, NodeError> {
    edit::edit(root, edits, nodes)
}

/// The entry of one path.
pub fn find(root: &ContentHash, path: &str, nodes: &impl Nodes) -> Result<Option<Entry>, NodeError> {
    let mut node = nodes.node(root)?;
    loop {
        let child = match &*node {
            Node::Leaf(entries) => {
                let found = entries.binary_search_by(|(key, _)| key.as_str().cmp(path)).ok();
                return Ok(found.map(|index| entries[index].1));
            }
            Node::Inner { children, .. } => {
                let index = children.partition_point(|child| child.last.as_str() < path);
                match children.get(index) {
                    Some(child) => child.hash,
                    None => return Ok(None),
                }
            }
        };
        node = nodes.node(&child)?;
    }
}

/// All entries, in the order of their paths.
pub fn entries(root: &ContentHash, nodes: &impl Nodes) -> Result<Vec<(WorkPath, Entry)>, NodeError> {
    let mut all = Vec::new();
    walk(root, nodes, &mut |node| {
        if let Node::Leaf(entries) = node {
            all.extend(entries.iter().cloned());
        }
    })?;
    Ok(all)
}

/// Shows every node below `root`, and it, to `visit`.
pub fn walk(root: &ContentHash, nodes: &impl Nodes, visit: &mut impl FnMut(&Node)) -> Result<(), NodeError> {
    let node = nodes.node(root)?;
    visit(&node);
    if let Node::Inner { children, .. } = &*node {
        for child in children {
            walk(&child.hash, nodes, visit)?;
        }
    }
    Ok(())
}

/// How many entries a state has, and how many bytes their contents, without looking at them.
pub fn totals(root: &ContentHash, nodes: &impl Nodes) -> Result<(u64, u64), NodeError> {
    Ok(nodes.node(root)?.totals())
}

/// Nodes in memory: what is being worked with, or a test's whole store.
#[derive(Default)]
pub struct NodeMap(Mutex<HashMap<ContentHash, Arc<Node>>>);

impl NodeMap {
    /// Takes nodes in.
    pub fn add(&self, nodes: &[(ContentHash, Vec<u8>)]) -> Result<(), NodeError> {
        let mut map = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (hash, bytes) in nodes {
            map.insert(*hash, Arc::new(Node::decode(hash, bytes)?));
        }
        Ok(())
    }
}

impl Nodes for NodeMap {
    fn node(&self, hash: &ContentHash) -> Result<Arc<Node>, NodeError> {
        let map = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        map.get(hash).cloned().ok_or(NodeError::Missing { hash: *hash })
    }
}

#[cfg(test)]
mod tests;
