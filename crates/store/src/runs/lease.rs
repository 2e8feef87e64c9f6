//! Leases: an executor has a run for as long as it is heard of.

use kitbag_model::run::{Run, RunError, RunState};
use kitbag_model::{ExecutorId, RunId, Timestamp};

use super::write::NotHeld;
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{WriteTx, execute};

/// An attempt that an executor says it has.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The run.
    pub run: RunId,
    /// Which attempt.
    pub attempt: u32,
    /// Who.
    pub executor: ExecutorId,
}

impl WriteTx {
    /// Who has an attempt has it longer. One whose lease ended while nobody else took it has it again.
    pub async fn renew_lease(&mut self, held: Held, until: Timestamp) -> Result<Run, NotHeld> {
        // It had lost it, and nobody took it meanwhile.
        let is_back = execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET lease_until = $5, state = CASE WHEN started_at IS NULL THEN 'leased' ELSE 'running' END
                 WHERE organization_id = $1 AND id = $2 AND attempt = $3 AND executor_id = $4 AND state = 'queued'"
            )
            .bind(self.org.as_str())
            .bind(held.run.to_string())
            .bind(i64::from(held.attempt))
            .bind(held.executor.to_string())
            .bind(At(until))
        )?;
        if is_back > 0
            && let Some(run) = self.run(held.run).await?
        {
            self.note_state(held.run, held.attempt, run.state, None).await?;
        }
        let renewed = execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET lease_until = $5
                 WHERE organization_id = $1 AND id = $2 AND attempt = $3 AND executor_id = $4
                   AND state IN ('leased', 'running')"
            )
            .bind(self.org.as_str())
            .bind(held.run.to_string())
            .bind(i64::from(held.attempt))
            .bind(held.executor.to_string())
            .bind(At(until))
        )?;
        if renewed == 0 {
            return Err(self.why_not_held(held.run, held.attempt, held.executor).await?);
        }
        self.set_queue_lease(held.run, Some(until)).await?;
        Ok(self.run(held.run).await?.ok_or(StoreError::Corrupt { column: "agent_runs.id" })?)
    }

    /// The agent works. Said twice, it counts once.
    pub async fn run_started(&mut self, held: Held, until: Timestamp) -> Result<bool, NotHeld> {
        let run = self.renew_lease(held, until).await?;
        if run.state == RunState::Running {
            return Ok(false);
        }
        execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET state = 'running', started_at = COALESCE(started_at, $3)
                 WHERE organization_id = $1 AND id = $2 AND state = 'leased'"
            )
            .bind(self.org.as_str())
            .bind(held.run.to_string())
            .bind(At(Timestamp::now()))
        )?;
        self.note_state(held.run, held.attempt, RunState::Running, None).await?;
        Ok(true)
    }

    /// Whoever had an attempt has it no more. It waits again, or is over: somebody wanted it ended, or it was tried often enough. The
    /// run as it is now; nothing if the attempt was not held any more.
    pub async fn release_run(
        &mut self,
        id: RunId,
        attempt: u32,
        expired_at: Option<Timestamp>,
        reason: &str,
    ) -> Result<Option<Run>, StoreError> {
        // A lease that was renewed meanwhile is none that ended. Who was merely not heard of may come back to what nobody else took; who
        // gave it back, or was taken out, may not.
        let released = execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET state = 'queued', lease_until = NULL,
                                       executor_id = CASE WHEN CAST($4 AS TEXT) IS NULL THEN NULL ELSE executor_id END
                 WHERE organization_id = $1 AND id = $2 AND attempt = $3 AND state IN ('leased', 'running')
                   AND (CAST($4 AS TEXT) IS NULL OR lease_until < $5)"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(i64::from(attempt))
            .bind(expired_at.map(|_| "expired"))
            .bind(At(expired_at.unwrap_or_else(Timestamp::now)))
        )?;
        if released == 0 {
            return Ok(None);
        }
        let Some(run) = self.run(id).await? else { return Ok(None) };
        let end = if run.cancel_requested {
            Some((RunState::Cancelled, "CANCELLED", "somebody ended it".to_owned()))
        } else if run.attempt >= run.max_attempts {
            let message = format!("{reason}; it was tried {} times, as often as it may be", run.attempt);
            Some((RunState::Failed, "EXECUTOR_LOST", message))
        } else {
            None
        };
        match end {
            Some((state, code, message)) => {
                let error = RunError { code: code.to_owned(), message };
                self.end_waiting(id, state, &error, reason.to_owned()).await?;
            }
            None => {
                execute!(
                    self,
                    sqlx::query(
                        "UPDATE run_queue SET lease_until = NULL, since = $3 WHERE organization_id = $1 AND run_id = $2"
                    )
                    .bind(self.org.as_str())
                    .bind(id.to_string())
                    .bind(At(Timestamp::now()))
                )?;
                self.note_state(id, attempt, RunState::Queued, Some(reason.to_owned())).await?;
            }
        }
        self.run(id).await
    }
}
