//! The end of a run: what came of it, and the files that it left, which may become the chat's next state.

use std::collections::BTreeMap;
use std::time::Duration;

use kitbag_cas::CasError;
use kitbag_model::run::wire::{AttemptId, FileRef, FromServer};
use kitbag_model::run::{Run, RunError, RunEventKind, RunOutcome, RunState};
use kitbag_model::{Manifest, OrgId, RunId, WorkPath};
use kitbag_store::NotHeld;
use tokio::time::{Instant, sleep};

use super::AgentRuns;
use super::link::{Link, Over};
use crate::api::error::ApiError;
use crate::nodes::NodeAnswer;
use crate::workspaces::{Ended, Lease, RunEndError, WorkspaceError};

/// How long is waited before it is looked again who holds a chat.
const ELSEWHERE: Duration = Duration::from_millis(200);

const BY_HAND: &str = "the files that it left are kept, and can be brought into the chat by hand";

type Files = BTreeMap<WorkPath, FileRef>;

impl Link {
    pub(super) async fn ended(
        &mut self,
        id: AttemptId,
        mut outcome: RunOutcome,
        files: Option<Files>,
    ) -> Result<(), Over> {
        if !outcome.state.is_over() {
            let message = format!("its executor said that it ended as {}, which is no end", outcome.state);
            let error = RunError { code: "INVALID_RESULT".to_owned(), message };
            outcome = RunOutcome { state: RunState::Failed, output: None, error: Some(error), usage: outcome.usage };
        }
        let found = match self.whose(id).await? {
            Some(org) => self.runs.0.store.read_beside(&org).await?.run(id.run_id).await?.map(|run| (org, run)),
            None => None,
        };
        // Over, or gone with its chat.
        let Some((org, run)) = found else { return self.not_held(id, NotHeld::Known).await };
        match self.runs.finish(&org, &run, id, self.executor.id, outcome, files).await {
            Ok(()) => {
                self.held.remove(&id);
                let seq = self.runs.0.store.read_beside(&org).await?.last_seq(id.run_id, id.attempt).await?;
                self.say(&FromServer::Ack { id, seq, result: true }).await
            }
            Err(RunEndError::NotHeld(error)) => self.not_held(id, error).await,
            Err(RunEndError::Workspace(WorkspaceError::Store(error))) => Err(error.into()),
            Err(RunEndError::Workspace(error)) => {
                tracing::error!(%error, run = %id.run_id, "the end of a run could not be recorded");
                Err(Over::Wrong("the result could not be kept; come again".to_owned()))
            }
        }
    }
}

impl AgentRuns {
    async fn finish(
        &self,
        org: &OrgId,
        run: &Run,
        id: AttemptId,
        executor: kitbag_model::ExecutorId,
        outcome: RunOutcome,
        files: Option<Files>,
    ) -> Result<(), RunEndError> {
        let ended = |files: Option<Files>| Ended {
            run: id.run_id,
            attempt: id.attempt,
            executor,
            outcome: outcome.clone(),
            files,
            began_with: run.pre_manifest_id,
        };
        let lease = self.0.workspaces.look(org, run.chat_id).await;
        let had_files = files.is_some();
        let (over, manifest, unkept) = match lease.finish_run(ended(files)).await {
            Ok((over, manifest)) => (over, manifest, None),
            // An answer is worth more than the files: it is not lost because they are.
            Err(RunEndError::Workspace(error)) if had_files && are_lost(&error) => {
                let (over, manifest) = lease.finish_run(ended(None)).await?;
                (over, manifest, Some(format!("the files that it left could not be kept: {error}")))
            }
            Err(error) => return Err(error),
        };
        // Whoever makes the state the chat's own takes the lease itself.
        drop(lease);
        self.forget(id);
        // Half of something is no state of a chat that people work in; a chat of the run's own has nothing else to show.
        let is_wanted = over.state == RunState::Succeeded || self.has_own_chat(org, &over).await?;
        let told = match (unkept, manifest) {
            (Some(reason), _) => Some(reason),
            (None, Some(manifest)) if over.apply && is_wanted => self.apply(org, &over, &manifest).await,
            (None, Some(manifest)) if over.apply && Some(manifest.id) != over.pre_manifest_id => {
                Some(format!("it did not succeed, so the chat stays as it is; {BY_HAND}"))
            }
            (None, _) => None,
        };
        if let Some(message) = told {
            self.note(org, &over, RunEventKind::Log { level: "warn".to_owned(), message }).await?;
        }
        self.tell_state(org, &over);
        Ok(())
    }

    async fn has_own_chat(&self, org: &OrgId, run: &Run) -> Result<bool, WorkspaceError> {
        Ok(self.0.store.read_beside(org).await?.is_chat_of_run(run.chat_id).await?)
    }

    /// Makes what a run left the chat's next state, if the chat still stands where the run began. If not, why. Another node does it, if that
    /// holds the chat; if it does not hold it any more, who does by then.
    async fn apply(&self, org: &OrgId, run: &Run, manifest: &Manifest) -> Option<String> {
        let until = Instant::now() + self.0.nodes.patience();
        loop {
            let node = match self.0.workspaces.edit(org, run.chat_id).await {
                Err(WorkspaceError::Elsewhere(node)) => node,
                lease => return self.apply_here(run, manifest, lease).await,
            };
            match self.0.nodes.ask_to_apply(&self.0.servers, &node, org, run.id).await {
                NodeAnswer::Done(said) => return Some(said).filter(|said| !said.is_empty()),
                // What was done already is found to be done.
                NodeAnswer::Refused | NodeAnswer::Unknown if Instant::now() < until => sleep(ELSEWHERE).await,
                NodeAnswer::Failed(failed) => return Some(format!("{}; {BY_HAND}", failed.message)),
                NodeAnswer::Refused | NodeAnswer::Unknown => {
                    return Some(format!("{}; {BY_HAND}", WorkspaceError::Elsewhere(node)));
                }
            }
        }
    }

    /// The same for a run that ended at another node.
    pub(crate) async fn apply_for(&self, org: &OrgId, id: RunId) -> Result<Option<String>, ApiError> {
        let missing = || ApiError::not_found("run", &id.to_string());
        let mut tx = self.0.store.read(org).await?;
        let run = tx.run(id).await?.ok_or_else(missing)?;
        let manifest = match run.post_manifest_id {
            Some(manifest) => tx.manifest(run.chat_id, manifest).await?,
            None => None,
        };
        drop(tx);
        let lease = self.0.workspaces.edit(org, run.chat_id).await;
        Ok(self.apply_here(&run, &manifest.ok_or_else(missing)?, lease).await)
    }

    async fn apply_here(&self, run: &Run, manifest: &Manifest, lease: Result<Lease, WorkspaceError>) -> Option<String> {
        let lease = match lease {
            Ok(lease) => lease,
            Err(error) => return Some(format!("{error}; {BY_HAND}")),
        };
        let stands = match lease.current().await {
            Ok(active) => active,
            Err(error) => return Some(format!("{error}; {BY_HAND}")),
        };
        // It was asked for twice, since nobody heard how it went the first time.
        if stands.as_ref().is_some_and(|active| active.source_ref.as_deref() == Some(&*manifest.id.to_string())) {
            return None;
        }
        if stands.map(|active| active.id) != run.pre_manifest_id {
            return Some(format!("the chat's files changed while it ran; {BY_HAND}"));
        }
        lease.checkout(manifest).await.err().map(|error| format!("{error}; {BY_HAND}"))
    }

    /// Adds a line to what happened.
    async fn note(&self, org: &OrgId, run: &Run, kind: RunEventKind) -> Result<(), NotHeld> {
        let mut tx = self.0.store.write(org).await?;
        tx.note_run(run.id, run.attempt, &kind).await?;
        tx.commit_chat().await?;
        Ok(())
    }
}

/// Whether files are lost for good: what they hold is nowhere. Everything else may pass, be it that the bucket is away or that there is no room,
/// and whoever has been acknowledged clears the only folder that has them.
fn are_lost(error: &WorkspaceError) -> bool {
    matches!(error, WorkspaceError::Cas(CasError::Missing { .. }))
}
