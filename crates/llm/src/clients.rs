//! The guard's clients, one for each origin and policy, so that the next question of a turn finds the connection of the one before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitbag_guard::dial::{EgressPolicy, FetchError, OriginClient};
use url::{Origin, Url};

/// So many are kept. Organisations name providers, so there may be any number of origins.
const MOST: usize = 64;

/// Clients that were made before; the one that was used last is at the end.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    origin: Origin,
    policy: Arc<EgressPolicy>,
    connect: Duration,
    client: OriginClient,
}

impl Clients {
    /// A client for the origin of `url`, if the policy allows it.
    pub(crate) async fn client(
        &self,
        url: &Url,
        policy: &Arc<EgressPolicy>,
        connect: Duration,
    ) -> Result<OriginClient, FetchError> {
        let origin = url.origin();
        if let Some(client) = self.kept(&origin, policy, connect) {
            return Ok(client);
        }
        let client = OriginClient::new(url, policy, connect).await?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(Kept { origin, policy: Arc::clone(policy), connect, client: client.clone() });
        Ok(client)
    }

    fn kept(&self, origin: &Origin, policy: &Arc<EgressPolicy>, connect: Duration) -> Option<OriginClient> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |kept: &Kept| kept.origin == *origin && kept.connect == connect && kept.policy == *policy;
        let at = all.iter().rposition(fits)?;
        let kept = all.remove(at);
        let client = kept.client.clone();
        all.push(kept);
        Some(client)
    }
}
