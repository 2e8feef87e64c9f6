//! Giving runs to executors.

use std::collections::BTreeSet;

use kitbag_model::run::{Executor, Run, RunConfig, RunState};
use kitbag_model::{RunId, Timestamp};

use super::kinds::UNKNOWN;
use super::read::{RunRow, select};
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Inner, WriteTx, execute, on};

/// So many runs are looked at for one claim, at the most; the next one looks at what is left then.
pub const RUNS_AT_ONCE: usize = 200;

/// So many of each kind are among them at least, if that many wait.
const OF_EACH: usize = 8;

/// What an executor may be given.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Who.
    pub executor: &'a Executor,
    /// Of which kinds, as they were found for it.
    pub kinds: &'a [String],
    /// At the most so many.
    pub most: usize,
    /// Until when it has them, unless it is heard of.
    pub lease_until: Timestamp,
}

/// What became of a claim.
#[derive(Debug, Default)]
pub struct Claimed {
    /// What the executor has now.
    pub runs: Vec<Run>,
    /// Whether there is something to commit, whatever it was given.
    pub has_written: bool,
}

/// Takes a run that still waits. On PostgreSQL one that somebody else just takes is passed over instead of waited for; it is locked by who
/// takes it and not by who looks, or lookers would hide it from whoever should have it.
macro_rules! take {
    ($id:literal) => {
        concat!(
            "UPDATE agent_runs SET state = 'leased', attempt = attempt + 1, executor_id = $3, lease_until = $4
             WHERE organization_id = $1 AND state = 'queued' AND id = ",
            $id
        )
    };
}

row!(WaitingRow { run_id: String, since: At });

impl WriteTx {
    /// Gives an executor runs that wait and that it may take, oldest first. Of each that it could take is asked whether it should, with
    /// the time since when it waits. However many wait, it looks at a few: those that are left for others are anybody's soon.
    pub async fn claim_runs(
        &mut self,
        claim: Claim<'_>,
        should: &mut (dyn FnMut(&Run, &RunConfig, Timestamp) -> bool + Send),
    ) -> Result<Claimed, StoreError> {
        let mut kinds: BTreeSet<String> = claim.kinds.iter().cloned().collect();
        let mut claimed = Claimed::default();
        if kinds.remove(UNKNOWN) {
            kinds.extend(self.sort_out(claim.executor).await?);
            claimed.has_written = true;
        }
        let each = (RUNS_AT_ONCE / kinds.len().max(1)).max(OF_EACH);
        let mut waiting = Vec::new();
        for kind in &kinds {
            waiting.extend(self.oldest_of(&claim, kind, each).await?);
        }
        waiting.sort_by(|one, other| (one.since.0, &one.run_id).cmp(&(other.since.0, &other.run_id)));
        for row in waiting.iter().take(RUNS_AT_ONCE) {
            if claimed.runs.len() >= claim.most {
                break;
            }
            claimed.runs.extend(self.claim_one(row, &claim, should).await?);
        }
        claimed.has_written |= !claimed.runs.is_empty();
        Ok(claimed)
    }

    /// Those of a kind that wait longest.
    async fn oldest_of(&mut self, claim: &Claim<'_>, kind: &str, most: usize) -> Result<Vec<WaitingRow>, StoreError> {
        let (org, pool) = (self.org.as_str(), claim.executor.pool.as_str());
        Ok(on!(self, c => sqlx::query_as(
            "SELECT run_id, since FROM run_queue
             WHERE organization_id = $1 AND pool = $2 AND lease_until IS NULL AND kind >= $3 AND kind <= $3
             ORDER BY kind, since, run_id LIMIT $4")
            .bind(org).bind(pool).bind(kind).bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(c))?)
    }

    /// One run, if the executor may and should take it and nobody else has.
    async fn claim_one(
        &mut self,
        row: &WaitingRow,
        claim: &Claim<'_>,
        should: &mut (dyn FnMut(&Run, &RunConfig, Timestamp) -> bool + Send),
    ) -> Result<Option<Run>, StoreError> {
        let id = row.run_id.as_str();
        let found: Option<RunRow> = on!(self, c => sqlx::query_as(select!("AND id = $2 AND state = 'queued'"))
            .bind(self.org.as_str()).bind(id).fetch_optional(c))?;
        let Some(run) = found.map(Run::try_from).transpose()? else { return Ok(None) };
        let Some(config) = run.asked() else { return Ok(None) };
        let fits = config.execution.selector.admits(config.engine.id, &claim.executor.candidate())
            && (claim.executor.containers || !run.needs_containers(&config));
        if !fits || !should(&run, &config, row.since.0) {
            return Ok(None);
        }
        let (org, executor, lease) = (self.org.as_str(), claim.executor.id.to_string(), At(claim.lease_until));
        let taken = match &mut self.inner {
            Inner::Sqlite(tx) => {
                let query = sqlx::query(take!("$2"));
                query.bind(org).bind(id).bind(executor).bind(lease).execute(&mut **tx).await?.rows_affected()
            }
            Inner::Postgres(tx) => {
                let query = sqlx::query(take!(
                    "(SELECT id FROM agent_runs WHERE organization_id = $1 AND id = $2 FOR UPDATE SKIP LOCKED)"
                ));
                query.bind(org).bind(id).bind(executor).bind(lease).execute(&mut **tx).await?.rows_affected()
            }
        };
        if taken == 0 {
            return Ok(None);
        }
        self.set_queue_lease(run.id, Some(claim.lease_until)).await?;
        let reason = format!("{} has it", claim.executor.name);
        self.note_state(run.id, run.attempt + 1, RunState::Leased, Some(reason)).await?;
        self.run(run.id).await
    }

    /// The queue knows until when somebody has a run.
    pub(super) async fn set_queue_lease(&mut self, id: RunId, until: Option<Timestamp>) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE run_queue SET lease_until = $3 WHERE organization_id = $1 AND run_id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
                .bind(until.map(At))
        )?;
        Ok(())
    }
}
