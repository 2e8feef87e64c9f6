//! Why a run waits, and which executors there are: what somebody wants to know who sees nothing happen.

use kitbag_model::run::{Executor, Pool, Run, RunState};
use kitbag_model::{ExecutorId, OrgId, Timestamp};
use kitbag_store::StoreError;
use serde_json::json;

use super::AgentRuns;

/// More executors than an organisation has.
const ALL: u32 = 10_000;

impl AgentRuns {
    /// Whether an executor is connected: to this server, as it knows itself, or to another, as its last sign of life says.
    pub(crate) fn is_connected(&self, executor: &Executor) -> bool {
        let fresh = u32::try_from(2 * self.0.settings.heartbeat().as_secs().max(1)).unwrap_or(u32::MAX);
        let recent = executor.last_seen_at.is_some_and(|at| Timestamp::now() < at.plus_seconds(fresh));
        executor.revoked_at.is_none() && self.0.links.is_connected(executor.id, executor.last_seen_at).unwrap_or(recent)
    }

    /// How many runs of an organisation an executor has.
    pub(crate) async fn in_flight(&self, org: &OrgId, id: ExecutorId) -> Result<usize, StoreError> {
        Ok(self.0.store.read_beside(org).await?.runs_held_by(id).await?.len())
    }

    /// Why a run waits, in words; none if it does not.
    pub(crate) async fn why_waiting(&self, org: &OrgId, run: &Run) -> Result<Option<String>, StoreError> {
        let Some(config) = run.asked().filter(|_| run.state == RunState::Queued) else { return Ok(None) };
        let quota = self.0.rules.of(org).await?.executors_in_flight();
        if let Some(quota) = quota
            && self.0.store.read_beside(org).await?.runs_in_flight().await? >= quota.most
        {
            return Ok(Some(quota.told("executors have as many runs as they may")));
        }
        let selector = &config.execution.selector;
        let whose = match selector.pool {
            Pool::Byon => "of this organisation",
            Pool::Managed => "of the operator",
        };
        let home = selector.home(org);
        let all = self.0.store.read_beside(&home).await?.executors(None, ALL).await?.items;
        let all: Vec<Executor> = all.into_iter().filter(|one| one.pool == selector.pool).collect();
        if selector.executor_id.is_some_and(|id| all.iter().all(|one| one.id != id)) {
            return Ok(Some("the executor that it is for was taken out; cancel it, and ask another".to_owned()));
        }
        let connected: Vec<&Executor> = all.iter().filter(|one| self.is_connected(one)).collect();
        let contained = run.needs_containers(&config);
        let fits =
            |one: &&&Executor| selector.admits(config.engine.id, &one.candidate()) && (one.containers || !contained);
        let fitting: Vec<&Executor> = connected.iter().filter(fits).copied().collect();
        // Those that would do if they ran containers.
        let admitted = |one: &&&Executor| selector.admits(config.engine.id, &one.candidate());
        let lacking = connected.iter().filter(admitted).count() - fitting.len();
        // One of the operator's is busy for others, too, of whom nothing is told here.
        let mut has_room = false;
        for one in fitting.iter().filter(|one| one.pool == Pool::Byon) {
            has_room |= self.in_flight(org, one.id).await? < one.capacity as usize;
        }
        Ok(Some(match (all.len(), connected.len(), fitting.len()) {
            (0, ..) => format!("there is no executor {whose} yet; pair one"),
            (paired, 0, _) => format!("no executor {whose} is connected; {paired} of them would be"),
            (_, connected, 0) => {
                let engine = config.engine.id;
                let has_engine = all.iter().any(|one| {
                    self.is_connected(one) && one.candidate().engines.iter().any(|found| found.id == engine)
                });
                let lacks = match has_engine {
                    true if lacking > 0 => {
                        "has an engine for containers (Docker or podman), which the toolset of this run has".to_owned()
                    }
                    true => "is what the selector asks for".to_owned(),
                    false => format!("has the engine {engine} in a version that can be used"),
                };
                format!("no executor {whose} that is connected ({connected}) {lacks}")
            }
            _ if has_room => "an executor is about to take it".to_owned(),
            (_, _, fitting) => format!("no executor that can take it ({fitting}) has room just now"),
        }))
    }

    /// An executor came, went, or is said something else of.
    pub(crate) fn tell_executor(&self, org: &OrgId, executor: &Executor, connected: bool) {
        let data = json!({ "executorId": executor.id, "connected": connected });
        self.0.events.publish(org, None, "executor_changed", data);
    }
}
