//! Who was let in to `/metrics` lately. Tokens are proven in the database, and just when that is away somebody should hear of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use kitbag_model::ContentHash;

/// So long after it was last let in a token is known here, while nobody can look it up. An end of it that was written meanwhile counts
/// as soon as it can be read.
const KNOWN: Duration = Duration::from_secs(60 * 60);

/// So many are remembered. A server is asked by few.
const MOST: usize = 16;

/// Hashes of what was shown, and when.
#[derive(Default)]
pub(crate) struct Scrapers(Mutex<HashMap<ContentHash, Instant>>);

impl Scrapers {
    /// Somebody was let in.
    pub(crate) fn let_in(&self, headers: &HeaderMap, now: Instant) {
        let Some(shown) = shown(headers) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, at| now.duration_since(*at) < KNOWN);
        let oldest = known.iter().min_by_key(|(_, at)| **at).map(|(hash, _)| *hash);
        if let Some(oldest) = oldest.filter(|_| known.len() >= MOST && !known.contains_key(&shown)) {
            known.remove(&oldest);
        }
        known.insert(shown, now);
    }

    /// Somebody was refused, by a database that could be asked.
    pub(crate) fn turned_away(&self, headers: &HeaderMap) {
        if let Some(shown) = shown(headers) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shown);
        }
    }

    /// Whether this one was let in lately.
    pub(crate) fn knows(&self, headers: &HeaderMap, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown(headers).and_then(|shown| known.get(&shown).copied()).is_some_and(|at| now.duration_since(at) < KNOWN)
    }
}

/// Of a token, not of a cookie: those are people's.
fn shown(headers: &HeaderMap) -> Option<ContentHash> {
    headers.get(header::AUTHORIZATION).map(|value| ContentHash::of(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(token: &str) -> HeaderMap {
        [(header::AUTHORIZATION, token.parse().expect("a header"))].into_iter().collect()
    }

    #[test]
    fn few_are_known_and_not_for_long() {
        let (scrapers, now) = (Scrapers::default(), Instant::now());
        assert!(!scrapers.knows(&with("one"), now));
        scrapers.let_in(&with("one"), now);
        assert!(scrapers.knows(&with("one"), now) && !scrapers.knows(&with("two"), now));
        assert!(!scrapers.knows(&with("one"), now + KNOWN));
        scrapers.turned_away(&with("one"));
        assert!(!scrapers.knows(&with("one"), now));
        for number in 0..=MOST {
            scrapers.let_in(&with(&number.to_string()), now + Duration::from_secs(number as u64));
        }
        assert!(!scrapers.knows(&with("0"), now) && scrapers.knows(&with("1"), now));
        scrapers.let_in(&HeaderMap::new(), now);
        assert!(!scrapers.knows(&HeaderMap::new(), now));
    }
}
