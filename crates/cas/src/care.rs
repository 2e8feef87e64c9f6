//! Care of the store: what is still wanted, and whether all of it is there.

use std::collections::HashSet;

use kitbag_model::ContentHash;

use crate::blobs::Blobs;
use crate::error::CasError;
use crate::tree::{Kind, Node, NodeError, Nodes};

/// What a set of states needs.
#[derive(Debug, Default)]
pub struct Needed {
    /// Tree nodes.
    pub nodes: HashSet<ContentHash>,
    /// Blobs.
    pub blobs: HashSet<ContentHash>,
    /// Nodes that are not there or damaged: what is below them is not known.
    pub problems: Vec<NodeError>,
}

/// Finds what these states need. Nodes that they share are looked at once.
pub fn needed(roots: &[ContentHash], nodes: &impl Nodes) -> Needed {
    let mut needed = Needed::default();
    let mut waiting: Vec<ContentHash> = roots.to_vec();
    while let Some(hash) = waiting.pop() {
        if !needed.nodes.insert(hash) {
            continue;
        }
        match nodes.node(&hash).as_deref() {
            Ok(Node::Inner { children, .. }) => waiting.extend(children.iter().map(|child| child.hash)),
            Ok(Node::Leaf(entries)) => {
                let with_content = entries.iter().filter(|(_, entry)| entry.kind != Kind::Folder);
                needed.blobs.extend(with_content.map(|(_, entry)| entry.hash));
            }
            Err(error) => needed.problems.push(error.clone()),
        }
    }
    needed
}

/// Reads every one of these blobs. Those that are missing or damaged.
pub fn check_blobs<'a>(
    wanted: impl IntoIterator<Item = &'a ContentHash>,
    blobs: &dyn Blobs,
) -> Result<Vec<ContentHash>, CasError> {
    let mut bad = Vec::new();
    for hash in wanted {
        match blobs.verify(hash) {
            Ok(()) => {}
            Err(CasError::Missing { .. } | CasError::Corrupt { .. }) => bad.push(*hash),
            Err(error) => return Err(error),
        }
    }
    bad.sort_unstable();
    Ok(bad)
}
