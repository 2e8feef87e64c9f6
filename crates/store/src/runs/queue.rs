//! The queue, as the system door shows it: which runs of which organisations wait, and whose lease ended. It says nothing else of them.

use kitbag_model::run::Pool;
use kitbag_model::{OrgId, RunId, Timestamp};

use crate::error::StoreError;
use crate::row::{At, row};
use crate::system::SystemTx;
use crate::tx::{Inner, Tx, WriteTx, on};

/// So many organisations are looked at at once, at the most.
const ORGANISATIONS_AT_ONCE: i64 = 500;

/// The organisations that have runs in the queue, behind one: one step in an index from each to the next, however many runs each has.
macro_rules! organisations {
    ($of:literal, $rest:literal) => {
        concat!(
            "WITH RECURSIVE orgs (org, n) AS (
                 SELECT (SELECT q.organization_id FROM run_queue q WHERE ",
            $of,
            " AND q.organization_id > $1 ORDER BY q.organization_id LIMIT 1), CAST(1 AS BIGINT)
                 UNION ALL
                 SELECT (SELECT q.organization_id FROM run_queue q WHERE ",
            $of,
            " AND q.organization_id > orgs.org ORDER BY q.organization_id LIMIT 1), orgs.n + 1
                 FROM orgs WHERE orgs.org IS NOT NULL AND orgs.n < $2) ",
            $rest
        )
    };
}

row!(WaitingRow { org: String, held: i64, oldest: Option<At> });

/// An organisation that waits for the operator's executors.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The organisation.
    pub org: OrgId,
    /// How many runs executors have.
    pub held: u64,
    /// Since when the oldest waits.
    pub oldest: Timestamp,
}

impl SystemTx {
    /// The organisations of which runs wait for a pool, behind one, as far as one look goes; and behind which the next look begins, if these
    /// were not all. Whose turn it is comes first: who has the fewest, and then who waits longest.
    pub async fn waiting_for(
        &mut self,
        pool: Pool,
        behind: Option<&OrgId>,
    ) -> Result<(Vec<Waiting>, Option<OrgId>), StoreError> {
        // In the words of the one index that each of these is meant for: of several that begin alike PostgreSQL may take any.
        let rows: Vec<WaitingRow> = on!(self, c => sqlx::query_as(organisations!(
            "q.lease_until IS NULL",
            "SELECT orgs.org AS org,
                    (SELECT COUNT(*) FROM run_queue q
                     WHERE q.organization_id = orgs.org AND q.lease_until > $4 AND q.pool = $3) AS held,
                    (SELECT q.since FROM run_queue q
                     WHERE q.organization_id = orgs.org AND q.pool >= $3 AND q.pool <= $3 AND q.lease_until IS NULL
                     ORDER BY q.pool, q.since, q.run_id LIMIT 1) AS oldest
             FROM orgs WHERE orgs.org IS NOT NULL ORDER BY orgs.org"))
            .bind(behind.map_or("", OrgId::as_str)).bind(ORGANISATIONS_AT_ONCE).bind(pool.as_str())
            .bind(At(Timestamp::EPOCH)).fetch_all(c))?;
        let were_all = (rows.len() as i64) < ORGANISATIONS_AT_ONCE;
        let (mut waiting, mut last) = (Vec::new(), None);
        for row in rows {
            let org: OrgId = parsed(&row.org)?;
            last = Some(org.clone());
            if let Some(oldest) = row.oldest {
                waiting.push(Waiting { org, held: u64::try_from(row.held).unwrap_or_default(), oldest: oldest.0 });
            }
        }
        waiting.sort_by(|one, other| (one.held, one.oldest, &one.org).cmp(&(other.held, other.oldest, &other.org)));
        Ok((waiting, last.filter(|_| !were_all)))
    }

    /// How many runs wait, of all organisations. Each is a step in an index that has nothing else; they may be many.
    pub async fn all_waiting(&mut self) -> Result<u64, StoreError> {
        let waiting: i64 = on!(self, c => sqlx::query_scalar("SELECT COUNT(*) FROM run_queue WHERE lease_until IS NULL")
            .fetch_one(c))?;
        Ok(u64::try_from(waiting).unwrap_or_default())
    }

    /// How many runs executors have, of all organisations: no more than they have room for.
    pub async fn all_held(&mut self) -> Result<u64, StoreError> {
        let held: i64 = on!(self, c => sqlx::query_scalar("SELECT COUNT(*) FROM run_queue WHERE lease_until IS NOT NULL")
            .fetch_one(c))?;
        Ok(u64::try_from(held).unwrap_or_default())
    }

    /// The organisations of which executors have runs.
    pub async fn organizations_with_held_runs(&mut self) -> Result<Vec<OrgId>, StoreError> {
        let orgs: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT DISTINCT organization_id FROM run_queue WHERE lease_until IS NOT NULL ORDER BY organization_id")
            .fetch_all(c))?;
        orgs.iter().map(|org| parsed(org)).collect()
    }

    /// Of which organisation a run is that is not over.
    pub async fn whose_run(&mut self, run: RunId) -> Result<Option<OrgId>, StoreError> {
        let org: Option<String> = on!(self, c => sqlx::query_scalar(organisations!(
            "TRUE",
            "SELECT orgs.org FROM orgs WHERE EXISTS
                 (SELECT 1 FROM run_queue q WHERE q.organization_id = orgs.org AND q.run_id = $3) LIMIT 1"))
            .bind("").bind(i64::MAX).bind(run.to_string()).fetch_optional(c))?;
        org.map(|org| parsed(&org)).transpose()
    }

    /// Runs whose executor was not heard of in time.
    pub async fn expired_leases(&mut self, now: Timestamp, limit: u32) -> Result<Vec<(OrgId, RunId)>, StoreError> {
        let rows: Vec<(String, String)> = on!(self, c => sqlx::query_as(
            "SELECT organization_id, run_id FROM run_queue WHERE lease_until < $1 ORDER BY lease_until LIMIT $2")
            .bind(At(now)).bind(i64::from(limit)).fetch_all(c))?;
        let corrupt = |column| StoreError::Corrupt { column };
        rows.into_iter()
            .map(|(org, run)| {
                let org = parsed(&org)?;
                Ok((org, run.parse().map_err(|_| corrupt("run_queue.run_id"))?))
            })
            .collect()
    }
}

fn parsed(org: &str) -> Result<OrgId, StoreError> {
    org.parse().map_err(|_| StoreError::Corrupt { column: "run_queue.organization_id" })
}

impl WriteTx {
    /// Has whoever else wants to put a run of this organisation into the queue wait until this transaction is over: of two who both see the
    /// last place, one would take one that is not there. SQLite has one writer.
    pub async fn lock_queue(&mut self) -> Result<(), StoreError> {
        if let Inner::Postgres(tx) = &mut self.inner {
            sqlx::query("SELECT 1 FROM organization_settings WHERE organization_id = $1 FOR UPDATE")
                .bind(self.org.as_str())
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }
}

impl<Mode> Tx<Mode> {
    /// How many runs of the organisation wait, counted as far as `most`: more is enough to know.
    pub async fn runs_waiting(&mut self, most: u64) -> Result<u64, StoreError> {
        let count: i64 = on!(self, c => sqlx::query_scalar(
            "SELECT COUNT(*) FROM (SELECT 1 FROM run_queue WHERE organization_id = $1 AND lease_until IS NULL LIMIT $2) AS counted")
            .bind(self.org.as_str()).bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_one(c))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// How many runs of the organisation executors have.
    pub async fn runs_in_flight(&mut self) -> Result<u64, StoreError> {
        let count: i64 = on!(self, c => sqlx::query_scalar(
            "SELECT COUNT(*) FROM run_queue WHERE organization_id = $1 AND lease_until IS NOT NULL")
            .bind(self.org.as_str()).fetch_one(c))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}
