//! What differs between two states. Nodes that both have are not looked into, so it costs with what differs.

use std::cmp::Ordering;
use std::sync::Arc;

use kitbag_model::{ContentHash, WorkPath};

use super::node::{Child, Node, NodeError};
use super::{Entry, Nodes};

/// One path that differs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Which.
    pub path: WorkPath,
    /// What it was; none if it is new.
    pub before: Option<Entry>,
    /// What it is; none if it is gone.
    pub after: Option<Entry>,
}

/// The paths that differ, in order.
pub fn diff(before: &ContentHash, after: &ContentHash, nodes: &impl Nodes) -> Result<Vec<Change>, NodeError> {
    let mut changes = Vec::new();
    if before == after {
        return Ok(changes);
    }
    let mut old = Cursor::at(before, nodes)?;
    let mut new = Cursor::at(after, nodes)?;
    loop {
        match (old.peek(), new.peek()) {
            (Some(Part::Node(level, a)), Some(Part::Node(same, b))) if level == same && a.hash == b.hash => {
                old.skip();
                new.skip();
            }
            // The higher one is opened first, so that equal nodes meet on their level.
            (Some(Part::Node(a, _)), Some(Part::Node(b, _))) => {
                if a >= b {
                    old.open(nodes)?;
                }
                if b >= a {
                    new.open(nodes)?;
                }
            }
            (Some(Part::Node(..)), _) => old.open(nodes)?,
            (_, Some(Part::Node(..))) => new.open(nodes)?,
            (Some(Part::Entry(a, was)), Some(Part::Entry(b, is))) => {
                let order = a.cmp(b);
                let path = if order == Ordering::Greater { b.clone() } else { a.clone() };
                let (before, after) =
                    ((order != Ordering::Greater).then_some(*was), (order != Ordering::Less).then_some(*is));
                if before.is_some() {
                    old.skip();
                }
                if after.is_some() {
                    new.skip();
                }
                if before != after {
                    changes.push(Change { path, before, after });
                }
            }
            (Some(Part::Entry(path, was)), None) => {
                changes.push(Change { path: path.clone(), before: Some(*was), after: None });
                old.skip();
            }
            (None, Some(Part::Entry(path, is))) => {
                changes.push(Change { path: path.clone(), before: None, after: Some(*is) });
                new.skip();
            }
            (None, None) => return Ok(changes),
        }
    }
}

/// A place in a tree: the nodes that are open, each with what comes next in it.
struct Cursor {
    open: Vec<(Arc<Node>, usize)>,
}

enum Part<'a> {
    /// A node that is not open, with its level.
    Node(u8, &'a Child),
    Entry(&'a WorkPath, &'a Entry),
}

impl Cursor {
    fn at(root: &ContentHash, nodes: &impl Nodes) -> Result<Self, NodeError> {
        Ok(Self { open: vec![(nodes.node(root)?, 0)] })
    }

    fn peek(&self) -> Option<Part<'_>> {
        let (node, index) = self.open.last()?;
        match &**node {
            Node::Leaf(entries) => entries.get(*index).map(|(path, entry)| Part::Entry(path, entry)),
            Node::Inner { level, children } => children.get(*index).map(|child| Part::Node(level - 1, child)),
        }
    }

    /// Goes on behind what comes next.
    fn skip(&mut self) {
        if let Some((_, index)) = self.open.last_mut() {
            *index += 1;
        }
        self.leave();
    }

    /// Goes into the node that comes next.
    fn open(&mut self, nodes: &impl Nodes) -> Result<(), NodeError> {
        if let Some(Part::Node(_, child)) = self.peek() {
            let node = nodes.node(&child.hash)?;
            if let Some((_, index)) = self.open.last_mut() {
                *index += 1;
            }
            self.open.push((node, 0));
        }
        self.leave();
        Ok(())
    }

    /// Leaves the nodes that are through.
    fn leave(&mut self) {
        while self.open.len() > 1 && self.peek().is_none() {
            self.open.pop();
        }
    }
}
