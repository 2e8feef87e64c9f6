//! The pulse of a node: it says that it is alive, and looks after those that are not.
//!
//! A node that was not heard of is declared dead by another, and never by one that was itself away a moment ago: after the database was away
//! all of them are late. Whoever learns that it was declared dead ends everything that it had begun, and goes on under another name.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::{CallError, CallErrorCode};
use kitbag_store::{Node, StoreError};
use uuid::Uuid;

use super::Nodes;
use crate::app::{App, WeakApp};
use crate::ops::numbers;

/// So often it is looked for calls of nodes that are gone though none went: one that is declared dead, and does not know it yet, records calls under its
/// name for as long as that, also when somebody else has ended all of that name.
const STRAYS: Duration = Duration::from_secs(600);

/// Since when a node was heard of without a break, as far as it knows itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    since: Instant,
    last: Instant,
}

impl Steady {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, last: now }
    }

    /// It was heard of, by what it began to say then and has said by now. One that was itself away, or had to wait for long, begins anew.
    fn renewed(&mut self, begun: Instant, now: Instant, period: Duration) {
        if begun - self.last > 2 * period || now - begun > period {
            self.since = now;
        }
        self.last = now;
    }

    /// It was not heard of.
    fn broke(&mut self, now: Instant) {
        self.since = now;
    }

    /// Whether it was heard of for all of this time, and is not away just now.
    fn is_for(&self, lease: Duration, now: Instant, period: Duration) -> bool {
        now - self.since > lease && now - self.last <= 2 * period
    }
}

impl Nodes {
    /// Beats for as long as there is somebody to beat for. It waits for nothing else than its beat: whatever takes longer the more there is
    /// of it is a chore.
    pub(crate) async fn beat(self, app: WeakApp) {
        let Some(store) = self.0.store.clone() else { return };
        let lease = self.0.settings.lease;
        let period = self.period();
        let mut peers = self.0.peers.subscribe();
        loop {
            // Those who came or went are looked at at once.
            let woken = async {
                tokio::select! {
                    _ = peers.changed() => {}
                    () = self.0.beat_now.notified() => {}
                }
            };
            let _ = tokio::time::timeout(period, woken).await;
            let Some(app) = app.upgrade() else { return };
            let begun = Instant::now();
            let renewed = tokio::time::timeout(lease, store.renew(&self.id(), lease)).await;
            match renewed {
                Ok(Ok(true)) => {
                    self.0.alive_until.send_replace(begun + lease);
                    self.steady().renewed(begun, Instant::now(), period);
                }
                Ok(Ok(false)) => {
                    self.begin_anew(&app).await;
                    self.steady().broke(Instant::now());
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the database could not be told that this node is alive");
                    self.steady().broke(Instant::now());
                }
                Err(_) => {
                    tracing::warn!("the database does not answer, and cannot be told that this node is alive");
                    self.steady().broke(Instant::now());
                }
            }
            match tokio::time::timeout(lease, self.look_around()).await {
                Ok(Ok(())) => self.0.chores.notify_one(),
                Ok(Err(error)) => tracing::warn!(%error, "which nodes there are could not be read"),
                Err(_) => tracing::warn!("the database does not answer, and does not say which nodes there are"),
            }
            peers.mark_unchanged();
        }
    }

    /// Does what is to be done when nodes come and go, one after the other, beside the pulse: there is more of it the more organisations
    /// there are, and a node that does not beat meanwhile is dead itself.
    async fn do_chores(self, app: WeakApp) {
        let (mut known, mut looked) = (self.names(), None::<Instant>);
        loop {
            self.0.chores.notified().await;
            let Some(app) = app.upgrade() else { return };
            if self.0.is_anew.swap(false, Ordering::SeqCst) {
                app.everything_changed().await;
            }
            let done = async {
                self.look_after(&app).await?;
                let there = self.names();
                let went = known.iter().any(|node| !there.contains(node));
                if went {
                    // Whoever watched the time of calls that wait for a yes may be gone.
                    app.calls().look_after_waiting().await?;
                }
                if went || looked.is_none_or(|at| at.elapsed() > STRAYS) {
                    app.calls().end_strays().await?;
                    looked = Some(Instant::now());
                }
                known = there;
                self.give_back(self.part_with(self.too_many())).await?;
                Ok::<_, StoreError>(())
            };
            if let Err(error) = done.await {
                tracing::warn!(%error, "the other nodes could not be looked after");
            }
        }
    }

    /// So often a node says that it is alive.
    fn period(&self) -> Duration {
        self.0.settings.lease / 3
    }

    fn steady(&self) -> MutexGuard<'_, Steady> {
        self.0.steady.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this node may say that others are dead: it was not away itself.
    fn may_judge(&self) -> bool {
        self.steady().is_for(self.0.settings.lease, Instant::now(), self.period())
    }

    /// The nodes that there are.
    fn names(&self) -> HashSet<String> {
        self.peers().iter().map(|node| node.id.clone()).collect()
    }

    /// Ends what those had begun that were not heard of.
    async fn look_after(&self, app: &App) -> Result<(), StoreError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        let me = self.id();
        for node in self.peers().iter().filter(|node| *node.id != *me && (node.is_late || node.is_dead)) {
            // Each time: what there was to do after the one before may have taken long, and this node may have slept.
            if self.may_judge() && store.declare_dead(&node.id, false).await? {
                numbers::declared_dead();
                self.clear_up_after(app, node).await?;
            }
        }
        Ok(())
    }

    /// The nodes that worked in this folder before: they are dead, for the folder is this one's alone.
    pub(crate) async fn take_up(&self, app: &App) -> Result<(), StoreError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        self.join().await?;
        let me = self.id();
        for node in self.peers().iter().filter(|node| *node.id != *me && node.home == self.home()) {
            store.declare_dead(&node.id, true).await?;
            self.clear_up_after(app, node).await?;
        }
        Ok(())
    }

    async fn clear_up_after(&self, app: &App, node: &Node) -> Result<(), StoreError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        tracing::warn!(node = node.id, address = node.address, "a node is dead; what it had begun is ended");
        app.calls().cut_off(&node.id).await?;
        // An engine may hang.
        let (containers, id) = (app.containers().clone(), node.id.clone());
        tokio::spawn(async move { containers.bury(&id).await });
        store.bury(&node.id).await?;
        self.look_around().await
    }

    /// Waits, not for long, until this node is there again under another name.
    pub(super) async fn come_back(&self) {
        let before = self.id();
        self.0.beat_now.notify_one();
        let end = Instant::now() + self.0.settings.lease;
        while Instant::now() < end && (self.id() == before || self.is_coming_back() || !*self.0.joined.lock().await) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits, not for long, until this node is there again, if it is not: what is begun before that is refused.
    pub(crate) async fn until_back(&self) {
        let end = Instant::now() + self.patience();
        while self.is_coming_back() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// This node was declared dead. Others may have what it held, and said how its calls ended.
    async fn begin_anew(&self, app: &App) {
        // Before anything is ended: what begins from here on would be recorded under a name that nobody looks after any more.
        self.0.coming_back.store(true, Ordering::SeqCst);
        // First: others may have started these by now. Nothing is asked of them any more, and nothing that they say counts.
        let letting_go = app.servers().let_go(Duration::ZERO);
        let chats: Vec<_> = self.held().drain().map(|(key, _)| key).collect();
        tracing::error!(
            chats = chats.len(),
            "another node took this one for dead; it ends what it had begun and goes on under another name"
        );
        numbers::lost(chats.len() + 1);
        self.0.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(chats.iter().cloned());
        for turn in app.running_turns() {
            turn.cancel(crate::turns::Why::Lost);
        }
        let why = CallError::new(
            CallErrorCode::Interrupted,
            "the server that ran it was not heard of for too long, and another one took over",
        );
        app.calls().end_all(&why).await;
        let containers = app.containers().clone();
        let ended: Vec<_> = chats.clone();
        let ending = tokio::spawn(async move {
            for (org, chat) in &ended {
                containers.end_chat(org, *chat).await;
            }
        });
        for (org, chat) in &chats {
            app.workers().end_chat(org, *chat).await;
        }
        // It goes on if the engine hangs; this node must come back all the same.
        let _ = tokio::time::timeout(self.0.settings.lease, ending).await;
        letting_go.await;
        *self.0.id.lock().unwrap_or_else(PoisonError::into_inner) = Uuid::now_v7().to_string().into();
        *self.0.joined.lock().await = false;
        while let Err(error) = self.join().await {
            tracing::warn!(%error, "this node cannot come back yet");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.0.is_anew.store(true, Ordering::SeqCst);
        self.0.chores.notify_one();
    }
}

/// Keeps a node alive until it is dropped.
pub(crate) struct Beating(Vec<tokio::task::JoinHandle<()>>);

impl App {
    /// Becomes a node, and begins to hear the others.
    pub async fn join(&self) -> Result<(), StoreError> {
        if self.nodes().0.store.is_none() {
            return Ok(());
        }
        let nodes = self.nodes().clone();
        // First: whatever is remembered from here on is told if it changes.
        let listening = nodes.listen().await?;
        nodes.join().await?;
        let beat = tokio::spawn(nodes.clone().beat(self.downgrade()));
        let chores = tokio::spawn(nodes.clone().do_chores(self.downgrade()));
        let hear = tokio::spawn(nodes.hear(listening, self.downgrade()));
        let tell = self.nodes().clone().tell(self.events());
        let tasks = [Some(beat), Some(chores), Some(hear), tell].into_iter().flatten().collect();
        self.keep_beating(Beating(tasks));
        Ok(())
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each began and ended, in seconds.
    type Renewals = &'static [(u64, u64)];

    #[test]
    fn who_was_away_itself_judges_nobody_for_a_whole_lease() {
        let (lease, period) = (Duration::from_secs(15), Duration::from_secs(5));
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        // What happened, its renewals, a moment, and whether it may judge then.
        let table: [(&str, Renewals, u64, bool); 6] = [
            ("it has just come", &[(5, 5), (10, 10)], 10, false),
            ("it was there all the time", &[(5, 5), (10, 10), (15, 15), (20, 20)], 20, true),
            ("it slept and has just woken", &[(5, 5), (10, 10), (15, 15), (20, 20)], 120, false),
            ("it slept, and was heard of again", &[(5, 5), (10, 10), (15, 15), (120, 120), (125, 125)], 125, false),
            ("that is a lease ago", &[(5, 5), (120, 120), (125, 125), (130, 130), (136, 136)], 136, true),
            ("the database was slow", &[(5, 5), (10, 10), (15, 15), (20, 29)], 29, false),
        ];
        for (what, renewals, now, may) in table {
            let mut steady = Steady::new(begin);
            for (begun, ended) in renewals {
                steady.renewed(at(*begun), at(*ended), period);
            }
            assert_eq!(steady.is_for(lease, at(now), period), may, "{what}");
        }
        let mut steady = Steady::new(begin);
        (5..=20).step_by(5).for_each(|second| steady.renewed(at(second), at(second), period));
        steady.broke(at(21));
        assert!(!steady.is_for(lease, at(21), period), "the database did not hear it");
    }
}
