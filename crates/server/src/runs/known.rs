//! Results that are recorded already: the server was killed, or its answer was lost, before the executor heard so. What was to follow from them may not have
//! been done.

use kitbag_model::run::wire::{AttemptId, FromServer};
use kitbag_model::run::{Pool, Run};
use kitbag_model::{ExecutorId, OrgId};
use kitbag_store::{NotHeld, StoreError};

use super::AgentRuns;
use super::link::{Link, Over};
use crate::workspaces::{RunEndError, WorkspaceError};

impl Link {
    /// The run that an attempt of this executor's ended, and whose it is; none if it did not.
    pub(super) async fn ended_before(&mut self, id: AttemptId) -> Result<Option<(OrgId, Run)>, StoreError> {
        let store = &self.runs.0.store;
        let orgs = match (self.held.get(&id), self.executor.pool) {
            (Some(org), _) => vec![org.clone()],
            (None, Pool::Byon) => vec![self.home.clone()],
            // The queue does not know any more whose it was.
            (None, Pool::Managed) => store.system().await?.organization_ids().await?,
        };
        for org in orgs {
            if let Some(run) = store.read_beside(&org).await?.run(id.run_id).await? {
                return Ok(Some((org, run)).filter(|(_, run)| is_end_of(run, id, self.executor.id)));
            }
        }
        Ok(None)
    }

    /// Says that everything of an attempt is known, when everything is done that follows from it.
    pub(super) async fn known(&mut self, id: AttemptId) -> Result<(), Over> {
        if let Some((org, run)) = self.ended_before(id).await? {
            self.runs.follow_again(&org, &run).await.map_err(|error| match error {
                RunEndError::NotHeld(NotHeld::Store(error)) | RunEndError::Workspace(WorkspaceError::Store(error)) => {
                    Over::Store(error)
                }
                error => {
                    tracing::error!(%error, run = %id.run_id, "what follows from the end of a run could not be done");
                    Over::Wrong("the result could not be kept; come again".to_owned())
                }
            })?;
        }
        self.held.remove(&id);
        self.say(&FromServer::Ack { id, seq: u64::MAX, result: true }).await
    }
}

fn is_end_of(run: &Run, id: AttemptId, executor: ExecutorId) -> bool {
    run.attempt == id.attempt && run.executor_id == Some(executor) && run.state.is_over()
}

impl AgentRuns {
    /// What follows from an end that was recorded before. What was done already is found to be done.
    async fn follow_again(&self, org: &OrgId, run: &Run) -> Result<(), RunEndError> {
        let manifest = match run.post_manifest_id {
            Some(id) => {
                let read = async { self.0.store.read_beside(org).await?.manifest(run.chat_id, id).await };
                read.await.map_err(WorkspaceError::from)?
            }
            None => None,
        };
        self.follow(org, run, manifest, None).await
    }
}
