//! What an executor is told of a run that it got, and what it may read and write for it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use kitbag_model::run::Run;
use kitbag_model::run::wire::{Assignment, AttemptId};
use kitbag_model::{ChatId, ContentHash, ExecutorId, OrgId};
use kitbag_store::StoreError;

use super::AgentRuns;
use crate::api::error::{ApiError, Code};
use crate::workspaces::WorkspaceError;

/// Of so many attempts it is remembered what they are about. Others are looked up when somebody reads for them.
const MOST_NAMED: usize = 1024;

/// What an attempt is about.
pub(crate) struct Named {
    pub(crate) org: OrgId,
    pub(crate) chat: ChatId,
    executor: ExecutorId,
    /// The contents that its executor was told of. Others of the same chat are none of its business.
    contents: HashSet<ContentHash>,
}

impl Named {
    /// Whether a content is one that the executor was told of.
    pub(crate) fn has(&self, hash: &ContentHash) -> bool {
        self.contents.contains(hash)
    }
}

impl AgentRuns {
    /// All that an executor needs to know of an attempt.
    pub(super) async fn assignment(
        &self,
        org: &OrgId,
        run: &Run,
        executor: ExecutorId,
    ) -> Result<Assignment, WorkspaceError> {
        let id = AttemptId { run_id: run.id, attempt: run.attempt };
        let files = match run.pre_manifest_id {
            Some(manifest) => self.0.workspaces.look(org, run.chat_id).await.files_of(manifest).await?,
            None => Default::default(),
        };
        let acknowledged = self.0.store.read_beside(org).await?.last_seq(run.id, run.attempt).await?;
        let of_toolset = run.toolset.iter().flat_map(|toolset| toolset.files());
        let contents = files.values().chain(of_toolset).map(|file| file.sha256).collect();
        let named = Named { org: org.clone(), chat: run.chat_id, executor, contents };
        remember(&mut self.0.named.lock().unwrap_or_else(PoisonError::into_inner), id, Arc::new(named));
        Ok(Assignment {
            id,
            organization_id: org.clone(),
            config: run.config.clone(),
            application: run.application.clone(),
            toolset: run.toolset.clone(),
            files,
            keep_files: true,
            acknowledged,
            trace: self.trace_of(org, run, executor).await,
        })
    }

    /// What an attempt is about, for the executor that has it. One that was given it by another server, or before a restart, is
    /// looked up anew.
    pub(crate) async fn named(
        &self,
        home: &OrgId,
        executor: &kitbag_model::run::Executor,
        id: AttemptId,
    ) -> Result<Arc<Named>, ApiError> {
        let lost = || ApiError::new(Code::Conflict, format!("the attempt {id} is not this executor's any more"));
        let org = self.org_of(home, executor, id).await?.ok_or_else(lost)?;
        let run = self.0.store.read_beside(&org).await?.run(id.run_id).await?.ok_or_else(lost)?;
        let is_held = run.attempt == id.attempt && run.executor_id == Some(executor.id) && !run.state.is_over();
        if !is_held {
            return Err(lost());
        }
        let known = self.0.named.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(known) = known.filter(|known| known.executor == executor.id) {
            return Ok(known);
        }
        self.assignment(&org, &run, executor.id).await?;
        self.0.named.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned().ok_or_else(lost)
    }

    /// Of which organisation an attempt is. An executor of an organisation has its runs alone; one of the operator's may have anybody's,
    /// and the queue knows whose.
    pub(super) async fn org_of(
        &self,
        home: &OrgId,
        executor: &kitbag_model::run::Executor,
        id: AttemptId,
    ) -> Result<Option<OrgId>, StoreError> {
        match executor.pool {
            kitbag_model::run::Pool::Byon => Ok(Some(home.clone())),
            kitbag_model::run::Pool::Managed => self.0.store.system().await?.whose_run(id.run_id).await,
        }
    }

    /// Nobody reads for this attempt any more.
    pub(super) fn forget(&self, id: AttemptId) {
        self.0.named.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Keeps what an attempt is about. Of one that went on to another server nobody says here that it is over, so there is an end to how many are kept.
fn remember(known: &mut HashMap<AttemptId, Arc<Named>>, id: AttemptId, named: Arc<Named>) {
    if known.len() >= MOST_NAMED && !known.contains_key(&id) {
        known.clear();
    }
    known.insert(id, named);
}

#[cfg(test)]
mod tests {
    use kitbag_model::RunId;

    use super::*;

    #[test]
    fn however_many_attempts_there_were_few_are_remembered() {
        let (chat, executor) = (ChatId::generate(), ExecutorId::generate());
        let named = Arc::new(Named { org: OrgId::local(), chat, executor, contents: HashSet::new() });
        let mut known = HashMap::new();
        for _ in 0..3 * MOST_NAMED {
            let id = AttemptId { run_id: RunId::generate(), attempt: 1 };
            remember(&mut known, id, Arc::clone(&named));
            assert!(known.contains_key(&id) && known.len() <= MOST_NAMED);
        }
    }
}
