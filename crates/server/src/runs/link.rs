//! One executor that is connected: what it says is heard, and while it has room it is given what it may take. What that is is found out
//! beside ([`super::look`]), so that it is heard meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use kitbag_model::run::wire::{AttemptId, FromExecutor, FromServer, PROTOCOL};
use kitbag_model::run::{Executor, Run};
use kitbag_model::{OrgId, run};
use kitbag_store::StoreError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::AgentRuns;
use super::choose::Standing;
use super::links::Wish;
use super::look::{Bookmarks, Look, Looked};

/// The most bytes of one message of an executor. An answer may have a million characters, and a batch has many events.
pub(crate) const LARGEST_MESSAGE: usize = 32 << 20;

/// How long an executor may take to say what it is.
const GREETING: Duration = Duration::from_secs(10);

/// How often it is looked for work though nobody said that there is some: another server may have taken it in.
const LOOK: Duration = Duration::from_secs(2);

/// The most engines that an executor may say it has.
const MOST_ENGINES: usize = 32;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("it is gone")]
    Gone,
    #[error("{0}")]
    Wrong(String),
    #[error("a newer connection of it is there")]
    Replaced,
    #[error("it was taken out")]
    Revoked,
    #[error("the server stops")]
    Stopping,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What happens next at a connection.
enum Next {
    Wish(Option<Wish>),
    Heard(Option<Result<Message, axum::Error>>),
    /// There may be work.
    Look,
    /// What there was.
    Looked(Result<Looked, StoreError>),
}

/// An executor that is connected.
pub(super) struct Link {
    pub(super) runs: AgentRuns,
    /// The organisation that it was paired with.
    pub(super) home: OrgId,
    pub(super) executor: Arc<Executor>,
    /// Which of its connections this is.
    number: u64,
    socket: WebSocket,
    /// The attempts that it has, and whose they are.
    pub(super) held: HashMap<AttemptId, OrgId>,
    /// When it may be given something again.
    pub(super) not_before: Instant,
    /// When it was given something last, as a number that grows.
    given: u64,
    /// The look for work that is under way.
    looking: Option<JoinHandle<Result<Looked, StoreError>>>,
    /// Where the next one goes on.
    bookmarks: Bookmarks,
}

impl AgentRuns {
    /// Serves a connection to its end.
    pub(crate) async fn connected(&self, home: OrgId, executor: Executor, socket: WebSocket) {
        let id = executor.id;
        let (number, wishes) = self.0.links.add(id);
        let mut link = Link {
            runs: self.clone(),
            home: home.clone(),
            executor: Arc::new(executor),
            number,
            socket,
            held: HashMap::new(),
            not_before: Instant::now(),
            given: 0,
            looking: None,
            bookmarks: Bookmarks::default(),
        };
        let over = match link.greet().await {
            Ok(()) => {
                tracing::info!(executor = %id, engines = link.executor.engines.len(), "an executor is connected");
                self.tell_executor(&home, &link.executor, true);
                link.serve(wishes).await
            }
            Err(over) => over,
        };
        match &over {
            Over::Store(error) => tracing::warn!(executor = %id, %error, "a connection of an executor failed"),
            other => tracing::info!(executor = %id, reason = %other, "a connection of an executor is over"),
        }
        if self.0.links.remove(id, number) {
            self.tell_executor(&home, &link.executor, false);
        }
        link.close(&over).await;
    }
}

impl Link {
    /// Hears what the executor is and what it has, and says what is wanted of it.
    async fn greet(&mut self) -> Result<(), Over> {
        let hello =
            timeout(GREETING, self.hear()).await.map_err(|_| Over::Wrong("it did not say hello".to_owned()))??;
        let FromExecutor::Hello { protocol, version, mut engines, capacity, containers, holding } = hello else {
            return Err(Over::Wrong("the first message must be hello".to_owned()));
        };
        if protocol != PROTOCOL {
            let message = format!("it speaks version {protocol} of the protocol, and this server {PROTOCOL}");
            return Err(Over::Wrong(message));
        }
        engines.truncate(MOST_ENGINES);
        let version: String = version.chars().filter(|c| !c.is_control()).take(60).collect();
        let capacity = capacity.clamp(1, run::executor::MOST_CAPACITY);
        let mut tx = self.runs.0.store.write(&self.home).await?;
        tx.executor_said(self.executor.id, &version, &engines, capacity, containers).await?;
        // Not merely what was known at the door: it may have been taken out just now.
        let known = tx.executor(self.executor.id).await?.filter(|known| known.revoked_at.is_none());
        tx.commit_chat().await?;
        self.executor = Arc::new(known.ok_or(Over::Revoked)?);
        let settings = self.runs.0.settings;
        let seconds = |span: Duration| u32::try_from(span.as_secs().max(1)).unwrap_or(u32::MAX);
        self.say(&FromServer::Welcome {
            executor_id: self.executor.id,
            heartbeat_seconds: seconds(settings.heartbeat()),
            lease_seconds: seconds(settings.lease),
        })
        .await?;
        self.reconcile(holding).await
    }

    async fn serve(&mut self, mut wishes: mpsc::UnboundedReceiver<Wish>) -> Over {
        let mut work = self.runs.0.work.subscribe();
        let mut over = self.runs.0.events.over();
        let mut look = interval(LOOK);
        // What was not looked for while it was looked for is not made up for.
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let lease = self.runs.0.settings.lease;
        let mut silent_until = Instant::now() + lease;
        loop {
            // While it looks for work, the look says how it stands with it.
            if self.looking.is_none() {
                self.stand();
            }
            let next = tokio::select! {
                biased;
                _ = over.wait_for(|over| *over) => return Over::Stopping,
                wish = wishes.recv() => Next::Wish(wish),
                looked = found(&mut self.looking) => Next::Looked(looked),
                heard = self.socket.recv() => Next::Heard(heard),
                () = tokio::time::sleep_until(silent_until) => return Over::Gone,
                _ = work.changed(), if self.looking.is_none() => Next::Look,
                _ = look.tick(), if self.looking.is_none() => Next::Look,
            };
            let done = match next {
                Next::Wish(wish) => self.wished(wish).await,
                Next::Look => {
                    self.look();
                    Ok(())
                }
                Next::Looked(looked) => self.give(looked).await,
                Next::Heard(heard) => {
                    silent_until = Instant::now() + lease;
                    match read(heard) {
                        Ok(Some(message)) => self.heard(message).await,
                        Ok(None) => Ok(()),
                        Err(over) => Err(over),
                    }
                }
            };
            if let Err(over) = done {
                return over;
            }
        }
    }

    async fn wished(&mut self, wish: Option<Wish>) -> Result<(), Over> {
        match wish {
            Some(Wish::Cancel(id)) => self.say(&FromServer::Cancel { id }).await,
            Some(Wish::Changed) => self.look_again().await,
            Some(Wish::Revoked) => Err(Over::Revoked),
            Some(Wish::Replaced) | None => Err(Over::Replaced),
        }
    }

    /// What is said of the executor may have changed, here or by another server.
    pub(super) async fn look_again(&mut self) -> Result<(), Over> {
        let found = self.runs.0.store.read_beside(&self.home).await?.executor(self.executor.id).await?;
        let found = found.filter(|executor| executor.revoked_at.is_none()).ok_or(Over::Revoked)?;
        self.executor = Arc::new(found);
        Ok(())
    }

    /// Lets the other connections know how it stands with this one.
    fn stand(&self) {
        self.runs.0.links.stands(self.number, self.standing());
    }

    fn standing(&self) -> Standing {
        Standing {
            executor: Arc::clone(&self.executor),
            home: self.home.clone(),
            held: self.held.len(),
            is_open: Instant::now() >= self.not_before,
            given: self.given,
        }
    }

    /// Looks for what the executor may take, as far as it has room.
    fn look(&mut self) {
        let room = (self.executor.capacity as usize).saturating_sub(self.held.len());
        if room == 0 || Instant::now() < self.not_before {
            return;
        }
        let bookmarks = std::mem::take(&mut self.bookmarks);
        let look = Look::new(self.runs.clone(), self.number, self.standing(), room, bookmarks);
        self.looking = Some(tokio::spawn(look.look()));
    }

    /// Waits for the look that is under way, for what must not come between it and its end.
    pub(super) async fn settle(&mut self) -> Result<(), Over> {
        if self.looking.is_some() {
            let looked = found(&mut self.looking).await;
            self.give(looked).await?;
        }
        Ok(())
    }

    /// Gives the executor what was found for it.
    async fn give(&mut self, looked: Result<Looked, StoreError>) -> Result<(), Over> {
        self.looking = None;
        let Looked { claimed, bookmarks, given } = looked?;
        (self.bookmarks, self.given) = (bookmarks, given);
        for (org, run) in &claimed {
            self.held.insert(AttemptId { run_id: run.id, attempt: run.attempt }, org.clone());
        }
        for (org, run) in claimed {
            self.assign(org, &run).await?;
        }
        Ok(())
    }

    /// Tells the executor of a run that it has. What cannot be told goes back.
    pub(super) async fn assign(&mut self, org: OrgId, run: &Run) -> Result<(), Over> {
        let id = AttemptId { run_id: run.id, attempt: run.attempt };
        match self.runs.assignment(&org, run, self.executor.id).await {
            Ok(assignment) => {
                self.held.insert(id, org);
                self.say(&FromServer::Run(Box::new(assignment))).await
            }
            Err(error) => {
                tracing::error!(run = %run.id, %error, "a run could not be put together");
                self.held.remove(&id);
                self.runs.release(&org, id, &format!("it could not be put together: {error}")).await?;
                Ok(())
            }
        }
    }

    pub(super) async fn say(&mut self, message: &FromServer) -> Result<(), Over> {
        let text = serde_json::to_string(message).map_err(|error| Over::Wrong(error.to_string()))?;
        self.socket.send(Message::text(text)).await.map_err(|_| Over::Gone)
    }

    /// The next message, whatever comes between.
    async fn hear(&mut self) -> Result<FromExecutor, Over> {
        loop {
            if let Some(message) = read(self.socket.recv().await)? {
                return Ok(message);
            }
        }
    }

    async fn close(&mut self, over: &Over) {
        let code = match over {
            Over::Gone => return,
            Over::Wrong(_) => close_code::POLICY,
            Over::Revoked => {
                let _ = self.say(&FromServer::Revoked).await;
                close_code::POLICY
            }
            Over::Replaced | Over::Stopping => close_code::AWAY,
            Over::Store(_) => close_code::ERROR,
        };
        // What went wrong inside is in the log, and nobody else's business.
        let reason = match over {
            Over::Store(_) => "something went wrong; come again".to_owned(),
            over => over.to_string().chars().take(40).collect(),
        };
        let _ = self.socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    }
}

/// What a look for work came to, once it has; never, if nobody looks.
async fn found(looking: &mut Option<JoinHandle<Result<Looked, StoreError>>>) -> Result<Looked, StoreError> {
    let Some(task) = looking else { return std::future::pending().await };
    match task.await {
        Ok(looked) => looked,
        Err(error) => {
            tracing::error!(%error, "a look for work broke off");
            Ok(Looked::default())
        }
    }
}

/// What a frame says; none if it is only there to show that somebody is.
fn read(heard: Option<Result<Message, axum::Error>>) -> Result<Option<FromExecutor>, Over> {
    match heard {
        Some(Ok(Message::Text(text))) => {
            let message = serde_json::from_str(&text);
            message.map(Some).map_err(|error| Over::Wrong(format!("a message cannot be read: {error}")))
        }
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
        Some(Ok(Message::Binary(_))) => Err(Over::Wrong("messages are text".to_owned())),
        Some(Ok(Message::Close(_)) | Err(_)) | None => Err(Over::Gone),
    }
}
