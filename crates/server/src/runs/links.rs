//! The executors that are connected to this server, and what is said to them from elsewhere.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kitbag_model::run::wire::AttemptId;
use kitbag_model::{ExecutorId, Timestamp};
use tokio::sync::mpsc;

use super::choose::Standing;

/// What somebody wants of a connected executor.
#[derive(Debug)]
pub(super) enum Wish {
    /// To end an attempt.
    Cancel(AttemptId),
    /// To go away for good.
    Revoked,
    /// To be looked at again: it has another name or other labels.
    Changed,
    /// To make room for a newer connection of itself.
    Replaced,
}

/// A way to one connection. Two of one executor are told apart by their number.
struct Way {
    number: u64,
    wishes: mpsc::UnboundedSender<Wish>,
    /// How it stands with it, once it has said what it is.
    standing: Option<Standing>,
}

#[derive(Default)]
struct Known {
    ways: HashMap<ExecutorId, Way>,
    /// When those left that were connected here. What is heard of one later is heard elsewhere.
    left: HashMap<ExecutorId, Timestamp>,
    /// Counts connections, and what is given to them.
    count: u64,
}

#[derive(Default)]
pub(super) struct Links(Mutex<Known>);

impl Links {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An executor is connected. An older connection of it ends: the machine knows best which one works.
    pub(super) fn add(&self, id: ExecutorId) -> (u64, mpsc::UnboundedReceiver<Wish>) {
        let (wishes, receiver) = mpsc::unbounded_channel();
        let mut known = self.known();
        known.count += 1;
        let number = known.count;
        known.left.remove(&id);
        if let Some(older) = known.ways.insert(id, Way { number, wishes, standing: None }) {
            let _ = older.wishes.send(Wish::Replaced);
        }
        (number, receiver)
    }

    /// How many executors are connected here.
    pub(super) fn count(&self) -> usize {
        self.known().ways.len()
    }

    /// That connection is over. Whether it was the newest of its executor.
    pub(super) fn remove(&self, id: ExecutorId, number: u64) -> bool {
        let mut known = self.known();
        let is_newest = known.ways.get(&id).is_some_and(|way| way.number == number);
        if is_newest {
            known.ways.remove(&id);
            known.left.insert(id, Timestamp::now());
        }
        is_newest
    }

    /// Whether a connection is there, and no newer one of its executor.
    pub(super) fn is_newest(&self, id: ExecutorId, number: u64) -> bool {
        self.known().ways.get(&id).is_some_and(|way| way.number == number)
    }

    /// How it stands with a connection now.
    pub(super) fn stands(&self, number: u64, standing: Standing) {
        let mut known = self.known();
        if let Some(way) = known.ways.get_mut(&standing.executor.id).filter(|way| way.number == number) {
            way.standing = Some(standing);
        }
    }

    /// How it stands with everybody who is connected.
    pub(super) fn standings(&self) -> Vec<Standing> {
        self.known().ways.values().filter_map(|way| way.standing.clone()).collect()
    }

    /// A number that is larger than all before.
    pub(super) fn tick(&self) -> u64 {
        let mut known = self.known();
        known.count += 1;
        known.count
    }

    /// Says something to an executor, if it is connected here.
    pub(super) fn say(&self, id: ExecutorId, wish: Wish) {
        if let Some(way) = self.known().ways.get(&id) {
            let _ = way.wishes.send(wish);
        }
    }

    /// Whether it is connected here; none if nobody here knows. It was `seen` last by whichever server.
    pub(super) fn is_connected(&self, id: ExecutorId, seen: Option<Timestamp>) -> Option<bool> {
        let known = self.known();
        match known.ways.contains_key(&id) {
            true => Some(true),
            false => known.left.get(&id).is_some_and(|left| seen <= Some(*left)).then_some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_is_the_executor() {
        let links = Links::default();
        let id = ExecutorId::generate();
        let before = Some(Timestamp::now());
        assert_eq!(links.is_connected(id, before), None);
        let (first, mut heard) = links.add(id);
        let (second, _kept) = links.add(id);
        assert!(matches!(heard.try_recv(), Ok(Wish::Replaced)));
        assert!(links.is_newest(id, second) && !links.is_newest(id, first));
        assert!(!links.remove(id, first), "the older one is not it any more");
        assert_eq!(links.is_connected(id, before), Some(true));
        assert!(links.remove(id, second));
        assert!(!links.is_newest(id, second), "it is gone");
        assert_eq!(links.is_connected(id, before), Some(false));
        assert_eq!(links.is_connected(id, None), Some(false));
        // It is heard of again, which can only be elsewhere.
        let later = Some(Timestamp::now().plus_seconds(1));
        assert_eq!(links.is_connected(id, later), None);
    }
}
