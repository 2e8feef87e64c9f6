//! Requests of clients without a session that wait for an answer of theirs. The client has to ask again with it, and what it
//! then shows (`requestState`) leads here: a random name that nobody can guess, good once, for its owner, for the same request,
//! for some minutes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::Fault;
use super::exchange::Exchange;

/// How its names begin, so that they can be told from those of servers behind us.
const MARK: &str = "kitbag.";

/// How long a client may take to come back.
const PATIENCE: Duration = Duration::from_secs(600);

/// How many requests of one owner may wait.
const MOST: usize = 256;

#[derive(Clone, Default)]
pub(super) struct Suspended(Arc<Mutex<HashMap<String, Parked>>>, Option<Mark>);

/// What names end with, behind an `@`.
pub(super) type Mark = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A request that waits.
pub(super) struct Parked {
    pub exchange: Arc<Exchange>,
    /// How far its reader was.
    pub place: u64,
    owner: String,
    digest: [u8; 32],
    until: Instant,
}

/// What a request is, without what may differ when it is made again.
pub(super) fn digest(method: &str, params: Option<&RawValue>) -> [u8; 32] {
    let mut params: Map<String, Value> =
        params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
    for name in ["_meta", "inputResponses", "requestState"] {
        params.remove(name);
    }
    params.sort_keys();
    let mut value = Value::Object(params);
    value.sort_all_objects();
    let mut hasher = Sha256::new();
    hasher.update(method.as_bytes());
    hasher.update([0]);
    hasher.update(value.to_string().as_bytes());
    hasher.finalize().into()
}

impl Suspended {
    pub(super) fn marked(self, mark: Mark) -> Self {
        Self(self.0, Some(mark))
    }

    /// Whether this is a name of ours.
    pub(super) fn is_name(state: &str) -> bool {
        state.starts_with(MARK)
    }

    /// Puts a request aside and makes the result that asks its client.
    pub(super) fn park(
        &self,
        exchange: &Arc<Exchange>,
        place: u64,
        owner: &str,
        digest: [u8; 32],
    ) -> Result<Value, Fault> {
        let mut random = [0; 24];
        getrandom::fill(&mut random)
            .map_err(|_| Fault::new(super::code::INTERNAL, "there is no randomness to be had").with_status(500))?;
        let mut name = format!("{MARK}{}", URL_SAFE_NO_PAD.encode(random));
        if let Some(mark) = self.1.as_ref().and_then(|mark| mark()) {
            name.push('@');
            name.push_str(&mark);
        }
        let requests: Map<String, Value> = exchange.questions(|questions| {
            let shown = questions.iter();
            shown.map(|one| (one.key.clone(), json!({"method": one.method, "params": one.params}))).collect()
        });
        let until = Instant::now() + PATIENCE;
        {
            let mut table = self.table();
            if table.values().filter(|parked| parked.owner == owner).count() >= MOST {
                let message = format!("{MOST} requests wait for answers of this client already");
                return Err(Fault::new(super::code::INTERNAL, message).with_status(429));
            }
            let parked = Parked { exchange: exchange.clone(), place, owner: owner.to_owned(), digest, until };
            table.insert(name.clone(), parked);
        }
        self.forget_later(name.clone());
        Ok(json!({"resultType": "input_required", "inputRequests": requests, "requestState": name}))
    }

    /// Takes a request up again. What is wrong with the state is not told: it is nobody's business but its owner's.
    pub(super) fn take(&self, name: &str, owner: &str, digest: &[u8; 32]) -> Result<Parked, Fault> {
        let mut table = self.table();
        let fits = |parked: &Parked| parked.owner == owner && parked.digest == *digest && parked.until > Instant::now();
        if !table.get(name).is_some_and(fits) {
            let message = "`requestState` is not one that was given for this request, or its time is up; ask anew";
            return Err(Fault::params(message).with_status(400));
        }
        table.remove(name).ok_or_else(|| Fault::params("`requestState` was used before"))
    }

    fn forget_later(&self, name: String) {
        let table = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            sleep(PATIENCE).await;
            let Some(table) = table.upgrade() else { return };
            let parked = table.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            if let Some(parked) = parked {
                parked.exchange.stop();
                parked.exchange.questions(Vec::clear);
            }
        });
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the client's answers to those who asked. What it did not answer is asked again.
pub(super) fn hand_over(exchange: &Exchange, answers: &mut Map<String, Value>) {
    exchange.questions(|questions| {
        let waiting = std::mem::take(questions);
        for question in waiting {
            match answers.remove(&question.key) {
                Some(answer) => {
                    let _ = question.reply.send(Ok(answer));
                }
                None => questions.push(question),
            }
        }
    });
}
