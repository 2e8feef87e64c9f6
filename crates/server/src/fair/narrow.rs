//! What only few may do at a time, because it takes much memory. Whoever comes when it is busy waits for a moment, in a line that has an end;
//! then it is told to come again. Places and line are shared between organisations as [`Places`] says.

use std::time::Duration;

use kitbag_model::OrgId;
use kitbag_store::{Places, Taken};
use tokio::time::timeout;

use crate::api::error::{ApiError, Code};

/// So many may wait: each has a connection, and some have a file in the inbox.
const LINE: usize = 64;

/// How long one may wait, unless requests must be answered sooner.
const PATIENCE: Duration = Duration::from_secs(10);

/// After so many seconds it is worth trying again: what is worked on takes seconds, seldom minutes.
const AGAIN: u32 = 5;

/// Places for something that takes much memory.
pub(crate) struct Narrow {
    places: Places,
    most: usize,
    patience: Duration,
    what: &'static str,
}

impl Narrow {
    /// So many places. `what` says what those do who have one.
    pub(super) fn new(most: usize, request_timeout: Duration, what: &'static str) -> Self {
        // At most half of it: the other half is for the work, and who waits in vain hears why before time is up.
        Self { places: Places::new(most), most, patience: PATIENCE.min(request_timeout / 2), what }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, org: &OrgId) -> Result<Taken, ApiError> {
        match timeout(self.patience, self.places.take_in_line(org, LINE)).await {
            Ok(Some(place)) => Ok(place),
            Ok(None) | Err(_) => {
                let Self { most, what, .. } = self;
                let message = format!(
                    "too much at once: {what} {most} at a time, an organisation has a share of that, and others wait; try again in \
                     {AGAIN} seconds"
                );
                Err(ApiError::new(Code::RateLimited, message).retry_after(AGAIN))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Duration = Duration::from_secs(30);

    fn orgs() -> [OrgId; 3] {
        ["acme", "bolt", "local"].map(|org| org.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_is_told_to_come_again() {
        let narrow = Narrow::new(2, REQUEST, "tests run");
        let [acme, bolt, _] = orgs();
        let held = narrow.enter(&acme).await.expect("a place");
        let (code, message, _) = narrow.enter(&acme).await.expect_err("one of two").into_told();
        assert_eq!(code, Code::RateLimited);
        assert!(message.contains("tests run 2 at a time"), "{message}");
        let other = narrow.enter(&bolt).await.expect("one that floods leaves a place");
        drop((held, other));
        narrow.enter(&acme).await.expect("it was given back");
    }

    #[tokio::test(start_paused = true)]
    async fn the_line_has_an_end_and_nobody_fills_it() {
        let narrow = Narrow::new(1, REQUEST, "tests run");
        let [acme, bolt, local] = orgs();
        let held = narrow.enter(&local).await.expect("a place");
        // All of them are asked before any time passes: who has no room in the line hears so at once.
        let flood = (0..100).map(|_| async { narrow.enter(&acme).await.map(drop) });
        let late = async { narrow.enter(&bolt).await.map(drop) };
        let freeing = async {
            tokio::task::yield_now().await;
            assert_eq!(narrow.places.counts(), (1, LINE / 2 + 1), "the flood has half of the line, and bolt is in it");
            drop(held);
        };
        let (asked, late, ()) = tokio::join!(futures_util::future::join_all(flood), late, freeing);
        assert!(late.is_ok());
        assert_eq!(asked.iter().filter(|place| place.is_err()).count(), 100 - LINE / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_before_the_request_is_over() {
        let narrow = Narrow::new(1, Duration::from_secs(4), "tests run");
        let [.., local] = orgs();
        let _held = narrow.enter(&local).await.expect("a place");
        let told = timeout(Duration::from_secs(4), narrow.enter(&local)).await.expect("in time");
        assert!(told.is_err());
    }
}
