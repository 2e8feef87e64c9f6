//! The queue, as the system door shows it: which runs of which organisations wait, and whose lease ended. It says nothing else of them.

use kitbag_model::run::Pool;
use kitbag_model::{OrgId, RunId, Timestamp};

use crate::error::StoreError;
use crate::row::{At, row};
use crate::system::SystemTx;
use crate::tx::{Tx, on};

row!(WaitingRow { organization_id: String, waits: i64, held: i64, oldest: At });

/// How much of an organisation waits for the operator's executors.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The organisation.
    pub org: OrgId,
    /// How many runs wait.
    pub waits: u64,
    /// How many executors have.
    pub held: u64,
    /// Since when the oldest waits.
    pub oldest: Timestamp,
}

impl SystemTx {
    /// The organisations of which runs wait for a pool. Whose turn it is comes first: who has the fewest, and then who waits longest.
    pub async fn waiting_for(&mut self, pool: Pool) -> Result<Vec<Waiting>, StoreError> {
        let rows: Vec<WaitingRow> = on!(self, c => sqlx::query_as(
            "SELECT organization_id, SUM(CASE WHEN lease_until IS NULL THEN 1 ELSE 0 END) AS waits,
                    SUM(CASE WHEN lease_until IS NULL THEN 0 ELSE 1 END) AS held,
                    MIN(CASE WHEN lease_until IS NULL THEN since END) AS oldest
             FROM run_queue WHERE pool = $1 GROUP BY organization_id
             HAVING SUM(CASE WHEN lease_until IS NULL THEN 1 ELSE 0 END) > 0 ORDER BY held, oldest, organization_id")
            .bind(pool.as_str()).fetch_all(c))?;
        let number = |number| u64::try_from(number).unwrap_or_default();
        rows.into_iter()
            .map(|row| {
                Ok(Waiting {
                    org: row
                        .organization_id
                        .parse()
                        .map_err(|_| StoreError::Corrupt { column: "run_queue.organization_id" })?,
                    waits: number(row.waits),
                    held: number(row.held),
                    oldest: row.oldest.0,
                })
            })
            .collect()
    }

    /// How many runs wait, and how many executors have, of all organisations.
    pub async fn run_counts(&mut self) -> Result<(u64, u64), StoreError> {
        let (waits, held): (i64, i64) = on!(self, c => sqlx::query_as(
            "SELECT COUNT(*) - COUNT(lease_until), COUNT(lease_until) FROM run_queue").fetch_one(c))?;
        Ok((u64::try_from(waits).unwrap_or_default(), u64::try_from(held).unwrap_or_default()))
    }

    /// The organisations that have runs which are not over.
    pub async fn organizations_with_runs(&mut self) -> Result<Vec<OrgId>, StoreError> {
        let orgs: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT DISTINCT organization_id FROM run_queue ORDER BY organization_id").fetch_all(c))?;
        let read = |org: &String| org.parse().map_err(|_| StoreError::Corrupt { column: "run_queue.organization_id" });
        orgs.iter().map(read).collect()
    }

    /// Of which organisation a run is that is not over.
    pub async fn whose_run(&mut self, run: RunId) -> Result<Option<OrgId>, StoreError> {
        let org: Option<String> = on!(self, c => sqlx::query_scalar(
            "SELECT organization_id FROM run_queue WHERE run_id = $1 LIMIT 1").bind(run.to_string()).fetch_optional(c))?;
        org.map(|org| org.parse().map_err(|_| StoreError::Corrupt { column: "run_queue.organization_id" })).transpose()
    }

    /// Runs whose executor was not heard of in time.
    pub async fn expired_leases(&mut self, now: Timestamp, limit: u32) -> Result<Vec<(OrgId, RunId)>, StoreError> {
        let rows: Vec<(String, String)> = on!(self, c => sqlx::query_as(
            "SELECT organization_id, run_id FROM run_queue WHERE lease_until < $1 ORDER BY lease_until LIMIT $2")
            .bind(At(now)).bind(i64::from(limit)).fetch_all(c))?;
        let corrupt = |column| StoreError::Corrupt { column };
        rows.into_iter()
            .map(|(org, run)| {
                let org = org.parse().map_err(|_| corrupt("run_queue.organization_id"))?;
                Ok((org, run.parse().map_err(|_| corrupt("run_queue.run_id"))?))
            })
            .collect()
    }
}

impl<Mode> Tx<Mode> {
    /// Whether a run waits for a pool.
    pub async fn has_waiting(&mut self, pool: Pool) -> Result<bool, StoreError> {
        let found: Option<i64> = on!(self, c => sqlx::query_scalar(
            "SELECT CAST(1 AS BIGINT) FROM run_queue WHERE organization_id = $1 AND pool = $2 AND lease_until IS NULL LIMIT 1")
            .bind(self.org.as_str()).bind(pool.as_str()).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// How many runs of the organisation executors have.
    pub async fn runs_in_flight(&mut self) -> Result<u64, StoreError> {
        let count: i64 = on!(self, c => sqlx::query_scalar(
            "SELECT COUNT(*) FROM run_queue WHERE organization_id = $1 AND lease_until IS NOT NULL")
            .bind(self.org.as_str()).fetch_one(c))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}
