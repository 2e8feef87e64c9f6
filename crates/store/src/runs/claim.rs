//! Giving runs to executors.

use kitbag_model::run::{Executor, Run, RunState};
use kitbag_model::{RunId, Timestamp};

use super::read::{RunRow, select};
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{Inner, WriteTx, execute, on};

/// So many that wait are looked at at once, at the most. An executor that fits none of them looks at the next.
const LOOKED_AT: usize = 50;

/// What an executor may be given.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Who.
    pub executor: &'a Executor,
    /// At the most so many.
    pub most: usize,
    /// Until when it has them, unless it is heard of.
    pub lease_until: Timestamp,
}

/// Those that wait, oldest first, behind one. On PostgreSQL a run that somebody else just takes is passed over instead of waited for.
macro_rules! waiting {
    ($rest:literal) => {
        concat!(
            "SELECT q.run_id FROM run_queue q
             WHERE q.organization_id = $1 AND q.pool = $2 AND q.lease_until IS NULL
               AND (q.since > $3 OR (q.since = $3 AND q.run_id > $4))
             ORDER BY q.since, q.run_id LIMIT $5 ",
            $rest
        )
    };
}

impl WriteTx {
    /// Gives an executor runs that wait and that it may take, oldest first.
    pub async fn claim_runs(&mut self, claim: Claim<'_>) -> Result<Vec<Run>, StoreError> {
        let mut claimed = Vec::new();
        let mut behind = (At(Timestamp::EPOCH), String::new());
        while claimed.len() < claim.most {
            // No more than it may have: on PostgreSQL whoever looks keeps others from what it looks at.
            let wanted = (claim.most - claimed.len()).min(LOOKED_AT);
            let ids = self.waiting_behind(&claim, &behind, wanted).await?;
            let Some(last) = ids.last() else { break };
            let (_, since) = self.queued(last).await?;
            behind = (since, last.clone());
            for id in &ids {
                if let Some(run) = self.claim_one(id, &claim).await? {
                    claimed.push(run);
                }
            }
            if ids.len() < wanted {
                break;
            }
        }
        Ok(claimed)
    }

    async fn waiting_behind(
        &mut self,
        claim: &Claim<'_>,
        (since, id): &(At, String),
        wanted: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (org, pool) = (self.org.as_str(), claim.executor.pool.as_str());
        let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
        let ids = match &mut self.inner {
            Inner::Sqlite(tx) => {
                sqlx::query_scalar(waiting!(""))
                    .bind(org)
                    .bind(pool)
                    .bind(*since)
                    .bind(id.as_str())
                    .bind(wanted)
                    .fetch_all(&mut **tx)
                    .await?
            }
            Inner::Postgres(tx) => {
                sqlx::query_scalar(waiting!("FOR UPDATE SKIP LOCKED"))
                    .bind(org)
                    .bind(pool)
                    .bind(*since)
                    .bind(id.as_str())
                    .bind(wanted)
                    .fetch_all(&mut **tx)
                    .await?
            }
        };
        Ok(ids)
    }

    async fn queued(&mut self, id: &str) -> Result<(String, At), StoreError> {
        Ok(on!(self, c => sqlx::query_as(
            "SELECT run_id, since FROM run_queue WHERE organization_id = $1 AND run_id = $2")
            .bind(self.org.as_str()).bind(id).fetch_one(c))?)
    }

    /// One run, if the executor may take it and nobody else has.
    async fn claim_one(&mut self, id: &str, claim: &Claim<'_>) -> Result<Option<Run>, StoreError> {
        let row: Option<RunRow> = on!(self, c => sqlx::query_as(select!("AND id = $2 AND state = 'queued'"))
            .bind(self.org.as_str()).bind(id).fetch_optional(c))?;
        let Some(run) = row.map(Run::try_from).transpose()? else { return Ok(None) };
        let fits = run
            .asked()
            .is_some_and(|config| config.execution.selector.admits(config.engine.id, &claim.executor.candidate()));
        if !fits {
            return Ok(None);
        }
        let lease = At(claim.lease_until);
        let taken = execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET state = 'leased', attempt = attempt + 1, executor_id = $3, lease_until = $4
                 WHERE organization_id = $1 AND id = $2 AND state = 'queued'"
            )
            .bind(self.org.as_str())
            .bind(id)
            .bind(claim.executor.id.to_string())
            .bind(lease)
        )?;
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
