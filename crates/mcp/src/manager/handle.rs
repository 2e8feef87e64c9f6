//! What those who share a link hold: the door to its task, and the right to use its connection for a call.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::ServerKey;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::link::{Ask, Hope, Link, Member, Plan, Shared};
use super::{Configured, ManagerError, NotLent, Status, tend};
use crate::connection::Connection;
use crate::tool::ToolDefinition;

/// The right to use a connection for one call. While there is one, the server does not count as idle.
pub(super) struct Using {
    pub(super) connection: Connection,
    /// Whether the server answered.
    pub(super) answered: bool,
    /// Whether the server was used by it, so that it is not idle.
    counts: bool,
    link: Arc<Link>,
}

impl Drop for Using {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.link.state();
        state.running -= 1;
        if self.counts {
            state.used = now;
        }
        if self.answered {
            state.answered = now;
        }
        if state.running == 0 && state.connection.is_none() {
            self.link.quiet.notify_waiters();
        }
    }
}

/// What those who share a link hold. When the last is gone, the task ends.
pub(super) struct Handle {
    pub(super) link: Arc<Link>,
    asks: mpsc::UnboundedSender<Ask>,
    done: watch::Receiver<bool>,
}

impl Handle {
    /// Makes a link for its first server, and its task. It begins when `after`, which it replaces, has ended.
    pub(super) fn start(shared: Arc<Shared>, configured: &Configured, plan: Plan, after: Option<&Self>) -> Arc<Self> {
        let lazy = plan.lazy;
        let link = Arc::new(Link::new(shared, configured.org.clone(), plan));
        let (asks, asked) = mpsc::unbounded_channel();
        let (ended, done) = watch::channel(false);
        let after = after.map(|handle| handle.done.clone());
        let handle = Arc::new(Self { link: link.clone(), asks, done });
        // Before its task begins, which would find nobody who wants it and leave it asleep.
        handle.join(configured, lazy);
        tokio::spawn(tend::tend(link, asked, ended, after));
        handle
    }

    pub(super) fn ask(&self, ask: Ask) {
        // A task that has ended has nothing left to do.
        let _ = self.asks.send(ask);
    }

    /// One more shares it, from now on.
    pub(super) fn join(&self, configured: &Configured, lazy: bool) {
        let (key, launch) = (&configured.key, configured.launch.fingerprint());
        let mut state = self.link.state();
        if !lazy && matches!(state.hope, Hope::Asleep) {
            self.ask(Ask::Wake);
        }
        if let Some(member) = state.members.iter_mut().find(|member| member.key == *key) {
            member.lazy = lazy;
            member.mark.clone_from(&configured.mark);
            if member.launch != launch {
                // Other words for the same thing.
                (member.launch, member.revision) = (launch, configured.revision.clone());
                member.offers.clone_from(&configured.offers);
                self.link.tell_revision(&mut state);
            }
        } else {
            let (revision, offers) = (configured.revision.clone(), configured.offers.clone());
            let mark = configured.mark.clone();
            state.members.push(Member { key: key.clone(), lazy, launch, revision, offers, mark });
            self.link.tell(self.link.status_change(&state, key));
            if let (true, Some(tools)) = (state.live, &state.tools) {
                self.link.tell(self.link.tools_change(&state, key, tools, true));
            }
            self.link.tell_revision(&mut state);
        }
    }

    /// One fewer shares it; with the last one it ends. Answers the tools it has.
    pub(super) fn leave(&self, key: &ServerKey) -> Option<Arc<[ToolDefinition]>> {
        let mut state = self.link.state();
        state.members.retain(|member| member.key != *key);
        if state.members.is_empty() {
            state.stopping = true;
            self.ask(Ask::Stop);
        }
        state.tools.clone()
    }

    /// Ends it, whoever shares it.
    pub(super) fn stop(&self) {
        self.link.state().stopping = true;
        self.ask(Ask::Stop);
    }

    /// Whether another node may have to wait until something of it has ended.
    pub(super) fn holds(&self) -> bool {
        let state = self.link.state();
        state.lease.is_some() || state.sought.is_some()
    }

    /// Why there is no connection that another node could use, if nobody wants it to be started.
    pub(super) fn unlent(&self) -> NotLent {
        let state = self.link.state();
        match (state.hope, state.status) {
            (Hope::Soon, _) | (_, Status::Disconnected) => NotLent::NotHere,
            (_, status) => ManagerError::NotConnected { status, reason: state.reason.clone() }.into(),
        }
    }

    /// Lets go of what this node holds of it, when nobody uses it or `patience` is over. Waits until it is gone.
    pub(super) async fn release(&self, patience: Duration) {
        let (told, done) = oneshot::channel();
        self.ask(Ask::Release(patience, told));
        // A task that has ended holds nothing.
        let _ = done.await;
    }

    /// Until it is not connecting any more.
    pub(super) async fn settled(&self) {
        let mut news = self.link.news.subscribe();
        while self.link.state().status == Status::Connecting {
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether nobody may join it any more.
    pub(super) fn is_stopping(&self) -> bool {
        self.link.state().stopping
    }

    /// Whether its task has ended.
    pub(super) fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    /// Until the task has ended and its server with it.
    pub(super) async fn done(&self) {
        // An error means that the task is gone, which is what is waited for.
        let _ = self.done.clone().wait_for(|done| *done).await;
    }

    /// The connection, for one call, if it is there.
    pub(super) fn try_enter(&self) -> Option<Using> {
        self.try_enter_for(true)
    }

    /// The same for what does not count as use, perhaps.
    pub(super) fn try_enter_for(&self, counts: bool) -> Option<Using> {
        let mut state = self.link.state();
        if state.stopping {
            return None;
        }
        // One that is over is not there, even if that has not come around yet.
        let connection = state.connection.clone().filter(|connection| !connection.is_closed())?;
        state.running += 1;
        if counts {
            state.used = Instant::now();
        }
        Some(Using { connection, answered: false, counts, link: self.link.clone() })
    }

    /// The same; it is waited for if there is reason to, but not longer than this.
    pub(super) async fn enter(&self, within: Duration) -> Result<Using, ManagerError> {
        let until = Instant::now() + within;
        let mut news = self.link.news.subscribe();
        let mut woken = false;
        loop {
            if let Some(using) = self.try_enter() {
                return Ok(using);
            }
            let refusal = {
                let state = self.link.state();
                let hopeless = match state.hope {
                    _ if state.stopping => true,
                    Hope::None => true,
                    Hope::At(at) => at > until,
                    // It was tried for us, and fell asleep again.
                    Hope::Asleep => woken && state.status == Status::Error,
                    Hope::Soon => false,
                };
                let refusal = match state.status {
                    Status::RequiresAuth => ManagerError::NeedsAuth { challenge: state.challenge.clone() },
                    status => ManagerError::NotConnected { status, reason: state.reason.clone() },
                };
                if hopeless {
                    return Err(refusal);
                }
                refusal
            };
            self.ask(Ask::Wake);
            woken = true;
            match tokio::time::timeout_at(until, news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(refusal),
            }
        }
    }
}
