//! How often somebody may be wrong. Each address has ten tries, and gets one back every half minute: who forgot a password has enough,
//! and who guesses one has not.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kitbag_model::Identity;

use crate::api::error::{ApiError, Code};

const TRIES: f64 = 10.0;
const SECONDS_EACH: f64 = 30.0;

/// So many addresses are remembered; then those that have all their tries again are forgotten.
const MOST: usize = 100_000;

/// What addresses have left.
#[derive(Default)]
pub(crate) struct Tries(Mutex<HashMap<String, (f64, Instant)>>);

impl Tries {
    /// Takes one try away. It comes back at once if it was right ([`Tries::right`]).
    pub(crate) fn take(&self, who: &Identity) -> Result<(), ApiError> {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, left| recovered(*left, now) < TRIES);
        }
        let left = all.entry(who.as_str().to_owned()).or_insert((TRIES, now));
        *left = (recovered(*left, now), now);
        if left.0 < 1.0 {
            let message = "too many tries to sign in with this address; try again in half a minute";
            return Err(ApiError::new(Code::RateLimited, message).retry_after(SECONDS_EACH as u32));
        }
        left.0 -= 1.0;
        Ok(())
    }

    /// It was right: whoever knows the password is not guessing.
    pub(crate) fn right(&self, who: &Identity) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(who.as_str());
    }
}

fn recovered((left, at): (f64, Instant), now: Instant) -> f64 {
    (left + now.duration_since(at).as_secs_f64() / SECONDS_EACH).min(TRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_tries() {
        let tries = Tries::default();
        let [a, b] = ["a@b", "b@b"].map(|text| Identity::of_email(&text.parse().expect("an address")));
        assert_eq!((0..20).filter(|_| tries.take(&a).is_ok()).count(), 10);
        assert!(tries.take(&b).is_ok());
        tries.right(&a);
        assert!(tries.take(&a).is_ok(), "whoever was right begins anew");
    }
}
