//! Cuts sorted lists into nodes.

use std::collections::BTreeMap;

use kitbag_model::{ContentHash, WorkPath};

use super::node::{Child, Node};
use super::{Entry, Tree};

/// One in 32 paths ends a node, one in 32 of those the node above. More bits make larger nodes: fewer to read, more to
/// write again for one change.
const BITS: u32 = 5;

/// Up to which level a path ends the nodes it is in: 0 for none.
pub(super) fn ends(path: &WorkPath) -> u8 {
    let hash = ContentHash::of(path.as_str().as_bytes());
    let head = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"));
    (head.trailing_zeros() / BITS) as u8
}

/// What nodes of one level are made of: entries for leaves, children above.
pub(super) trait Item: Clone {
    fn key(&self) -> &WorkPath;
    fn node(level: u8, items: Vec<Self>) -> Node;
    fn items(node: &Node) -> Option<&[Self]>;
}

impl Item for (WorkPath, Entry) {
    fn key(&self) -> &WorkPath {
        &self.0
    }

    fn node(_: u8, items: Vec<Self>) -> Node {
        Node::Leaf(items)
    }

    fn items(node: &Node) -> Option<&[Self]> {
        match node {
            Node::Leaf(entries) => Some(entries),
            Node::Inner { .. } => None,
        }
    }
}

impl Item for Child {
    fn key(&self) -> &WorkPath {
        &self.last
    }

    fn node(level: u8, items: Vec<Self>) -> Node {
        Node::Inner { level, children: items }
    }

    fn items(node: &Node) -> Option<&[Self]> {
        match node {
            Node::Inner { children, .. } => Some(children),
            Node::Leaf(_) => None,
        }
    }
}

/// Makes nodes of `level` from `items`, which begin where a node begins and end where one ends.
pub(super) fn cut<I: Item>(level: u8, items: Vec<I>, made: &mut Vec<(ContentHash, Vec<u8>)>) -> Vec<Child> {
    let mut children = Vec::new();
    let mut open = Vec::new();
    for item in items {
        let full = ends(item.key()) > level;
        open.push(item);
        if full {
            children.push(close(level, std::mem::take(&mut open), made));
        }
    }
    if !open.is_empty() {
        children.push(close(level, open, made));
    }
    children
}

fn close<I: Item>(level: u8, items: Vec<I>, made: &mut Vec<(ContentHash, Vec<u8>)>) -> Child {
    let last = items.last().expect("a node that is closed has something in it").key().clone();
    let node = I::node(level, items);
    let (entries, bytes) = node.totals();
    let encoded = node.encode();
    let hash = ContentHash::of(&encoded);
    made.push((hash, encoded));
    Child { last, hash, entries, bytes }
}

/// Puts levels on top of nodes of `level` until there is one.
pub(super) fn raise(mut level: u8, mut children: Vec<Child>, mut made: Vec<(ContentHash, Vec<u8>)>) -> Tree {
    while children.len() > 1 {
        level += 1;
        children = cut(level, children, &mut made);
    }
    match children.pop() {
        Some(root) => Tree { root: root.hash, new_nodes: made },
        None => empty(),
    }
}

/// The tree of nothing.
pub(super) fn empty() -> Tree {
    let encoded = Node::Leaf(Vec::new()).encode();
    let root = ContentHash::of(&encoded);
    Tree { root, new_nodes: vec![(root, encoded)] }
}

pub(super) fn build(entries: &BTreeMap<WorkPath, Entry>) -> Tree {
    let items: Vec<(WorkPath, Entry)> = entries.iter().map(|(path, entry)| (path.clone(), *entry)).collect();
    let mut made = Vec::new();
    let leaves = cut(0, items, &mut made);
    raise(0, leaves, made)
}
