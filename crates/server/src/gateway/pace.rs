//! How much one client may ask. It is for those that run in circles: who asks as fast as it can think never meets it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// So many clients are remembered; then those that have been quiet are forgotten.
const MOST: usize = 10_000;

/// How many seconds' worth may come at once.
const BURST: f64 = 2.0;

/// What clients have left.
#[derive(Default)]
pub(super) struct Pace(Mutex<HashMap<String, Left>>);

struct Left {
    requests: f64,
    at: Instant,
}

impl Pace {
    /// Whether a client may ask now, if it may ask so often a second. None is no limit.
    pub(super) fn allows(&self, owner: &str, rate: u32) -> bool {
        if rate == 0 {
            return true;
        }
        let (rate, now) = (f64::from(rate), Instant::now());
        let full = rate * BURST;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, left| left.requests + now.duration_since(left.at).as_secs_f64() * rate < full);
        }
        if !all.contains_key(owner) {
            all.insert(owner.to_owned(), Left { requests: full, at: now });
        }
        let Some(left) = all.get_mut(owner) else { return true };
        left.requests = (left.requests + now.duration_since(left.at).as_secs_f64() * rate).min(full);
        left.at = now;
        let allowed = left.requests >= 1.0;
        if allowed {
            left.requests -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_measure() {
        let pace = Pace::default();
        // A rate so slow that nothing comes back while the test runs.
        let asked = |owner: &str| (0..10).filter(|_| pace.allows(owner, 1)).count();
        assert_eq!((asked("a"), asked("b")), (2, 2));
        assert!((0..10_000).all(|_| pace.allows("a", 0)));
    }
}
