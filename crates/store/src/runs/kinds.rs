//! Which kinds of runs wait: all runs that need the same of an executor are one kind ([`kitbag_model::run::Needs`]), so that those that fit nobody
//! cost one look, however many they are. Of kinds there may be many, too, since labels are free words: so many are looked at at once, and the
//! next look begins behind them.

use kitbag_model::RunId;
use kitbag_model::run::{EngineId, Executor, Needs, Run};

use super::read::{RunRow, select};
use crate::error::StoreError;
use crate::row::row;
use crate::tx::{Tx, WriteTx, execute, on};

/// So many kinds are looked at at once, at the most.
pub const KINDS_AT_ONCE: usize = 256;

/// So many of them that an executor may take runs of are claimed from at once: each is a question while others wait to write.
const FITTING_AT_ONCE: usize = 32;

/// So many runs of which nobody knows the kind are sorted out at once, at the most.
const SORTED_OUT: i64 = 50;

/// The kind of those that a program put here which knows no kinds.
pub(super) const UNKNOWN: &str = "";

row!(KindRow { kind: String, needs: Option<String> });

/// The kinds that an executor may take runs of.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// Their names.
    pub fitting: Vec<String>,
    /// How many were looked at.
    pub looked_at: usize,
    /// Behind which the next look begins, if these were not all.
    pub behind: Option<String>,
}

impl<Mode> Tx<Mode> {
    /// Which kinds of runs of this organisation wait for an executor: those behind one, or all, as far as one look goes. Of the engines that it
    /// does not have none is looked at.
    pub async fn kinds_for(&mut self, executor: &Executor, behind: Option<&str>) -> Result<Kinds, StoreError> {
        let mut kinds = Kinds::default();
        if behind.is_none() && self.has_unknown(executor).await? {
            kinds.fitting.push(UNKNOWN.to_owned());
        }
        // In the order in which their kinds lie.
        let mut engines: Vec<EngineId> = executor.engines.iter().map(|found| found.id).collect();
        engines.sort_by_key(|engine| engine.as_str());
        engines.dedup();
        for engine in engines {
            let (first, last) = Needs::kinds_of(engine);
            let first = behind.filter(|behind| *behind > first.as_str()).unwrap_or(&first);
            if first >= last.as_str() {
                continue;
            }
            for row in self.kinds_between(executor, (first, &last), KINDS_AT_ONCE - kinds.looked_at).await? {
                kinds.looked_at += 1;
                let fits = is_for(executor, row.needs.as_deref());
                if fits {
                    kinds.fitting.push(row.kind.clone());
                }
                if kinds.looked_at == KINDS_AT_ONCE || kinds.fitting.len() == FITTING_AT_ONCE {
                    kinds.behind = Some(row.kind);
                    return Ok(kinds);
                }
            }
        }
        Ok(kinds)
    }

    /// The kinds of which runs wait, by name, each with what it needs: one step in the index from a kind to the next, whatever waits of it. A kind
    /// is looked for as what is between it and itself: of an equal one PostgreSQL thinks that any index has it soon, and walks the oldest runs.
    async fn kinds_between(
        &mut self,
        executor: &Executor,
        (first, last): (&str, &str),
        most: usize,
    ) -> Result<Vec<KindRow>, StoreError> {
        Ok(on!(self, c => sqlx::query_as(
            "WITH RECURSIVE kinds (kind, n) AS (
                 SELECT (SELECT q.kind FROM run_queue q
                         WHERE q.organization_id = $1 AND q.pool = $2 AND q.lease_until IS NULL AND q.kind > $3 AND q.kind < $4
                         ORDER BY q.kind LIMIT 1), CAST(1 AS BIGINT)
                 UNION ALL
                 SELECT (SELECT q.kind FROM run_queue q
                         WHERE q.organization_id = $1 AND q.pool = $2 AND q.lease_until IS NULL AND q.kind > kinds.kind AND q.kind < $4
                         ORDER BY q.kind LIMIT 1), kinds.n + 1
                 FROM kinds WHERE kinds.kind IS NOT NULL AND kinds.n < $5)
             SELECT kinds.kind AS kind,
                    (SELECT r.needs FROM agent_runs r WHERE r.organization_id = $1 AND r.id =
                         (SELECT q.run_id FROM run_queue q
                          WHERE q.organization_id = $1 AND q.pool = $2 AND q.lease_until IS NULL AND q.kind >= kinds.kind
                            AND q.kind <= kinds.kind
                          ORDER BY q.kind, q.since, q.run_id LIMIT 1)) AS needs
             FROM kinds WHERE kinds.kind IS NOT NULL ORDER BY kinds.kind")
            .bind(self.org.as_str()).bind(executor.pool.as_str()).bind(first).bind(last)
            .bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(c))?)
    }

    /// Whether runs wait of which nobody knows the kind.
    async fn has_unknown(&mut self, executor: &Executor) -> Result<bool, StoreError> {
        let found: Option<i64> = on!(self, c => sqlx::query_scalar(
            "SELECT CAST(1 AS BIGINT) FROM run_queue
             WHERE organization_id = $1 AND pool = $2 AND lease_until IS NULL AND kind >= $3 AND kind <= $3 ORDER BY kind LIMIT 1")
            .bind(self.org.as_str()).bind(executor.pool.as_str()).bind(UNKNOWN).fetch_optional(c))?;
        Ok(found.is_some())
    }
}

impl WriteTx {
    /// Finds out of which kind runs are that a program put here which knows no kinds. Those that the executor may take.
    pub(super) async fn sort_out(&mut self, executor: &Executor) -> Result<Vec<String>, StoreError> {
        let ids: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT run_id FROM run_queue
             WHERE organization_id = $1 AND pool = $2 AND lease_until IS NULL AND kind >= $3 AND kind <= $3
             ORDER BY kind, since, run_id LIMIT $4")
            .bind(self.org.as_str()).bind(executor.pool.as_str()).bind(UNKNOWN).bind(SORTED_OUT).fetch_all(c))?;
        let mut fitting = Vec::new();
        for id in ids {
            let found: Option<RunRow> = on!(self, c => sqlx::query_as(select!("AND id = $2"))
                .bind(self.org.as_str()).bind(&id).fetch_optional(c))?;
            let Some(run) = found.map(Run::try_from).transpose()? else { continue };
            // One that cannot be read any more goes to nobody, and is not to be looked at again.
            let Some(needs) = run.asked().map(|config| run.needs(&config)) else {
                self.set_kind(run.id, "unreadable", None).await?;
                continue;
            };
            let kind = needs.kind();
            self.set_kind(run.id, &kind, Some(&needs)).await?;
            if needs.are_met_by(executor) && !fitting.contains(&kind) {
                fitting.push(kind);
            }
        }
        Ok(fitting)
    }

    async fn set_kind(&mut self, id: RunId, kind: &str, needs: Option<&Needs>) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE run_queue SET kind = $3 WHERE organization_id = $1 AND run_id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
                .bind(kind)
        )?;
        execute!(
            self,
            sqlx::query("UPDATE agent_runs SET needs = $3 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
                .bind(needs.map(Needs::to_text))
        )?;
        Ok(())
    }
}

/// Whether a kind is for an executor. One of which this program does not know what it needs is looked at run by run.
fn is_for(executor: &Executor, needs: Option<&str>) -> bool {
    let needs: Option<Needs> = needs.and_then(|needs| serde_json::from_str(needs).ok());
    needs.is_none_or(|needs| needs.are_met_by(executor))
}
