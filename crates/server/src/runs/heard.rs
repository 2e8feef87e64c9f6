//! What executors say. A message may come twice, late, or from who has the attempt no more: the database decides what counts.

use std::time::Duration;

use kitbag_model::OrgId;
use kitbag_model::run::wire::{AttemptId, FromExecutor, FromServer};
use kitbag_model::run::{RunEvent, RunEventKind};
use kitbag_store::{Held, NotHeld, StoreError};
use tokio::time::Instant;

use super::AgentRuns;
use super::link::{Link, Over};

/// An executor that gives back what it got is not given the next at once.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

impl Link {
    pub(super) async fn heard(&mut self, message: FromExecutor) -> Result<(), Over> {
        match message {
            FromExecutor::Hello { .. } => Err(Over::Wrong("hello is said once".to_owned())),
            FromExecutor::Heartbeat { holding } => self.alive(holding).await,
            FromExecutor::Started { id } => self.started(id).await,
            FromExecutor::Refused { id, reason } => self.refused(id, &reason).await,
            FromExecutor::Events { id, events } => self.told(id, events).await,
            FromExecutor::Result { id, outcome, files } => self.ended(id, outcome, files).await,
        }
    }

    /// After a greeting: what the executor has and what the database says it has become one.
    pub(super) async fn reconcile(&mut self, holding: Vec<AttemptId>) -> Result<(), Over> {
        self.alive(holding.clone()).await?;
        // What it was given and does not speak of never reached it.
        let orgs = match self.executor.pool {
            kitbag_model::run::Pool::Byon => vec![self.home.clone()],
            kitbag_model::run::Pool::Managed => {
                self.runs.0.store.system().await?.organizations_with_held_runs().await?
            }
        };
        for org in orgs {
            let held = self.runs.0.store.read_beside(&org).await?.runs_held_by(self.executor.id).await?;
            for run in held {
                let id = AttemptId { run_id: run.id, attempt: run.attempt };
                if !holding.contains(&id) {
                    self.assign(org.clone(), &run).await?;
                }
            }
        }
        Ok(())
    }

    /// It is alive, and keeps what it has, unless that is somebody else's by now.
    async fn alive(&mut self, holding: Vec<AttemptId>) -> Result<(), Over> {
        self.look_again().await?;
        let mut tx = self.runs.0.store.write(&self.home).await?;
        tx.executor_seen(self.executor.id).await?;
        tx.commit_chat().await?;
        for id in holding {
            let Some(org) = self.whose(id).await? else {
                match self.ended_before(id).await? {
                    Some(_) => self.known(id).await?,
                    None => self.drop_attempt(id, "it is over").await?,
                }
                continue;
            };
            let mut tx = self.runs.0.store.write(&org).await?;
            let until = self.runs.lease_until();
            match tx.renew_lease(self.held_as(id), until).await {
                Ok(run) => {
                    tx.commit_chat().await?;
                    self.held.insert(id, org);
                    if run.cancel_requested {
                        self.say(&FromServer::Cancel { id }).await?;
                    }
                }
                Err(error) => {
                    drop(tx);
                    self.not_held(id, error).await?;
                }
            }
        }
        Ok(())
    }

    async fn started(&mut self, id: AttemptId) -> Result<(), Over> {
        let Some(org) = self.whose(id).await? else { return self.drop_attempt(id, "it is over").await };
        let mut tx = self.runs.0.store.write(&org).await?;
        let until = self.runs.lease_until();
        match tx.run_started(self.held_as(id), until).await {
            Ok(is_new) => {
                let run = tx.run(id.run_id).await?;
                tx.commit_chat().await?;
                if let Some(run) = run.filter(|_| is_new) {
                    self.runs.tell_state(&org, &run);
                }
                Ok(())
            }
            Err(error) => self.not_held(id, error).await,
        }
    }

    async fn refused(&mut self, id: AttemptId, reason: &str) -> Result<(), Over> {
        // A look that began before would find it, and give it to the very same one.
        self.settle().await?;
        self.held.remove(&id);
        self.not_before = Instant::now() + AFTER_REFUSAL;
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(300).collect();
        let Some(org) = self.whose(id).await? else { return self.drop_attempt(id, "it is over").await };
        let run = self.runs.0.store.read_beside(&org).await?.run(id.run_id).await?;
        // Only who has it can give it back.
        if run.is_some_and(|run| run.executor_id == Some(self.executor.id)) {
            let told = format!("{} cannot do it: {reason}", self.executor.name);
            self.runs.release(&org, id, &told).await?;
        }
        // It may forget it.
        self.drop_attempt(id, "it was given back").await
    }

    async fn told(&mut self, id: AttemptId, mut events: Vec<RunEvent>) -> Result<(), Over> {
        let Some(org) = self.whose(id).await? else { return self.drop_attempt(id, "it is over").await };
        events.iter_mut().for_each(|event| tame(&mut event.kind));
        let mut tx = self.runs.0.store.write(&org).await?;
        let until = self.runs.lease_until();
        if let Err(error) = tx.renew_lease(self.held_as(id), until).await {
            drop(tx);
            return self.not_held(id, error).await;
        }
        let seq = tx.add_run_events(id.run_id, id.attempt, &events).await?;
        tx.commit_chat().await?;
        self.runs.tell(&org, id.run_id);
        self.say(&FromServer::Ack { id, seq, result: false }).await
    }

    /// What is said to an executor whose word does not count.
    pub(super) async fn not_held(&mut self, id: AttemptId, error: NotHeld) -> Result<(), Over> {
        match error {
            // Everything of it is known, the result too: it may forget it.
            NotHeld::Known => self.known(id).await,
            NotHeld::Lost(reason) => self.drop_attempt(id, &reason).await,
            NotHeld::Store(error) => Err(error.into()),
        }
    }

    pub(super) async fn drop_attempt(&mut self, id: AttemptId, reason: &str) -> Result<(), Over> {
        self.held.remove(&id);
        self.say(&FromServer::Drop { id, reason: reason.to_owned() }).await
    }

    pub(super) fn held_as(&self, id: AttemptId) -> Held {
        Held { run: id.run_id, attempt: id.attempt, executor: self.executor.id }
    }

    /// Of which organisation an attempt is.
    pub(super) async fn whose(&mut self, id: AttemptId) -> Result<Option<OrgId>, StoreError> {
        match self.held.get(&id) {
            Some(org) => Ok(Some(org.clone())),
            None => self.runs.org_of(&self.home, &self.executor, id).await,
        }
    }
}

impl AgentRuns {
    /// Whoever had an attempt has it no more.
    pub(super) async fn release(&self, org: &OrgId, id: AttemptId, reason: &str) -> Result<(), StoreError> {
        let mut tx = self.0.store.write(org).await?;
        let run = tx.release_run(id.run_id, id.attempt, None, reason).await?;
        tx.commit_chat().await?;
        self.forget(id);
        if let Some(run) = run {
            self.tell_state(org, &run);
        }
        Ok(())
    }
}

/// In which state a run is, the server says: an executor that says so too is only noted.
fn tame(kind: &mut RunEventKind) {
    if let RunEventKind::State { state, .. } = kind {
        let message = format!("the executor says that it is {state}");
        *kind = RunEventKind::Log { level: "info".to_owned(), message };
    }
}
