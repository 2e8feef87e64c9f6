//! How a run begins and how it ends.

use kitbag_model::run::{NewRun, Run, RunError, RunEventKind, RunOutcome, RunState};
use kitbag_model::{ExecutorId, ManifestId, RunId, Timestamp};

use crate::error::StoreError;
use crate::row::At;
use crate::tx::{Tx, WriteTx, execute};

/// Why what an executor says of an attempt does not count.
#[derive(Debug, thiserror::Error)]
pub enum NotHeld {
    /// The attempt has ended with a result already: it came twice.
    #[error("the result is known")]
    Known,
    /// It is somebody else's, nobody's, or over.
    #[error("{0}")]
    Lost(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for NotHeld {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// How an attempt ended, and the state that it left.
#[derive(Clone, Debug)]
pub struct End<'a> {
    /// How.
    pub outcome: &'a RunOutcome,
    /// The state, if the folder was kept.
    pub manifest: Option<ManifestId>,
}

impl WriteTx {
    /// Keeps a run, which waits from now on.
    pub async fn create_run(&mut self, new: &NewRun) -> Result<Run, StoreError> {
        let (now, needs) = (At(Timestamp::now()), new.needs());
        let json = |value: Result<String, serde_json::Error>| value.expect("what was read can be written as JSON");
        execute!(
            self,
            sqlx::query(
                "INSERT INTO agent_runs
                     (organization_id, id, name, config, application, toolset, chat_id, pre_manifest_id, apply, retry_of, state,
                      attempt, max_attempts, cancel_requested, events, created_by, private_to, created_at, renderings, needs)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'queued', 0, $11, FALSE, 0, $12, $13, $14, $15, $16)"
            )
            .bind(self.org.as_str())
            .bind(new.id.to_string())
            .bind(new.name.as_ref().map(|name| name.as_str()))
            .bind(json(serde_json::to_string(&new.config)))
            .bind(json(serde_json::to_string(&new.application)))
            .bind(new.toolset.as_ref().map(|toolset| json(serde_json::to_string(toolset))))
            .bind(new.chat_id.to_string())
            .bind(new.pre_manifest_id.map(|id| id.to_string()))
            .bind(new.apply)
            .bind(new.retry_of.map(|id| id.to_string()))
            .bind(i64::from(new.config.max_attempts))
            .bind(new.created_by.as_str())
            .bind(new.private_to.map(|id| id.to_string()))
            .bind(now)
            .bind(json(serde_json::to_string(&new.renderings)))
            .bind(needs.to_text())
        )?;
        execute!(
            self,
            sqlx::query(
                "INSERT INTO run_queue (organization_id, run_id, pool, engine, since, kind) VALUES ($1, $2, $3, $4, $5, $6)"
            )
            .bind(self.org.as_str())
            .bind(new.id.to_string())
            .bind(new.config.execution.selector.pool.as_str())
            .bind(new.config.engine.id.as_str())
            .bind(now)
            .bind(needs.kind())
        )?;
        let queued = RunEventKind::State { state: RunState::Queued, reason: None, trace: new.trace.clone() };
        self.note_run(new.id, 0, &queued).await?;
        self.run(new.id).await?.ok_or(StoreError::Corrupt { column: "agent_runs.id" })
    }

    /// Somebody wants a run ended. One that waits is over at once; whoever has another is to be told. The run as it is now;
    /// nothing if it is over already, or there is none.
    pub async fn cancel_run(&mut self, id: RunId, who: &str) -> Result<Option<Run>, StoreError> {
        let reason = format!("ended by {who}");
        let error = RunError { code: "CANCELLED".to_owned(), message: reason.clone() };
        let ended = self.end_waiting(id, RunState::Cancelled, &error, reason).await?;
        if !ended {
            let asked = execute!(
                self,
                sqlx::query(
                    "UPDATE agent_runs SET cancel_requested = TRUE
                     WHERE organization_id = $1 AND id = $2 AND state IN ('leased', 'running')"
                )
                .bind(self.org.as_str())
                .bind(id.to_string())
            )?;
            if asked == 0 {
                return Ok(None);
            }
        }
        self.run(id).await
    }

    /// Ends a run that waits. Whether it did.
    pub(super) async fn end_waiting(
        &mut self,
        id: RunId,
        state: RunState,
        error: &RunError,
        reason: String,
    ) -> Result<bool, StoreError> {
        let error = serde_json::to_string(error).expect("an error can be written as JSON");
        let ended = execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET state = $3, error = $4, finished_at = $5
                 WHERE organization_id = $1 AND id = $2 AND state = 'queued'"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(state.as_str())
            .bind(error)
            .bind(At(Timestamp::now()))
        )?;
        if ended == 0 {
            return Ok(false);
        }
        self.leave_queue(id).await?;
        let attempt = self.run(id).await?.map_or(0, |run| run.attempt);
        self.note_state(id, attempt, state, Some(reason)).await?;
        Ok(true)
    }

    /// Records how an attempt ended. It counts once, and only from who has the attempt, or had it last while nobody else does.
    pub async fn finish_run(
        &mut self,
        id: RunId,
        attempt: u32,
        executor: ExecutorId,
        end: End<'_>,
    ) -> Result<Run, NotHeld> {
        let json = |value: &Option<serde_json::Value>| value.as_ref().map(ToString::to_string);
        let outcome = end.outcome;
        let error = outcome.error.as_ref().map(|error| serde_json::to_string(error).expect("an error is JSON"));
        let ended = execute!(
            self,
            sqlx::query(
                "UPDATE agent_runs SET state = $5, output = $6, error = $7, usage = $8, post_manifest_id = $9, finished_at = $10,
                                       lease_until = NULL
                 WHERE organization_id = $1 AND id = $2 AND attempt = $3 AND executor_id = $4
                   AND state IN ('queued', 'leased', 'running')"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(i64::from(attempt))
            .bind(executor.to_string())
            .bind(outcome.state.as_str())
            .bind(json(&outcome.output))
            .bind(error)
            .bind(json(&outcome.usage))
            .bind(end.manifest.map(|id| id.to_string()))
            .bind(At(Timestamp::now()))
        )?;
        if ended == 0 {
            return Err(self.why_not_held(id, attempt, executor).await?);
        }
        self.leave_queue(id).await?;
        let reason = outcome.error.as_ref().map(|error| error.code.clone());
        self.note_state(id, attempt, outcome.state, reason).await?;
        Ok(self.run(id).await?.ok_or(StoreError::Corrupt { column: "agent_runs.id" })?)
    }

    /// A run that is over waits for nobody.
    pub(super) async fn leave_queue(&mut self, id: RunId) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("DELETE FROM run_queue WHERE organization_id = $1 AND run_id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
        )?;
        Ok(())
    }
}

impl<Mode> Tx<Mode> {
    /// Why an attempt is not this executor's.
    pub(super) async fn why_not_held(
        &mut self,
        id: RunId,
        attempt: u32,
        executor: ExecutorId,
    ) -> Result<NotHeld, StoreError> {
        Ok(match self.run(id).await? {
            None => NotHeld::Lost("there is no such run any more".to_owned()),
            Some(run) if run.attempt != attempt => {
                NotHeld::Lost(format!("it was given to somebody else; it is at attempt {}", run.attempt))
            }
            Some(run) if run.executor_id != Some(executor) => NotHeld::Lost("it is another executor's".to_owned()),
            Some(run) if run.state.is_over() => NotHeld::Known,
            Some(run) => NotHeld::Lost(format!("it is {}", run.state)),
        })
    }
}
