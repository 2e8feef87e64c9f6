//! What happened in a run, added in order.

use kitbag_model::run::{RunEvent, RunEventKind, RunState};
use kitbag_model::{RunId, Timestamp};

use crate::error::StoreError;
use crate::row::At;
use crate::tx::{WriteTx, insert_many, on};

/// An event about to be added.
struct Line<'a> {
    n: i64,
    seq: Option<i64>,
    at: Timestamp,
    kind: &'a RunEventKind,
}

impl WriteTx {
    /// Adds what this server itself has to say of a run.
    pub async fn note_run(&mut self, run: RunId, attempt: u32, kind: &RunEventKind) -> Result<(), StoreError> {
        let first = self.next_numbers(run, 1).await?;
        self.add_run_lines(run, attempt, &[Line { n: first, seq: None, at: Timestamp::now(), kind }]).await
    }

    /// Whether this server, or another, has said that already.
    pub async fn is_noted(&mut self, run: RunId, attempt: u32, kind: &RunEventKind) -> Result<bool, StoreError> {
        let text = serde_json::to_string(kind).expect("an event can be written as JSON");
        let found: Option<i64> = on!(self, c => sqlx::query_scalar(
            "SELECT n FROM agent_run_events
             WHERE organization_id = $1 AND run_id = $2 AND attempt = $3 AND seq IS NULL AND event = $4 LIMIT 1")
            .bind(self.org.as_str()).bind(run.to_string()).bind(i64::from(attempt)).bind(text).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// Adds that it is in another state.
    pub(super) async fn note_state(
        &mut self,
        run: RunId,
        attempt: u32,
        state: RunState,
        reason: Option<String>,
    ) -> Result<(), StoreError> {
        self.note_run(run, attempt, &RunEventKind::State { state, reason, trace: None }).await
    }

    /// Adds what an executor told of an attempt. What is known already is left as it is, and what comes after a gap waits until
    /// it comes again. The last that is known.
    pub async fn add_run_events(&mut self, run: RunId, attempt: u32, told: &[RunEvent]) -> Result<u64, StoreError> {
        let known = self.last_seq(run, attempt).await?;
        let mut next = known + 1;
        let mut new = Vec::new();
        for event in told.iter().filter(|event| event.seq > known) {
            if event.seq != next {
                break;
            }
            new.push(event);
            next += 1;
        }
        if new.is_empty() {
            return Ok(known);
        }
        let first = self.next_numbers(run, new.len()).await?;
        let mut lines = Vec::with_capacity(new.len());
        for (n, event) in (first..).zip(new) {
            lines.push(Line { n, seq: i64::try_from(event.seq).ok(), at: event.at, kind: &event.kind });
        }
        self.add_run_lines(run, attempt, &lines).await?;
        Ok(next - 1)
    }

    /// Takes so many numbers; the first of them.
    async fn next_numbers(&mut self, run: RunId, count: usize) -> Result<i64, StoreError> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let last: i64 = on!(self, c => sqlx::query_scalar(
            "UPDATE agent_runs SET events = events + $3 WHERE organization_id = $1 AND id = $2 RETURNING events")
            .bind(self.org.as_str()).bind(run.to_string()).bind(count).fetch_one(c))?;
        Ok(last - count + 1)
    }

    async fn add_run_lines(&mut self, run: RunId, attempt: u32, lines: &[Line<'_>]) -> Result<(), StoreError> {
        let (org, run, attempt) = (self.org.as_str().to_owned(), run.to_string(), i64::from(attempt));
        insert_many!(
            self,
            "INSERT INTO agent_run_events (organization_id, run_id, n, attempt, seq, at, event) ",
            lines,
            |row, line| {
                let text = serde_json::to_string(line.kind).expect("an event can be written as JSON");
                row.push_bind(org.clone())
                    .push_bind(run.clone())
                    .push_bind(line.n)
                    .push_bind(attempt)
                    .push_bind(line.seq)
                    .push_bind(At(line.at))
                    .push_bind(text);
            }
        );
        Ok(())
    }
}
