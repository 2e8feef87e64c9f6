//! All sessions. They are known by random names, belong to who opened them and the address where they were opened, and end when
//! nobody uses them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::Fault;
use super::session::Session;

/// How often it is looked after idle ones.
const SWEEP: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Sessions(Arc<RwLock<HashMap<String, Arc<Session>>>>);

impl Sessions {
    /// A name that nobody can guess.
    pub(super) fn name() -> Result<String, Fault> {
        let mut random = [0_u8; 24];
        getrandom::fill(&mut random)
            .map_err(|_| Fault::new(super::code::INTERNAL, "there is no randomness to be had").with_status(500))?;
        Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Takes a session in, unless its owner has too many: the one that was idle the longest then makes room, if any is idle.
    pub(super) fn insert(&self, session: Arc<Session>, most: usize) -> Result<(), Fault> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let theirs = table.values().filter(|other| other.owner() == session.owner());
        if theirs.count() >= most {
            let idle = table.values().filter(|other| other.owner() == session.owner() && other.is_idle(Duration::ZERO));
            let Some(oldest) = idle.max_by_key(|session| session.idle_for()).cloned() else {
                let message = format!("there are {most} sessions of this client already; end one");
                return Err(Fault::new(-32000, message).with_status(429));
            };
            table.remove(oldest.id());
            oldest.end();
        }
        table.insert(session.id().to_owned(), session);
        Ok(())
    }

    /// A session of this owner at this address. Another's is not there.
    pub(super) fn find(&self, id: &str, owner: &str, place: &str) -> Option<Arc<Session>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let session = table.get(id).filter(|session| session.belongs_to(owner, place)).cloned();
        session.inspect(|session| session.touch())
    }

    pub(super) fn remove(&self, session: &Session) {
        let gone = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(session.id());
        if let Some(session) = gone {
            session.end();
        }
    }

    /// Ends all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        all.into_values().for_each(|session| session.end());
    }

    /// Ends those that nobody uses, now and then, for as long as there are any sessions to speak of.
    pub(super) fn sweep(&self, idle: Duration) {
        let table = Arc::downgrade(&self.0);
        // Without a runtime nobody comes.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP.min(idle)).await;
                let Some(table) = table.upgrade() else { return };
                let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
                let gone: Vec<String> =
                    table.iter().filter(|(_, session)| session.is_idle(idle)).map(|(id, _)| id.clone()).collect();
                let gone: Vec<_> = gone.iter().filter_map(|id| table.remove(id)).collect();
                drop(table);
                gone.into_iter().for_each(|session| session.end());
            }
        });
    }
}
