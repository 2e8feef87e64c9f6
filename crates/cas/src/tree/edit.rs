//! Changes a tree by touching only the nodes that the changed paths are in.
//!
//! Each level is a sorted list cut into nodes. Changed entries change some nodes of the lowest level; what changed about
//! those nodes is a set of edits, by their last paths, to the list above; and so on to the top.

use std::collections::BTreeMap;
use std::sync::Arc;

use kitbag_model::{ContentHash, WorkPath};

use super::build::{Item, cut, empty, ends, raise};
use super::node::{Child, Node, NodeError};
use super::{Entry, Nodes, Tree};

type Edits<I> = BTreeMap<WorkPath, Option<I>>;
type Made = Vec<(ContentHash, Vec<u8>)>;

pub(super) fn edit(
    root: &ContentHash,
    edits: &BTreeMap<WorkPath, Option<Entry>>,
    nodes: &impl Nodes,
) -> Result<Tree, NodeError> {
    let top = nodes.node(root)?;
    let mut made = Made::new();
    let entries: Edits<(WorkPath, Entry)> =
        edits.iter().map(|(path, entry)| (path.clone(), entry.map(|entry| (path.clone(), entry)))).collect();
    let old = OldTree { top: &top, root: *root, nodes };
    let mut level = 0;
    let mut above = old.apply(level, &entries, &mut made)?;
    while level < top.level() {
        level += 1;
        above = old.apply(level, &above, &mut made)?;
    }
    // The old top was one node; what it became is now the whole list above it.
    let children: Vec<Child> = above.into_values().flatten().collect();
    if children.is_empty() {
        return Ok(if edits.is_empty() { Tree { root: *root, new_nodes: Vec::new() } } else { empty() });
    }
    shrink(raise(level, children, made), nodes)
}

/// A top node with one child is not the lowest that stands for everything: the child is.
fn shrink(mut tree: Tree, nodes: &impl Nodes) -> Result<Tree, NodeError> {
    loop {
        let made = tree.new_nodes.iter().find(|(hash, _)| *hash == tree.root);
        let node = match made {
            Some((hash, bytes)) => Arc::new(Node::decode(hash, bytes)?),
            None => nodes.node(&tree.root)?,
        };
        match &*node {
            Node::Inner { children, .. } if children.len() == 1 => {
                tree.new_nodes.retain(|(hash, _)| *hash != tree.root);
                tree.root = children[0].hash;
            }
            _ => return Ok(tree),
        }
    }
}

struct OldTree<'a, N> {
    top: &'a Arc<Node>,
    root: ContentHash,
    nodes: &'a N,
}

impl<N: Nodes> OldTree<'_, N> {
    /// Applies edits to the list of one level. The edits to the list above that follow.
    fn apply<I: Item>(&self, level: u8, edits: &Edits<I>, made: &mut Made) -> Result<Edits<Child>, NodeError> {
        let mut above = Edits::new();
        let mut waiting = edits.iter().peekable();
        while let Some((first, _)) = waiting.peek() {
            // A run of nodes that are made anew: it begins with the node that the first edit is in, and goes on while
            // its last path does not end a node any more.
            let mut run: Vec<I> = Vec::new();
            let mut next = self.node_of(level, first, false)?;
            while let Some((node, last_path, is_last)) = next {
                let old = I::items(&node).unwrap_or_default();
                let is_here = |key: &WorkPath| is_last || last_path.as_ref().is_some_and(|last| key <= last);
                let edits_here = std::iter::from_fn(|| waiting.next_if(|(key, _)| is_here(key)));
                merge(old, edits_here, &mut run);
                let Some(last_path) = last_path else { break };
                let closed = run.last().is_none_or(|item| ends(item.key()) > level);
                next = if closed || is_last { None } else { self.node_of(level, &last_path, true)? };
                above.insert(last_path, None);
            }
            for child in cut(level, run, made) {
                above.insert(child.last.clone(), Some(child));
            }
        }
        Ok(above)
    }

    /// The node of a level whose range holds `key` (or, with `behind`, the first one that ends behind it), its last path,
    /// and whether it is the last node of its level. Keys behind everything are in the last node's range.
    fn node_of(&self, level: u8, key: &WorkPath, behind: bool) -> Result<Option<Found>, NodeError> {
        let mut node = Arc::clone(self.top);
        let mut last_path = last_of(&node);
        let mut is_last = true;
        debug_assert!(node.level() >= level, "edits never rise above the old top {}", self.root);
        while node.level() > level {
            let Node::Inner { children, .. } = &*node else { return Ok(None) };
            let before = |child: &Child| if behind { child.last <= *key } else { child.last < *key };
            let index = children.partition_point(before).min(children.len().saturating_sub(1));
            let Some(child) = children.get(index) else { return Ok(None) };
            is_last &= index + 1 == children.len();
            last_path = Some(child.last.clone());
            node = self.nodes.node(&child.hash)?;
        }
        Ok(Some((node, last_path, is_last)))
    }
}

/// Puts sorted items and sorted edits to them together.
fn merge<'e, I: Item + 'e>(old: &[I], edits: impl Iterator<Item = (&'e WorkPath, &'e Option<I>)>, run: &mut Vec<I>) {
    let mut old = old.iter().peekable();
    for (key, edit) in edits {
        while let Some(item) = old.next_if(|item| item.key() < key) {
            run.push(item.clone());
        }
        old.next_if(|item| item.key() == key);
        run.extend(edit.clone());
    }
    run.extend(old.cloned());
}

type Found = (Arc<Node>, Option<WorkPath>, bool);

fn last_of(node: &Node) -> Option<WorkPath> {
    match node {
        Node::Leaf(entries) => entries.last().map(|(path, _)| path.clone()),
        Node::Inner { children, .. } => children.last().map(|child| child.last.clone()),
    }
}
