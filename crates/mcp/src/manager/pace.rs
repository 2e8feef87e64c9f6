//! When to try again. Knows failures and times, and nothing of servers.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use super::Backoff;

/// What follows a failure.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Next {
    /// Another try after this time.
    After(Duration),
    /// Another try, but late: it ended so often in a short time.
    Looping(Duration, usize),
    /// No other try until somebody asks for it.
    GiveUp,
}

/// The failures of one server.
pub(super) struct Pace {
    backoff: Backoff,
    worked: bool,
    failures: u32,
    ends: VecDeque<Instant>,
}

impl Pace {
    /// `worked`: whether it is known to have worked before.
    pub(super) fn new(backoff: Backoff, worked: bool) -> Self {
        Self { backoff, worked, failures: 0, ends: VecDeque::new() }
    }

    /// It works. What was before is not forgotten yet: a server that dies a moment after each start looks like this too.
    pub(super) fn works(&mut self) {
        self.worked = true;
    }

    /// Somebody wants it to be tried as if for the first time.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.ends.clear();
    }

    /// How often it failed in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// It could not be connected.
    pub(super) fn failed(&mut self) -> Next {
        self.failures = self.failures.saturating_add(1);
        if !self.worked && self.failures >= self.backoff.tries {
            return Next::GiveUp;
        }
        Next::After(self.delay(self.failures))
    }

    /// Its connection ended after it had lasted this long. The first end is followed by a try at once, so that one accident is
    /// hardly noticed.
    pub(super) fn ended(&mut self, now: Instant, lasted: Duration) -> Next {
        if lasted >= self.backoff.stable {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.ends.push_back(now);
        while self.ends.front().is_some_and(|end| now.duration_since(*end) > self.backoff.window) {
            self.ends.pop_front();
        }
        if self.ends.len() >= self.backoff.loop_ends {
            let ends = self.ends.len();
            // Only as many are kept as decide: a loop that goes on for days costs no memory.
            self.ends.truncate(self.backoff.loop_ends);
            return Next::Looping(jittered(self.backoff.longest), ends);
        }
        if !self.worked && self.failures >= self.backoff.tries {
            return Next::GiveUp;
        }
        Next::After(self.delay(self.failures - 1))
    }

    fn delay(&self, nth: u32) -> Duration {
        if nth == 0 {
            return Duration::ZERO;
        }
        let doubled = self.backoff.first.saturating_mul(2_u32.saturating_pow(nth - 1));
        jittered(doubled.min(self.backoff.longest))
    }
}

/// Between half of a time and all of it, so that servers that failed together do not come back together.
pub(super) fn jittered(time: Duration) -> Duration {
    // Every `RandomState` has keys of its own; that is random enough here.
    let random = RandomState::new().build_hasher().finish();
    let part = (random >> 32) as u32;
    time / 2 + (time / 2).mul_f64(f64::from(part) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(worked: bool) -> Pace {
        let backoff = Backoff {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(10),
            stable: Duration::from_secs(30),
            tries: 3,
            loop_ends: 5,
            window: Duration::from_secs(60),
        };
        Pace::new(backoff, worked)
    }

    fn assert_about(next: Next, millis: u64) {
        let Next::After(after) = next else { panic!("{next:?}") };
        let most = Duration::from_millis(millis);
        assert!(after >= most / 2 && after <= most, "{after:?} of {most:?}");
    }

    #[test]
    fn what_never_worked_is_given_up() {
        let mut pace = pace(false);
        assert_about(pace.failed(), 100);
        assert_about(pace.failed(), 200);
        assert_eq!(pace.failed(), Next::GiveUp);
        pace.reset();
        assert_about(pace.failed(), 100);
    }

    #[test]
    fn what_worked_is_tried_for_ever_and_ever_more_slowly() {
        let mut pace = pace(true);
        for millis in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            assert_about(pace.failed(), millis);
        }
        for _ in 0..100 {
            assert_about(pace.failed(), 10_000);
        }
    }

    #[test]
    fn the_first_end_is_followed_by_a_try_at_once() {
        let mut pace = pace(true);
        let now = Instant::now();
        assert_eq!(pace.ended(now, Duration::ZERO), Next::After(Duration::ZERO));
        assert_about(pace.ended(now, Duration::ZERO), 100);
        assert_about(pace.ended(now, Duration::ZERO), 200);
        let long = Duration::from_secs(30);
        assert_eq!(pace.ended(now, long), Next::After(Duration::ZERO), "a stable connection makes it forgotten");
    }

    #[test]
    fn many_ends_in_a_short_time_are_a_loop() {
        let mut pace = pace(true);
        let mut now = Instant::now();
        for _ in 0..4 {
            assert!(matches!(pace.ended(now, Duration::ZERO), Next::After(_)));
        }
        assert!(matches!(pace.ended(now, Duration::ZERO), Next::Looping(after, 5) if after >= Duration::from_secs(5)));
        assert!(matches!(pace.ended(now, Duration::ZERO), Next::Looping(_, _)));
        now += Duration::from_secs(61);
        assert!(matches!(pace.ended(now, Duration::ZERO), Next::After(_)), "old ends do not count");
    }
}
