//! What is known of runs.

use kitbag_model::run::wire::ToolsetSnapshot;
use kitbag_model::run::{Run, RunEventKind, RunRenderings};
use kitbag_model::{Audience, ChatId, ContentHash, ExecutorId, RunId, Timestamp};
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, on};

/// So many events are read at once on the way back to a call.
const BACK: i64 = 32;

row!(RunRow {
    id: String,
    name: Option<String>,
    config: String,
    application: String,
    toolset: Option<String>,
    chat_id: String,
    pre_manifest_id: Option<String>,
    post_manifest_id: Option<String>,
    apply: bool,
    retry_of: Option<String>,
    state: String,
    attempt: i64,
    max_attempts: i64,
    executor_id: Option<String>,
    lease_until: Option<At>,
    cancel_requested: bool,
    output: Option<String>,
    error: Option<String>,
    usage: Option<String>,
    created_by: String,
    private_to: Option<String>,
    created_at: At,
    started_at: Option<At>,
    finished_at: Option<At>,
});
row!(EventRow { n: i64, attempt: i64, at: At, event: String });
row!(FilesRow { toolset: Option<String>, renderings: Option<String> });

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, config, application, toolset, chat_id, pre_manifest_id, post_manifest_id, apply, retry_of, state,
                    attempt, max_attempts, executor_id, lease_until, cancel_requested, output, error, usage, created_by,
                    private_to, created_at, started_at, finished_at
             FROM agent_runs WHERE organization_id = $1 ",
            $rest
        )
    };
}
pub(super) use select;

impl TryFrom<RunRow> for Run {
    type Error = StoreError;

    fn try_from(row: RunRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let number = |number, column| u32::try_from(number).map_err(|_| corrupt(column));
        let manifest = |id: Option<String>, column| id.map(|id| id.parse()).transpose().map_err(|_| corrupt(column));
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("agent_runs.id"))?,
            name: row.name,
            config: json(&row.config, "agent_runs.config")?,
            application: json(&row.application, "agent_runs.application")?,
            toolset: maybe(row.toolset, "agent_runs.toolset")?,
            chat_id: row.chat_id.parse().map_err(|_| corrupt("agent_runs.chat_id"))?,
            pre_manifest_id: manifest(row.pre_manifest_id, "agent_runs.pre_manifest_id")?,
            post_manifest_id: manifest(row.post_manifest_id, "agent_runs.post_manifest_id")?,
            apply: row.apply,
            retry_of: row.retry_of.map(|id| id.parse()).transpose().map_err(|_| corrupt("agent_runs.retry_of"))?,
            state: row.state.parse().map_err(|_| corrupt("agent_runs.state"))?,
            attempt: number(row.attempt, "agent_runs.attempt")?,
            max_attempts: number(row.max_attempts, "agent_runs.max_attempts")?,
            executor_id: row
                .executor_id
                .map(|id| id.parse())
                .transpose()
                .map_err(|_| corrupt("agent_runs.executor_id"))?,
            lease_until: row.lease_until.map(|at| at.0),
            cancel_requested: row.cancel_requested,
            output: maybe(row.output, "agent_runs.output")?,
            error: maybe(row.error, "agent_runs.error")?,
            usage: maybe(row.usage, "agent_runs.usage")?,
            created_by: row.created_by,
            created_at: row.created_at.0,
            started_at: row.started_at.map(|at| at.0),
            finished_at: row.finished_at.map(|at| at.0),
            private_to: row
                .private_to
                .map(|id| id.parse())
                .transpose()
                .map_err(|_| corrupt("agent_runs.private_to"))?,
        })
    }
}

fn json<T: DeserializeOwned>(text: &str, column: &'static str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Corrupt { column })
}

fn maybe<T: DeserializeOwned>(text: Option<String>, column: &'static str) -> Result<Option<T>, StoreError> {
    text.map(|text| json(&text, column)).transpose()
}

/// Something that happened in a run, as it is kept.
#[derive(Clone, Debug)]
pub struct KeptEvent {
    /// Its number in the run.
    pub n: u64,
    /// In which attempt; 0 before the first.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: RunEventKind,
}

impl TryFrom<EventRow> for KeptEvent {
    type Error = StoreError;

    fn try_from(row: EventRow) -> Result<Self, StoreError> {
        Ok(Self {
            n: u64::try_from(row.n).map_err(|_| StoreError::Corrupt { column: "agent_run_events.n" })?,
            attempt: u32::try_from(row.attempt)
                .map_err(|_| StoreError::Corrupt { column: "agent_run_events.attempt" })?,
            at: row.at.0,
            kind: json(&row.event, "agent_run_events.event")?,
        })
    }
}

impl<Mode> Tx<Mode> {
    /// One run, whoever asks.
    pub async fn run(&mut self, id: RunId) -> Result<Option<Run>, StoreError> {
        let row: Option<RunRow> = on!(self, c => sqlx::query_as(select!("AND id = $2"))
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Run::try_from).transpose()
    }

    /// Runs that an audience sees, newest first, that are older than `before`; of one chat, in one state, or all.
    pub async fn runs(
        &mut self,
        audience: Audience,
        chat: Option<ChatId>,
        state: Option<&str>,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<Run>, StoreError> {
        // Ids are hexadecimal: "g" is behind all of them.
        let before = before.map_or_else(|| "g".to_owned(), |id| id.to_string());
        let only = audience.only();
        let rows: Vec<RunRow> = on!(self, c => sqlx::query_as(
            select!("AND id < $2 AND (CAST($3 AS TEXT) IS NULL OR chat_id = $3) AND (CAST($4 AS TEXT) IS NULL OR state = $4)
                     AND ($5 OR private_to IS NULL OR private_to = $6) ORDER BY id DESC LIMIT $7"))
            .bind(self.org.as_str()).bind(before).bind(chat.map(|id| id.to_string())).bind(state)
            .bind(only.is_none()).bind(only.flatten().map(|user| user.to_string()))
            .bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }

    /// What an executor has.
    pub async fn runs_held_by(&mut self, executor: ExecutorId) -> Result<Vec<Run>, StoreError> {
        let rows: Vec<RunRow> = on!(self, c => sqlx::query_as(
            select!("AND executor_id = $2 AND state IN ('leased', 'running') ORDER BY id"))
            .bind(self.org.as_str()).bind(executor.to_string()).fetch_all(c))?;
        rows.into_iter().map(Run::try_from).collect()
    }

    /// What happened in a run behind the event `after`, in order.
    pub async fn run_events(&mut self, run: RunId, after: u64, limit: u32) -> Result<Vec<KeptEvent>, StoreError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let rows: Vec<EventRow> = on!(self, c => sqlx::query_as(
            "SELECT n, attempt, at, event FROM agent_run_events
             WHERE organization_id = $1 AND run_id = $2 AND n > $3 ORDER BY n LIMIT $4")
            .bind(self.org.as_str()).bind(run.to_string()).bind(after).bind(i64::from(limit)).fetch_all(c))?;
        rows.into_iter().map(KeptEvent::try_from).collect()
    }

    /// The last event of an attempt that its executor told.
    pub async fn last_seq(&mut self, run: RunId, attempt: u32) -> Result<u64, StoreError> {
        let last: Option<i64> = on!(self, c => sqlx::query_scalar(
            "SELECT MAX(seq) FROM agent_run_events WHERE organization_id = $1 AND run_id = $2 AND attempt = $3")
            .bind(self.org.as_str()).bind(run.to_string()).bind(i64::from(attempt)).fetch_one(c))?;
        Ok(last.and_then(|last| u64::try_from(last).ok()).unwrap_or_default())
    }

    /// How the results of a run's tools are shown. It is not read with the run: only who looks at a call needs it.
    pub async fn run_renderings(&mut self, run: RunId) -> Result<RunRenderings, StoreError> {
        let kept: Option<Option<String>> = on!(self, c => sqlx::query_scalar(
            "SELECT renderings FROM agent_runs WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(run.to_string()).fetch_optional(c))?;
        Ok(maybe(kept.flatten(), "agent_runs.renderings")?.unwrap_or_default())
    }

    /// A call of a run, by the number of the event that has its result: that event, and the one with which the tool was called. None if
    /// there is no such pair.
    pub async fn run_call(&mut self, run: RunId, result: u64) -> Result<Option<(KeptEvent, KeptEvent)>, StoreError> {
        let Some(before) = result.checked_sub(1) else { return Ok(None) };
        let found = self.run_events(run, before, 1).await?.pop().filter(|event| event.n == result);
        let Some(found) = found else { return Ok(None) };
        let RunEventKind::ToolResult { call_id: wanted, .. } = &found.kind else { return Ok(None) };
        // Most come soon after their call, so it is looked for from here on backwards.
        let mut below = result;
        loop {
            let rows: Vec<EventRow> = on!(self, c => sqlx::query_as(
                "SELECT n, attempt, at, event FROM agent_run_events
                 WHERE organization_id = $1 AND run_id = $2 AND n < $3 AND attempt = $4 ORDER BY n DESC LIMIT $5")
                .bind(self.org.as_str()).bind(run.to_string()).bind(i64::try_from(below).unwrap_or(i64::MAX))
                .bind(i64::from(found.attempt)).bind(BACK).fetch_all(c))?;
            if rows.is_empty() {
                return Ok(None);
            }
            for row in rows {
                let event = KeptEvent::try_from(row)?;
                below = event.n;
                if matches!(&event.kind, RunEventKind::ToolCall { call_id, .. } if call_id == wanted) {
                    return Ok(Some((event, found)));
                }
            }
        }
    }

    /// The blobs of a chat that the toolsets of its runs are made of, and shown with. No state has them.
    pub async fn run_blobs(&mut self, chat: ChatId) -> Result<Vec<ContentHash>, StoreError> {
        let kept: Vec<FilesRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset, renderings FROM agent_runs WHERE organization_id = $1 AND chat_id = $2 AND toolset IS NOT NULL")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_all(c))?;
        let mut blobs = Vec::new();
        for row in kept {
            let toolset: Option<ToolsetSnapshot> = maybe(row.toolset, "agent_runs.toolset")?;
            let renderings: Option<RunRenderings> = maybe(row.renderings, "agent_runs.renderings")?;
            blobs.extend(toolset.iter().flat_map(ToolsetSnapshot::files).map(|file| file.sha256));
            blobs.extend(renderings.iter().flat_map(|kept| kept.pages.values()).map(|file| file.sha256));
        }
        Ok(blobs)
    }
}
