//! One preparation of a container at a time, whoever waits for it; and not at once another one after one that failed.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::{ContentHash, OrgId, ServerId, ToolsetId};
use tokio::sync::watch;
use tracing::Instrument;

use super::{Containers, PrepareError, Turns, Which};

/// So many reasons are remembered why an image could not be had.
const MOST_NOTED: usize = 1000;

/// So long calls are told why it failed before one of them has it tried again. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// So often it is doubled: eleven minutes at the most.
const DOUBLED: u32 = 6;

/// What came of one, for all who wait.
type Over = watch::Receiver<Option<Result<(), Arc<PrepareError>>>>;

/// What is under way, and what failed.
#[derive(Default)]
pub(super) struct UnderWay {
    going: Mutex<HashMap<Which, Over>>,
    failed: Mutex<HashMap<Which, Failure>>,
}

/// Why the image of a container could not be had.
struct Failure {
    why: Arc<PrepareError>,
    /// What the container was made of then, if trying again at once would be of no use.
    made_of: Option<ContentHash>,
    at: Instant,
    times: u32,
}

impl UnderWay {
    /// What there is to say against a container is over.
    pub(super) fn fine(&self, which: &Which) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).remove(which);
    }

    /// Remembers why it could not be had. `made_of` is there if it was tried in earnest.
    pub(super) fn failed(&self, which: &Which, made_of: Option<&ContentHash>, error: &PrepareError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(error, PrepareError::Bad(_) | PrepareError::Engine(_) | PrepareError::Failed(_)) {
            failed.remove(which);
            return;
        }
        if failed.len() >= MOST_NOTED && !failed.contains_key(which) {
            return;
        }
        let made_of = made_of.filter(|_| error.lasts()).copied();
        let before = failed.get(which).filter(|before| before.made_of.is_some() && before.made_of == made_of);
        let times = before.map_or(0, |before| before.times.saturating_add(1));
        failed.insert(which.clone(), Failure { why: Arc::new(error.again()), made_of, at: Instant::now(), times });
    }

    /// Why it is not tried again yet, if that is so.
    pub(super) fn failed_lately(&self, which: &Which, made_of: &ContentHash) -> Option<PrepareError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |failure: &&Failure| failure.made_of.as_ref() == Some(made_of);
        let failure = failed.get(which).filter(same)?;
        let pause = FIRST_PAUSE * (1 << failure.times.min(DOUBLED));
        (failure.at.elapsed() < pause).then(|| failure.why.again())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Which, Over>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is under way, until this is dropped.
struct Going {
    containers: Containers,
    which: Which,
}

impl Drop for Going {
    fn drop(&mut self) {
        self.containers.0.under_way.lock().remove(&self.which);
    }
}

impl Containers {
    /// Why the image of a container could not be had when it was last looked for.
    pub(crate) fn why_not(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> Option<String> {
        let failed = self.0.under_way.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(&(org.clone(), toolset.clone(), id.clone())).map(|failure| failure.why.to_string())
    }

    /// Waits until the image of a container is there, which whoever came first has begun. It goes on when nobody waits any more.
    pub(super) async fn obtained(&self, which: Which, made_of: ContentHash) -> Result<(), PrepareError> {
        let mut over = self.join(which, made_of);
        match over.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(error))) => Err(error.again()),
            Ok(_) => Ok(()),
            Err(_) => Err(PrepareError::Failed("looking for the image of a container broke off; try again".to_owned())),
        }
    }

    fn join(&self, which: Which, made_of: ContentHash) -> Over {
        let mut going = self.0.under_way.lock();
        if let Some(over) = going.get(&which) {
            return over.clone();
        }
        let (tell, over) = watch::channel(None);
        going.insert(which.clone(), over.clone());
        drop(going);
        let going = Going { containers: self.clone(), which };
        let working = async move {
            let Going { containers, which } = &going;
            let (org, toolset, id) = which;
            let done = containers.obtain(org, toolset, id).await;
            match &done {
                Ok(()) => containers.0.under_way.fine(which),
                Err(error) => {
                    if let PrepareError::Store(error) = error {
                        tracing::error!(%error, %org, %toolset, container = %id, "the image of a container could not be looked for");
                    }
                    containers.0.under_way.failed(which, Some(&made_of), error);
                    // The toolset may have gone while its image was built.
                    containers.forget_images(org).await;
                }
            }
            // Who comes from now on begins anew.
            drop(going);
            tell.send_replace(Some(done.map_err(Arc::new)));
        };
        tokio::spawn(working.in_current_span());
        over
    }
}

/// The turn of one of many. Those that nobody waits for are forgotten.
pub(super) fn own_turn<K: Eq + Hash>(turns: &Turns<K>, key: K) -> Arc<tokio::sync::Mutex<()>> {
    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    turns.retain(|_, turn| Arc::strong_count(turn) > 1);
    Arc::clone(turns.entry(key).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_not_tried_again_at_once() {
        let ways = UnderWay::default();
        let which: Which = (OrgId::local(), "app".parse().unwrap(), "box".parse().unwrap());
        let (made_of, other) = (ContentHash::of(b"one"), ContentHash::of(b"two"));
        let bad = || PrepareError::Bad("mute".to_owned());
        assert!(ways.failed_lately(&which, &made_of).is_none());
        ways.failed(&which, Some(&made_of), &bad());
        assert!(matches!(ways.failed_lately(&which, &made_of), Some(PrepareError::Bad(_))));
        assert!(ways.failed_lately(&which, &other).is_none(), "another container has failed at nothing yet");
        for wanted in 1..10 {
            ways.failed(&which, Some(&made_of), &bad());
            assert_eq!(ways.failed.lock().unwrap()[&which].times, wanted, "each time it takes longer");
        }
        // What is away may be back at any moment, and what was only looked at cost nothing.
        let away = PrepareError::Engine(kitbag_container::EngineError::Away(String::new()));
        ways.failed(&which, Some(&made_of), &away);
        assert!(ways.failed_lately(&which, &made_of).is_none());
        ways.failed(&which, None, &bad());
        assert!(ways.failed_lately(&which, &made_of).is_none());
        ways.failed(&which, Some(&made_of), &bad());
        ways.fine(&which);
        assert!(ways.failed_lately(&which, &made_of).is_none());
    }
}
