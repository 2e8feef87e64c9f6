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
    /// Whose it is; none when it was given back already.
    org: Option<OrgId>,
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

    /// How many of the line still wait, of one organisation and of all.
    fn line(&self, org: &OrgId) -> (usize, usize) {
        let there = self.waiting.iter().filter(|(_, given)| !given.is_closed());
        there.fold((0, 0), |(own, all), (whose, _)| (own + usize::from(whose == org), all + 1))
    }

    /// Puts somebody at the end of the line. Those who gave up are let go of before it grows: while no place becomes free, nobody else
    /// would do so.
    fn queue(&mut self, org: &OrgId, given: oneshot::Sender<Taken>) {
        if self.waiting.len() == self.waiting.capacity() {
            self.waiting.retain(|(_, given)| !given.is_closed());
        }
        self.waiting.push_back((org.clone(), given));
    }

    /// Whoever is next, if anybody may be.
    fn next(&mut self) -> Option<(OrgId, oneshot::Sender<Taken>)> {
        if self.free == 0 {
            return None;
        }
        self.waiting.retain(|(_, given)| !given.is_closed());
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
        self.state(|state| {
            (state.taken.values().sum(), state.waiting.iter().filter(|(_, given)| !given.is_closed()).count())
        })
    }

    /// Waits for a place.
    pub async fn take(&self, org: &OrgId) -> Taken {
        let (given, place) = oneshot::channel();
        self.state(|state| state.queue(org, given));
        self.wait(org, place).await
    }

    /// Waits for a place where at most `most` wait. Nothing if the line is full, or if one that shares the server has as many in it as there
    /// is room left: the line is shared as the places are.
    pub async fn take_in_line(&self, org: &OrgId, most: usize) -> Option<Taken> {
        let (given, place) = oneshot::channel();
        self.state(|state| {
            let (own, all) = state.line(org);
            let left = most.saturating_sub(all);
            // Whoever gets a place at once does not wait.
            let is_let = state.lets(org) && own == 0;
            let has_room = left > 0 && (*org == OrgId::local() || own < left);
            (is_let || has_room).then(|| state.queue(org, given))
        })?;
        Some(self.wait(org, place).await)
    }

    async fn wait(&self, org: &OrgId, place: oneshot::Receiver<Taken>) -> Taken {
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
            // Who gave up in this very moment leaves it to the next round. Dropping it would give again from in here, one call inside the
            // other for each who gave up.
            if let Err(mut unwanted) = given.send(self.place(&org)) {
                unwanted.hand_back();
            }
        }
    }

    fn place(&self, org: &OrgId) -> Taken {
        Taken { org: Some(org.clone()), places: self.clone() }
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Taken {
    /// Gives it back without looking who is next. Whether there was anything to give back.
    fn hand_back(&mut self) -> bool {
        let Some(org) = self.org.take() else { return false };
        self.places.state(|state| state.vacate(&org));
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.hand_back() {
            self.places.give();
        }
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

    #[test]
    fn those_who_gave_up_are_passed_over_however_many_they_are() {
        let places = Places::new(2);
        let [local, acme] = ["local", "acme"].map(|org| org.parse::<OrgId>().unwrap());
        let mut first: Taking<'_> = Box::pin(places.take(&local));
        let mut second: Taking<'_> = Box::pin(places.take(&local));
        let held = (now(&mut first).expect("a place"), now(&mut second).expect("another"));
        let mut waiting: Vec<Taking<'_>> = (0..100_000).map(|_| Box::pin(places.take(&acme)) as _).collect();
        assert!(waiting.iter_mut().all(|taking| now(taking).is_none()));
        let mut patient: Taking<'_> = Box::pin(places.take(&acme));
        assert!(now(&mut patient).is_none());
        drop(waiting);
        assert_eq!(places.counts(), (2, 1), "who gave up does not wait");
        drop(held);
        assert!(now(&mut patient).is_some());
        assert_eq!(places.counts(), (0, 0));
    }

    #[test]
    fn those_who_gave_up_while_nothing_became_free_are_not_kept() {
        let places = Places::new(1);
        let local = OrgId::local();
        let _held = now(&mut (Box::pin(places.take(&local)) as Taking<'_>)).expect("a place");
        for _ in 0..10_000 {
            assert!(now(&mut (Box::pin(places.take(&local)) as Taking<'_>)).is_none());
        }
        assert!(places.state(|state| state.waiting.len()) < 100);
    }

    #[test]
    fn a_line_has_an_end_and_nobody_fills_all_of_it() {
        let places = Places::new(2);
        let [local, acme, bolt] = ["local", "acme", "bolt"].map(|org| org.parse::<OrgId>().unwrap());
        let in_line = |org| {
            let mut taking: Pin<Box<dyn Future<Output = Option<Taken>> + '_>> = Box::pin(places.take_in_line(org, 4));
            match taking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(taken) => Err(taken),
                Poll::Pending => Ok(taking),
            }
        };
        let of_acme = in_line(&acme).err().flatten().expect("a place");
        let mut waiting =
            vec![in_line(&acme).expect("it may have one of two"), in_line(&acme).expect("half of the line")];
        assert!(matches!(in_line(&acme), Err(None)), "the rest of the line is for others");
        let of_bolt = in_line(&bolt).err().flatten().expect("the other place: who gets it at once does not wait");
        waiting.push(in_line(&bolt).expect("there is room in the line"));
        waiting.push(in_line(&local).expect("the operator's own takes what is left"));
        assert!(matches!(in_line(&local), Err(None)), "four wait");
        waiting.pop();
        waiting.push(in_line(&local).expect("one gave up"));
        drop((waiting, of_acme, of_bolt));
        assert_eq!(places.counts(), (0, 0));
    }
}
