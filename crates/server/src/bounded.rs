//! Places for what goes on in memory, of which there are so many. Nobody waits for one: whoever comes when there is none is told to come
//! again, since a queue without an end is a memory without one. An organisation that shares the server may have as many as are still free,
//! so that one that takes all it can get leaves room for whoever comes next; two of them leave a third, and so on.
//!
//! It does not know what the places are for, but for the words in which a refusal tells it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitbag_model::OrgId;

use crate::api::error::{ApiError, Code};

#[derive(Debug, Default)]
struct Counted {
    all: usize,
    of_org: HashMap<OrgId, usize>,
}

/// The places that there are.
#[derive(Debug)]
pub(crate) struct Bounded {
    most: usize,
    what: &'static str,
    doing: &'static str,
    counted: Arc<Mutex<Counted>>,
}

/// One place, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Place {
    org: OrgId,
    counted: Arc<Mutex<Counted>>,
}

/// There is none.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}, and at most {most} may; try again when some are over")]
pub(crate) struct Full {
    what: String,
    most: usize,
}

impl Full {
    /// So many there are of something already, as `what` tells it.
    pub(crate) fn new(what: String, most: usize) -> Self {
        Self { what, most }
    }
}

impl From<Full> for ApiError {
    fn from(full: Full) -> Self {
        Self::new(Code::RateLimited, full.to_string())
    }
}

impl Bounded {
    /// So many. A refusal says that so many `what` are `doing` something: calls "run or wait".
    pub(crate) fn new(most: usize, what: &'static str, doing: &'static str) -> Self {
        Self { most, what, doing, counted: Arc::default() }
    }

    /// How many are taken, and how many there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (counted(&self.counted).all, self.most)
    }

    /// How many an organisation has.
    pub(crate) fn of(&self, org: &OrgId) -> usize {
        counted(&self.counted).of_org.get(org).copied().unwrap_or_default()
    }

    /// Takes a place, if there is one.
    pub(crate) fn enter(&self, org: &OrgId) -> Result<Place, Full> {
        let Self { most, what, doing, .. } = self;
        let mut counted = counted(&self.counted);
        if counted.all >= *most {
            return Err(Full::new(format!("{} {what} {doing}", counted.all), *most));
        }
        let (of_org, share) = (counted.of_org.get(org).copied().unwrap_or_default(), most - counted.all);
        // The operator's own organisation shares with nobody.
        if *org != OrgId::local() && of_org >= share {
            return Err(Full::new(format!("{of_org} {what} of this organisation {doing}"), share));
        }
        counted.all += 1;
        *counted.of_org.entry(org.clone()).or_default() += 1;
        Ok(Place { org: org.clone(), counted: Arc::clone(&self.counted) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counted = counted(&self.counted);
        counted.all -= 1;
        one_less(&mut counted.of_org, &self.org);
    }
}

fn counted(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts one less, and forgets who has none.
pub(crate) fn one_less<K: Eq + Hash>(counted: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counted.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counted.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_all_leaves_room_for_others() {
        let places = Bounded::new(12, "things", "are done");
        let take_all = |org: &str| {
            let org: OrgId = org.parse().unwrap();
            std::iter::from_fn(|| places.enter(&org).ok()).collect::<Vec<_>>()
        };
        let first = take_all("acme");
        assert_eq!(first.len(), 6);
        let second = take_all("bolt");
        assert_eq!(second.len(), 3);
        let third = take_all("cord");
        assert_eq!(third.len(), 2);
        assert_eq!(take_all("acme").len(), 0, "it has more than its share by now");
        let full = places.enter(&"acme".parse().unwrap()).unwrap_err().to_string();
        assert!(full.starts_with("6 things of this organisation are done, and at most 1 may"), "{full}");
        let last = take_all("local");
        assert_eq!(last.len(), 1, "the operator's own takes what is left");
        assert!(places.enter(&OrgId::local()).unwrap_err().to_string().starts_with("12 things are done"));
        drop((first, second, third, last));
        assert!(counted(&places.counted).of_org.is_empty() && places.counts() == (0, 12));
        assert_eq!(take_all("local").len(), 12);
    }
}
