//! Ending a run before its time, and taking an executor out.

use kitbag_model::run::Run;
use kitbag_model::run::wire::AttemptId;
use kitbag_model::{Action, ExecutorId, OrgId, RunId};
use kitbag_store::StoreError;
use serde_json::json;

use super::AgentRuns;
use super::links::Wish;

impl AgentRuns {
    /// Ends a run, or has whoever has it end it. None if it is over.
    pub(crate) async fn cancel(&self, org: &OrgId, id: RunId, who: &str) -> Result<Option<Run>, StoreError> {
        let mut tx = self.0.store.write(org).await?;
        let Some(run) = tx.cancel_run(id, who).await? else { return Ok(None) };
        tx.audit(who, Action::AgentRunCancelled, &id.to_string(), &json!({ "state": run.state })).await?;
        tx.commit_chat().await?;
        match run.executor_id.filter(|_| !run.state.is_over()) {
            // Not connected here: it hears of it with its next heartbeat, wherever that comes to.
            Some(executor) => {
                self.0.links.say(executor, Wish::Cancel(AttemptId { run_id: id, attempt: run.attempt }));
                self.tell(org, id);
            }
            None => self.tell_state(org, &run),
        }
        Ok(Some(run))
    }

    /// An executor has other labels, or another name.
    pub(crate) fn executor_changed(&self, id: ExecutorId) {
        self.0.links.say(id, Wish::Changed);
        self.wake();
    }

    /// An executor was taken out: it is told to go, and what it had is somebody else's at once.
    pub(crate) async fn executor_revoked(&self, org: &OrgId, id: ExecutorId) -> Result<(), StoreError> {
        self.0.links.say(id, Wish::Revoked);
        let orgs = self.0.store.system().await?.organizations_with_held_runs().await?;
        for org in orgs.iter().chain((!orgs.contains(org)).then_some(org)) {
            let held = self.0.store.read_beside(org).await?.runs_held_by(id).await?;
            for run in held {
                let id = AttemptId { run_id: run.id, attempt: run.attempt };
                self.release(org, id, "the executor that had it was taken out").await?;
            }
        }
        Ok(())
    }
}
