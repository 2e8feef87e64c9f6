//! Places that organisations share: connections of the database here, running tools in the server. Whoever waits the longest is next,
//! among those whose organisation has the fewest; and one that shares the server has at most as many as are still free, so that there
//! is a place for whoever comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::OrgId;
use tokio::sync::oneshot;

/// All places. Clones share them.
#[derive(Clone, Debug)]
pub struct Places(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    taken: HashMap<OrgId, usize>,
    waiting: VecDeque<(OrgId, oneshot::Sender<Taken>)>,
}

/// A place, for as long as it lives.
#[derive(Debug)]
pub struct Taken {
    org: OrgId,
    places: Places,
}

impl State {
    /// Whether an organisation may have another place now.
    fn lets(&self, org: &OrgId) -> bool {
        self.free > 0 && (*org == OrgId::local() || self.count(org) < self.free)
    }

    fn count(&self, org: &OrgId) -> usize {
        self.taken.get(org).copied().unwrap_or_default()
    }

    fn occupy(&mut self, org: &OrgId) {
        self.free -= 1;
        *self.taken.entry(org.clone()).or_default() += 1;
    }

    fn vacate(&mut self, org: &OrgId) {
        self.free += 1;
        if let Some(count) = self.taken.get_mut(org) {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(org);
            }
        }
    }

    /// Whoever is next, if anybody may be.
    fn next(&mut self) -> Option<(OrgId, oneshot::Sender<Taken>)> {
        let candidates = self.waiting.iter().enumerate().filter(|(_, (org, _))| self.lets(org));
        let (at, _) = candidates.min_by_key(|(at, (org, _))| (self.count(org), *at))?;
        self.waiting.remove(at)
    }
}

impl Places {
    /// So many, all free.
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: places, taken: HashMap::new(), waiting: VecDeque::new() })))
    }

    /// How many places are taken, and how many wait for one.
    pub fn counts(&self) -> (usize, usize) {
        self.state(|state| (state.taken.values().sum(), state.waiting.len()))
    }

    /// Waits for a place.
    pub async fn take(&self, org: &OrgId) -> Taken {
        let (given, place) = oneshot::channel();
        self.state(|state| state.waiting.push_back((org.clone(), given)));
        self.give();
        match place.await {
            Ok(place) => place,
            // Nobody drops those who wait. If that changes, too many run rather than none.
            Err(_) => {
                self.state(|state| state.occupy(org));
                self.place(org)
            }
        }
    }

    /// Gives free places to those who wait.
    fn give(&self) {
        loop {
            let next = self.state(|state| {
                let (org, given) = state.next()?;
                state.occupy(&org);
                Some((org, given))
            });
            let Some((org, given)) = next else { return };
            // If nobody waits for it any more, it comes back, and is free again when it is dropped here.
            drop(given.send(self.place(&org)));
        }
    }

    fn place(&self, org: &OrgId) -> Taken {
        Taken { org: org.clone(), places: self.clone() }
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.places.state(|state| state.vacate(&self.org));
        self.places.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    type Taking<'a> = Pin<Box<dyn Future<Output = Taken> + 'a>>;

    fn now(taking: &mut Taking<'_>) -> Option<Taken> {
        match taking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nobody_takes_all_and_the_one_with_fewest_is_next() {
        let places = Places::new(4);
        let [local, acme, bolt] = ["local", "acme", "bolt"].map(|org| org.parse::<OrgId>().unwrap());
        let (mut running, mut of_acme): (Vec<Taken>, Vec<Taking<'_>>) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let mut taking: Taking<'_> = Box::pin(places.take(&acme));
            match now(&mut taking) {
                Some(place) => running.push(place),
                None => of_acme.push(taking),
            }
        }
        assert_eq!(running.len(), 2, "half, when nobody else is there");
        let mut of_bolt: Taking<'_> = Box::pin(places.take(&bolt));
        let one = now(&mut of_bolt).expect("there is room for others");
        let mut of_local: Taking<'_> = Box::pin(places.take(&local));
        let last = now(&mut of_local).expect("the operator's own takes what is left");
        let mut waits: Taking<'_> = Box::pin(places.take(&bolt));
        assert!(now(&mut waits).is_none());
        drop(last);
        assert!(now(&mut waits).is_none(), "one is free, and bolt has one");
        drop(one);
        assert!(now(&mut waits).is_some(), "bolt came later than acme's, which have two");
        running.clear();
        drop(of_acme);
        let mut all: Vec<Taking<'_>> = (0..5).map(|_| Box::pin(places.take(&local)) as _).collect();
        assert_eq!(all.iter_mut().filter_map(|taking| now(taking).map(std::mem::forget)).count(), 4, "all came back");
    }
}
