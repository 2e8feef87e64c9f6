//! How often somebody may be wrong. Each address that one signs in with has ten tries, and gets one back every half minute: who forgot a
//! password has enough, and who guesses one has not. Each client has more, since many people may share an address of the network, and
//! enough is counted that nobody tries one password on every address.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kitbag_model::Identity;

use crate::access::client::ClientAddress;
use crate::api::error::{ApiError, Code};

/// How many tries there are, and after how many seconds one comes back.
struct Measure {
    tries: f64,
    seconds_each: f64,
}

const ADDRESS: Measure = Measure { tries: 10.0, seconds_each: 30.0 };
const CLIENT: Measure = Measure { tries: 100.0, seconds_each: 6.0 };

/// So many are remembered; then those that have all their tries again are forgotten.
const MOST: usize = 100_000;

/// What addresses and clients have left.
#[derive(Default)]
pub(crate) struct Tries {
    addresses: Mutex<HashMap<String, (f64, Instant)>>,
    clients: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Tries {
    /// Takes one try away, of the address and of the client. It comes back at once if it was right ([`Tries::right`]).
    pub(crate) fn take(&self, who: &Identity, client: &ClientAddress) -> Result<(), ApiError> {
        self.take_of_client(client)?;
        if take(&self.addresses, who.as_str(), &ADDRESS) {
            return Ok(());
        }
        let message = "too many tries to sign in with this address; try again in half a minute";
        Err(ApiError::new(Code::RateLimited, message).retry_after(ADDRESS.seconds_each as u32))
    }

    /// The same where no address is known yet.
    pub(crate) fn take_of_client(&self, client: &ClientAddress) -> Result<(), ApiError> {
        if take(&self.clients, &client.0, &CLIENT) {
            return Ok(());
        }
        let message = "too many tries to sign in from your address; try again in a few seconds";
        Err(ApiError::new(Code::RateLimited, message).retry_after(CLIENT.seconds_each as u32))
    }

    /// It was right: whoever knows the password is not guessing. The client gets back what this one took and no more, or who has one
    /// account here could guess at all others.
    pub(crate) fn right(&self, who: &Identity, client: &ClientAddress) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).remove(who.as_str());
        self.right_of_client(client);
    }

    pub(crate) fn right_of_client(&self, client: &ClientAddress) {
        if let Some(left) = self.clients.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&client.0) {
            left.0 = (left.0 + 1.0).min(CLIENT.tries);
        }
    }
}

fn take(all: &Mutex<HashMap<String, (f64, Instant)>>, who: &str, measure: &Measure) -> bool {
    let now = Instant::now();
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST {
        all.retain(|_, left| recovered(*left, now, measure) < measure.tries);
    }
    let left = all.entry(who.to_owned()).or_insert((measure.tries, now));
    *left = (recovered(*left, now, measure), now);
    let allowed = left.0 >= 1.0;
    if allowed {
        left.0 -= 1.0;
    }
    allowed
}

fn recovered((left, at): (f64, Instant), now: Instant, measure: &Measure) -> f64 {
    (left + now.duration_since(at).as_secs_f64() / measure.seconds_each).min(measure.tries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Identity {
        Identity::of_email(&text.parse().expect("an address"))
    }

    fn from(text: &str) -> ClientAddress {
        ClientAddress(text.to_owned())
    }

    #[test]
    fn each_address_has_its_own_tries() {
        let (tries, [a, b], client) = (Tries::default(), ["a@b", "b@b"].map(address), from("1.1.1.1"));
        assert_eq!((0..20).filter(|_| tries.take(&a, &client).is_ok()).count(), 10);
        assert!(tries.take(&b, &client).is_ok());
        tries.right(&a, &client);
        assert!(tries.take(&a, &client).is_ok(), "whoever was right begins anew");
    }

    #[test]
    fn a_client_cannot_try_every_address() {
        let tries = Tries::default();
        let tried = |client: &ClientAddress, names: std::ops::Range<u32>| {
            names.filter(|n| tries.take(&address(&format!("{n}@b")), client).is_ok()).count()
        };
        assert_eq!(tried(&from("1.1.1.1"), 0..300), 100);
        // One account of one's own does not buy the next hundred.
        tries.right(&address("mine@b"), &from("1.1.1.1"));
        assert!(tried(&from("1.1.1.1"), 300..600) <= 2);
        assert!(tries.take(&address("5@b"), &from("2.2.2.2")).is_ok(), "somebody else is not held up");
    }
}
