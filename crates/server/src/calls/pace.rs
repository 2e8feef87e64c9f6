//! How many calls an organisation may make in a minute. As many may come at once; then they come back one by one, so that the quota
//! holds on average over any longer time. It is counted in memory; where there are several nodes, in the database, from which each takes a few at a time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::OrgId;

use crate::api::error::{ApiError, Code};
use crate::nodes::Nodes;
use crate::ops::numbers;
use crate::rules::Quota;

const MINUTE: Duration = Duration::from_secs(60);

/// So many parts of a minute's calls a node takes one at a time.
const SHARE: u64 = 20;

/// And no more than this.
const MOST_AT_ONCE: u64 = 50;

/// Of so many organisations it is known what they have left; then those that have everything are forgotten.
const MOST: usize = 10_000;

/// What organisations have left.
#[derive(Default)]
pub(super) struct Pace(Mutex<HashMap<OrgId, Left>>);

struct Left {
    calls: f64,
    at: Instant,
    /// Those that were taken for this node and not made yet.
    ours: u64,
}

impl Left {
    fn at(&self, now: Instant, most: f64) -> f64 {
        let minutes = now.saturating_duration_since(self.at).as_secs_f64() / MINUTE.as_secs_f64();
        (self.calls + minutes * most).min(most)
    }
}

impl Pace {
    /// Takes a call from what an organisation has left. Without a quota there is nothing to take from.
    pub(super) async fn take(&self, org: &OrgId, quota: Option<&Quota>, nodes: &Nodes) -> Result<(), ApiError> {
        let Some(quota) = quota else { return Ok(()) };
        match nodes.has_peers() {
            false => self.take_at(org, quota, Instant::now()),
            true => Box::pin(self.take_shared(org, quota, nodes)).await,
        }
    }

    /// Gives back one that came to nothing.
    pub(super) fn give_back(&self, org: &OrgId, quota: Option<&Quota>, nodes: &Nodes) {
        let Some(quota) = quota else { return };
        let shared = nodes.has_peers();
        self.of(org, |left| match shared {
            true => left.ours += 1,
            false => left.calls = (left.calls + 1.0).min(quota.most as f64),
        });
    }

    /// The same for all nodes together.
    async fn take_shared(&self, org: &OrgId, quota: &Quota, nodes: &Nodes) -> Result<(), ApiError> {
        let had_one = self.of(org, |left| {
            let had_one = left.ours > 0;
            left.ours = left.ours.saturating_sub(1);
            had_one
        });
        if had_one {
            return Ok(());
        }
        // A share of what a minute brings: the fewer are taken at once, the less lies idle at another node.
        let wanted = (quota.most / SHARE).clamp(1, MOST_AT_ONCE);
        let Some(taken) = nodes.take_calls(org, quota.most, wanted).await? else {
            return self.take_at(org, quota, Instant::now());
        };
        if taken.granted == 0 {
            return Err(refusal(quota, taken.left as f64 / 1000.0));
        }
        self.of(org, |left| left.ours += taken.granted - 1);
        Ok(())
    }

    fn of<T>(&self, org: &OrgId, work: impl FnOnce(&mut Left) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if all.len() >= MOST {
            all.retain(|_, left| now.saturating_duration_since(left.at) < MINUTE);
        }
        let left = all.entry(org.clone()).or_insert(Left { calls: 0.0, at: now, ours: 0 });
        // What was taken long ago is not saved up.
        if now.saturating_duration_since(left.at) > MINUTE {
            left.ours = 0;
        }
        left.at = now;
        work(left)
    }

    fn take_at(&self, org: &OrgId, quota: &Quota, now: Instant) -> Result<(), ApiError> {
        let most = quota.most as f64;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, left| now.saturating_duration_since(left.at) < MINUTE);
        }
        let left = all.get(org).map_or(most, |left| left.at(now, most));
        if left >= 1.0 {
            all.insert(org.clone(), Left { calls: left - 1.0, at: now, ours: 0 });
            return Ok(());
        }
        Err(refusal(quota, left))
    }
}

/// What somebody is told who must wait, with so much of a call left.
fn refusal(quota: &Quota, left: f64) -> ApiError {
    numbers::refused("rate");
    let seconds = ((1.0 - left) / quota.most as f64 * MINUTE.as_secs_f64()).ceil().max(1.0);
    let message = quota.told(&format!("too many calls in a minute; the next one may be made in {seconds} seconds"));
    ApiError::new(Code::QuotaExceeded, message).retry_after(seconds as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::OrgRules;

    #[test]
    fn a_minute_brings_as_many_as_the_quota() {
        let (pace, quota, start) = (Pace::default(), OrgRules::allowing_calls(3), Instant::now());
        let [acme, bolt] = ["acme", "bolt"].map(|org| org.parse::<OrgId>().unwrap());
        let taken = |org: &OrgId, at: u64| {
            (0..10).filter(|_| pace.take_at(org, &quota, start + Duration::from_secs(at)).is_ok()).count()
        };
        assert_eq!((taken(&acme, 0), taken(&acme, 0)), (3, 0));
        assert_eq!(taken(&bolt, 0), 3, "others have their own");
        assert_eq!((taken(&acme, 19), taken(&acme, 20), taken(&acme, 41)), (0, 1, 1));
        assert_eq!(taken(&acme, 1_000), 3, "no more than a minute's worth waits");
        let (code, message, _) =
            pace.take_at(&acme, &quota, start + Duration::from_secs(1_000)).unwrap_err().into_told();
        assert_eq!(code, Code::QuotaExceeded);
        assert!(message.contains("in 20 seconds"), "{message}");
    }
}
