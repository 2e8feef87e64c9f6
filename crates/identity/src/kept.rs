//! Something that is fetched and kept: it is had from memory, renewed behind everybody's back when it is old, and still good when the
//! issuer does not answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::IssuerError;

/// After this it is fetched anew, behind whoever uses it.
const OLD: Duration = Duration::from_secs(15 * 60);
/// How long it is not tried again after it went wrong: who asks meanwhile is told at once.
const PAUSE: Duration = Duration::from_secs(5);
/// How often it is fetched because somebody wants something newer. Whoever makes up names of keys makes us ask no more often.
const WANTED_EVERY: Duration = Duration::from_secs(10);

type Fetch<T> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<T, IssuerError>> + Send>> + Send + Sync>;

/// The thing. Clones share it.
pub(crate) struct Kept<T>(Arc<Inner<T>>);

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Inner<T> {
    fetch: Fetch<T>,
    state: Mutex<State<T>>,
    /// Held by whoever fetches: one at a time.
    flight: tokio::sync::Mutex<()>,
}

struct State<T> {
    value: Option<(Arc<T>, Instant)>,
    failed: Option<(IssuerError, Instant)>,
    wanted: Option<Instant>,
}

impl<T: Send + Sync + 'static> Kept<T> {
    pub(crate) fn new<F>(fetch: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, IssuerError>> + Send + 'static,
    {
        let state = Mutex::new(State { value: None, failed: None, wanted: None });
        let fetch: Fetch<T> = Box::new(move || Box::pin(fetch()));
        Self(Arc::new(Inner { fetch, state, flight: tokio::sync::Mutex::default() }))
    }

    /// What is kept, or what is fetched if nothing is.
    pub(crate) async fn get(&self) -> Result<Arc<T>, IssuerError> {
        if let Some((value, since)) = self.value() {
            if since.elapsed() > OLD {
                self.renew_behind();
            }
            return Ok(value);
        }
        let _flight = self.0.flight.lock().await;
        if let Some((value, _)) = self.value() {
            return Ok(value);
        }
        match self.failed_lately() {
            Some(error) => Err(error),
            None => self.fetch().await,
        }
    }

    /// Something newer than `seen`, which lacks what somebody needs. None if there is nothing newer, and it is too soon to ask again.
    pub(crate) async fn newer_than(&self, seen: &Arc<T>) -> Result<Option<Arc<T>>, IssuerError> {
        let _flight = self.0.flight.lock().await;
        if let Some((value, _)) = self.value().filter(|(value, _)| !Arc::ptr_eq(value, seen)) {
            return Ok(Some(value));
        }
        let too_soon = {
            let mut state = self.state();
            let too_soon = state.wanted.is_some_and(|at| at.elapsed() < WANTED_EVERY);
            if !too_soon {
                state.wanted = Some(Instant::now());
            }
            too_soon
        };
        match (too_soon, too_soon.then(|| self.failed()).flatten()) {
            (true, Some(error)) => Err(error),
            (true, None) => Ok(None),
            (false, _) => self.fetch().await.map(Some),
        }
    }

    async fn fetch(&self) -> Result<Arc<T>, IssuerError> {
        let fetched = (self.0.fetch)().await;
        let mut state = self.state();
        match fetched {
            Ok(value) => {
                let value = Arc::new(value);
                state.value = Some((Arc::clone(&value), Instant::now()));
                state.failed = None;
                Ok(value)
            }
            Err(error) => {
                state.failed = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    fn renew_behind(&self) {
        if self.failed_lately().is_some() {
            return;
        }
        let own = self.clone();
        tokio::spawn(async move {
            let Ok(_flight) = own.0.flight.try_lock() else { return };
            if let Err(error) = own.fetch().await {
                tracing::warn!(%error, "what an issuer said before is used further");
            }
        });
    }

    fn value(&self) -> Option<(Arc<T>, Instant)> {
        self.state().value.clone()
    }

    fn failed(&self) -> Option<IssuerError> {
        self.state().failed.as_ref().map(|(error, _)| error.clone())
    }

    fn failed_lately(&self) -> Option<IssuerError> {
        let state = self.state();
        state.failed.as_ref().filter(|(_, at)| at.elapsed() < PAUSE).map(|(error, _)| error.clone())
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_wants_something_newer_makes_one_request() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let kept = Kept::new(move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move { if number < 2 { Ok(number) } else { Err(IssuerError::Unreachable("down".to_owned())) } }
        });
        let first = kept.get().await.expect("the first");
        assert_eq!((*first, *kept.get().await.expect("the same")), (0, 0));
        let newer = kept.newer_than(&first).await.expect("an answer").expect("something newer");
        assert_eq!(*newer, 1);
        assert_eq!(kept.newer_than(&first).await.expect("an answer").as_deref(), Some(&1), "somebody else fetched it");
        assert_eq!(kept.newer_than(&newer).await, Ok(None), "not again so soon");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn what_fails_is_not_tried_by_everybody() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let kept: Kept<u32> = Kept::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            async { Err(IssuerError::Unreachable("down".to_owned())) }
        });
        for _ in 0..10 {
            assert!(matches!(kept.get().await, Err(IssuerError::Unreachable(_))));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
