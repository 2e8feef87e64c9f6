//! Sign-ins that have begun, until a browser goes there. Each is for one browser: the first that comes with its ticket gets the value
//! that the answer must come back with. What a browser is asked and told is not known here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitbag_mcp::auth::Started;
use kitbag_model::{OrgId, Secret, ServerKey};
use tokio::time::Instant;

/// How long a ticket is good: as long as a person may take to sign in.
pub(crate) const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// So many wait at the most; the oldest goes first.
const MOST: usize = 1000;

/// A sign-in that has begun.
pub(crate) struct Begun {
    pub(crate) org: OrgId,
    pub(crate) key: ServerKey,
    pub(crate) started: Started,
    /// What the browser that goes there must come back with.
    pub(crate) value: Secret,
}

/// Who may end a sign-in: whoever has this value.
pub(crate) fn person(value: &Secret) -> String {
    format!("browser {}", value.hash())
}

/// Those that wait for their browser, by the hash of their ticket.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, (Instant, Begun)>>);

impl Tickets {
    /// Keeps a sign-in. Its ticket.
    pub(crate) fn keep(&self, begun: Begun) -> Secret {
        let (ticket, now) = (Secret::generate(), Instant::now());
        let mut all = self.all();
        all.retain(|_, (since, _)| now.duration_since(*since) < LIFETIME);
        if all.len() >= MOST
            && let Some(oldest) = all.iter().min_by_key(|(_, (since, _))| *since).map(|(hash, _)| hash.clone())
        {
            all.remove(&oldest);
        }
        all.insert(ticket.hash().to_string(), (now, begun));
        ticket
    }

    /// Takes a sign-in out: a ticket is good once.
    pub(crate) fn take(&self, ticket: &Secret) -> Option<Begun> {
        let (since, begun) = self.all().remove(&ticket.hash().to_string())?;
        (since.elapsed() < LIFETIME).then_some(begun)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, (Instant, Begun)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
