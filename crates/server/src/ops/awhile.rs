//! What is too much to be looked at whenever somebody asks, and may be a little old.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was found out last, and when.
#[derive(Debug)]
pub(crate) struct Awhile<T> {
    fresh: Duration,
    last: Mutex<Option<(Instant, T)>>,
}

impl<T: Copy> Awhile<T> {
    /// It is used for so long.
    pub(crate) fn new(fresh: Duration) -> Self {
        Self { fresh, last: Mutex::new(None) }
    }

    /// What is known, or what `look` finds now. What fails is not remembered.
    pub(crate) async fn get<E>(&self, now: Instant, look: impl AsyncFnOnce() -> Result<T, E>) -> Result<T, E> {
        let known = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = known
            && now.duration_since(at) < self.fresh
        {
            return Ok(known);
        }
        let found = look().await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, found));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_looked_at_once_in_a_while() {
        let (awhile, began) = (Awhile::new(Duration::from_secs(10)), Instant::now());
        let after = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(awhile.get(began, async || Err::<u32, _>("gone")).await, Err("gone"));
        assert_eq!(awhile.get(began, async || Ok::<_, &str>(1)).await, Ok(1), "what fails is not remembered");
        assert_eq!(awhile.get(after(9), async || Ok::<_, &str>(2)).await, Ok(1));
        assert_eq!(awhile.get(after(10), async || Ok::<_, &str>(3)).await, Ok(3));
        assert_eq!(awhile.get(after(11), async || Err::<u32, _>("gone")).await, Ok(3));
    }
}
