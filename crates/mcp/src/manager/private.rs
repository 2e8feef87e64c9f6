//! Connections of one client alone. A server with sessions that asks its clients something cannot say whom it means when many
//! share one, so from then on each client that can be asked gets its own: its own session, with what it offers, and where the
//! server is a process, a process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep};

use super::ManagerError;
use super::Status;
use super::company::Desk;
use super::link::Link;
use crate::connection::{Answers, Boxed, ConnectError, Connection, Notice, Refusal};

/// So long one stays for a client that does not use it.
const IDLE: Duration = Duration::from_secs(300);

/// The most of one link. Who comes then waits until another client is gone.
const MOST: usize = 64;

/// Those of one link, by who uses them.
#[derive(Default)]
pub(super) struct Privates(Mutex<HashMap<String, Arc<Private>>>);

struct Private {
    connection: OnceCell<Connection>,
    running: AtomicUsize,
    used: Mutex<Instant>,
}

impl Private {
    fn is_idle(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.running.load(Ordering::Acquire) == 0 && used.elapsed() >= IDLE
    }
}

/// The right to use one for a call.
pub(super) struct Alone {
    pub(super) connection: Connection,
    private: Arc<Private>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        *self.private.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.private.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Privates {
    /// Ends all of them.
    pub(super) fn clear(&self) {
        self.all().clear();
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Private>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one of this client, made or to be made.
    fn of(&self, who: &str) -> Result<Arc<Private>, ManagerError> {
        let mut all = self.all();
        all.retain(|_, private| !private.connection.get().is_some_and(Connection::is_closed));
        if all.len() >= MOST && !all.contains_key(who) {
            all.retain(|_, private| private.running.load(Ordering::Acquire) > 0);
        }
        if all.len() >= MOST && !all.contains_key(who) {
            let reason = format!("{MOST} clients have connections of their own to it already");
            return Err(ManagerError::NotConnected { status: Status::Connected, reason });
        }
        let private = all.entry(who.to_owned()).or_insert_with(|| {
            let used = Mutex::new(Instant::now());
            Arc::new(Private { connection: OnceCell::new(), running: AtomicUsize::new(0), used })
        });
        private.running.fetch_add(1, Ordering::AcqRel);
        Ok(private.clone())
    }
}

impl Link {
    /// The same for one that is there already, which stays for as long as this does.
    pub(super) fn kept(&self, who: &str) -> Option<Alone> {
        let all = self.privates.all();
        let private = all.get(who)?;
        let connection = private.connection.get().filter(|connection| !connection.is_closed())?.clone();
        private.running.fetch_add(1, Ordering::AcqRel);
        Some(Alone { connection, private: private.clone() })
    }

    /// The connection of one client alone, if it has one.
    pub(super) fn private_of(&self, who: &str) -> Option<Connection> {
        let private = self.privates.all().get(who).cloned()?;
        private.connection.get().filter(|connection| !connection.is_closed()).cloned()
    }

    /// The connection of one client alone, opened if need be.
    pub(super) async fn alone(self: &Arc<Self>, company: &Arc<dyn Answers>) -> Result<Alone, ManagerError> {
        let private = self.privates.of(company.who())?;
        let opened = private.connection.get_or_try_init(|| self.open_for(company)).await.cloned();
        // It is given back whatever comes of it.
        let using = |connection| Alone { connection, private: private.clone() };
        match opened {
            Ok(connection) => Ok(using(connection)),
            Err(error) => {
                private.running.fetch_sub(1, Ordering::AcqRel);
                let reason = self.redactor.text(&error.to_string());
                Err(ManagerError::NotConnected { status: Status::Error, reason })
            }
        }
    }

    async fn open_for(self: &Arc<Self>, company: &Arc<dyn Answers>) -> Result<Connection, ConnectError> {
        let (told, mut notices) = unbounded_channel();
        let offers = Arc::new(Offers(company.capabilities(false)));
        let last = self.state().revision.clone();
        let (options, tokens) = (self.shared.settings.options_of(&self.org), self.tokens.clone());
        let endpoint = &self.identity.endpoint;
        let connection = Connection::open_again(endpoint, &options, tokens, told, offers, last.as_deref()).await?;
        // Who waits for what it says looks where it comes from now.
        self.news.send_replace(());
        let (link, who) = (Arc::downgrade(self), company.who().to_owned());
        tokio::spawn(async move {
            loop {
                let notice = tokio::select! {
                    notice = notices.recv() => notice,
                    () = sleep(IDLE) => {
                        let Some(link) = link.upgrade() else { return };
                        let mut all = link.privates.all();
                        if all.get(&who).is_some_and(|private| private.is_idle()) {
                            all.remove(&who);
                            return;
                        }
                        continue;
                    }
                };
                let Some(link) = link.upgrade() else { return };
                match notice {
                    Some(Notice::Log(text)) => link.log(&text),
                    // It is this client's own, and nobody else's business.
                    Some(Notice::Told { method, params, .. }) => link.told(&method, &params, Some(&who)),
                    Some(Notice::ToolsChanged) => {}
                    Some(Notice::Moved(_) | Notice::Closed(_)) | None => return,
                }
            }
        });
        Ok(connection)
    }
}

/// Offers what one client does. Without a call of it, nobody is there.
struct Offers(Map<String, Value>);

impl Answers for Offers {
    fn capabilities(&self, stateless: bool) -> Map<String, Value> {
        if stateless { Map::new() } else { self.0.clone() }
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        Desk.answer(method, params)
    }
}
