//! Executors, and the ways in for them. Only hashes of their secrets are kept.

use kitbag_model::run::wire::FoundEngine;
use kitbag_model::run::{Executor, ExecutorName, NewExecutor, NewPairing, Pairing};
use kitbag_model::{ExecutorId, PairingId, SecretHash, Timestamp};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(ExecutorRow {
    id: String,
    name: String,
    pool: String,
    labels: String,
    secret_sha256: String,
    version: String,
    engines: String,
    capacity: i64,
    containers: bool,
    created_at: At,
    last_seen_at: Option<At>,
    revoked_at: Option<At>,
});
row!(PairingRow { secret_sha256: String, pool: String, labels: String, expires_at: At, used_at: Option<At> });

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, pool, labels, secret_sha256, version, engines, capacity, containers,
                    created_at, last_seen_at, revoked_at
             FROM executors WHERE organization_id = $1 ",
            $rest
        )
    };
}

impl TryFrom<ExecutorRow> for Executor {
    type Error = StoreError;

    fn try_from(row: ExecutorRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("executors.id"))?,
            name: row.name,
            version: row.version,
            pool: row.pool.parse().map_err(|_| corrupt("executors.pool"))?,
            labels: serde_json::from_str(&row.labels).map_err(|_| corrupt("executors.labels"))?,
            engines: serde_json::from_str(&row.engines).map_err(|_| corrupt("executors.engines"))?,
            capacity: u32::try_from(row.capacity).map_err(|_| corrupt("executors.capacity"))?,
            containers: row.containers,
            hash: SecretHash::from_hex(&row.secret_sha256).ok_or_else(|| corrupt("executors.secret_sha256"))?,
            created_at: row.created_at.0,
            last_seen_at: row.last_seen_at.map(|at| at.0),
            revoked_at: row.revoked_at.map(|at| at.0),
        })
    }
}

fn list(labels: &[String]) -> String {
    serde_json::Value::from(labels).to_string()
}

impl WriteTx {
    /// Keeps a way in. Those that ended go.
    pub async fn create_pairing(&mut self, new: &NewPairing) -> Result<(), StoreError> {
        let now = Timestamp::now();
        execute!(
            self,
            sqlx::query("DELETE FROM executor_pairings WHERE organization_id = $1 AND expires_at < $2")
                .bind(self.org.as_str())
                .bind(At(now.minus_days(1)))
        )?;
        execute!(
            self,
            sqlx::query(
                "INSERT INTO executor_pairings
                     (organization_id, id, secret_sha256, pool, labels, created_by, created_at, expires_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            )
            .bind(self.org.as_str())
            .bind(new.id.to_string())
            .bind(new.hash.to_string())
            .bind(new.pool.as_str())
            .bind(list(&new.labels))
            .bind(new.created_by.as_str())
            .bind(At(now))
            .bind(At(new.expires_at))
        )?;
        Ok(())
    }

    /// Notes that somebody comes in. Of all who try at once, one is told that it may.
    pub async fn use_pairing(&mut self, id: PairingId) -> Result<bool, StoreError> {
        let used = execute!(
            self,
            sqlx::query(
                "UPDATE executor_pairings SET used_at = $3 WHERE organization_id = $1 AND id = $2 AND used_at IS NULL"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(At(Timestamp::now()))
        )?;
        Ok(used > 0)
    }

    /// Keeps a new executor. It has not said yet what it can do.
    pub async fn create_executor(&mut self, new: &NewExecutor) -> Result<Executor, StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO executors
                     (organization_id, id, name, pool, labels, secret_sha256, version, engines, capacity, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, '[]', 0, $8)"
            )
            .bind(self.org.as_str())
            .bind(new.id.to_string())
            .bind(new.name.as_str())
            .bind(new.pool.as_str())
            .bind(list(&new.labels))
            .bind(new.hash.to_string())
            .bind(new.version.as_str())
            .bind(At(Timestamp::now()))
        )?;
        self.executor(new.id).await?.ok_or(StoreError::Corrupt { column: "executors.id" })
    }

    /// What an executor says of itself.
    pub async fn executor_said(
        &mut self,
        id: ExecutorId,
        version: &str,
        engines: &[FoundEngine],
        capacity: u32,
        containers: bool,
    ) -> Result<(), StoreError> {
        let engines = serde_json::to_string(engines).expect("a list of engines can be written as JSON");
        execute!(
            self,
            sqlx::query(
                "UPDATE executors SET version = $3, engines = $4, capacity = $5, last_seen_at = $6, containers = $7
                 WHERE organization_id = $1 AND id = $2"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(version)
            .bind(engines)
            .bind(i64::from(capacity))
            .bind(At(Timestamp::now()))
            .bind(containers)
        )?;
        Ok(())
    }

    /// Notes that it was heard of.
    pub async fn executor_seen(&mut self, id: ExecutorId) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE executors SET last_seen_at = $3 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
                .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// Calls it otherwise, or gives it other labels. Nothing if there is none.
    pub async fn update_executor(
        &mut self,
        id: ExecutorId,
        name: Option<&ExecutorName>,
        labels: Option<&[String]>,
    ) -> Result<Option<Executor>, StoreError> {
        execute!(
            self,
            sqlx::query(
                "UPDATE executors SET name = COALESCE($3, name), labels = COALESCE($4, labels)
                 WHERE organization_id = $1 AND id = $2 AND revoked_at IS NULL"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(name.map(ExecutorName::as_str))
            .bind(labels.map(list))
        )?;
        Ok(self.executor(id).await?.filter(|executor| executor.revoked_at.is_none()))
    }

    /// Lets it in no more. Whether it was let in before.
    pub async fn revoke_executor(&mut self, id: ExecutorId) -> Result<bool, StoreError> {
        let revoked = execute!(
            self,
            sqlx::query(
                "UPDATE executors SET revoked_at = $3 WHERE organization_id = $1 AND id = $2 AND revoked_at IS NULL"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(At(Timestamp::now()))
        )?;
        Ok(revoked > 0)
    }
}

impl<Mode> Tx<Mode> {
    /// One way in.
    pub async fn pairing(&mut self, id: PairingId) -> Result<Option<Pairing>, StoreError> {
        let row: Option<PairingRow> = on!(self, c => sqlx::query_as(
            "SELECT secret_sha256, pool, labels, expires_at, used_at FROM executor_pairings
             WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        let corrupt = |column| StoreError::Corrupt { column };
        row.map(|row| {
            Ok(Pairing {
                hash: SecretHash::from_hex(&row.secret_sha256)
                    .ok_or_else(|| corrupt("executor_pairings.secret_sha256"))?,
                pool: row.pool.parse().map_err(|_| corrupt("executor_pairings.pool"))?,
                labels: serde_json::from_str(&row.labels).map_err(|_| corrupt("executor_pairings.labels"))?,
                expires_at: row.expires_at.0,
                is_used: row.used_at.is_some(),
            })
        })
        .transpose()
    }

    /// One executor, also one that is let in no more.
    pub async fn executor(&mut self, id: ExecutorId) -> Result<Option<Executor>, StoreError> {
        let row: Option<ExecutorRow> = on!(self, c => sqlx::query_as(select!("AND id = $2"))
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Executor::try_from).transpose()
    }

    /// Executors that are let in, oldest first.
    pub async fn executors(&mut self, after: Option<ExecutorId>, limit: u32) -> Result<Page<Executor>, StoreError> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let rows: Vec<ExecutorRow> = on!(self, c => sqlx::query_as(
            select!("AND id > $2 AND revoked_at IS NULL ORDER BY id LIMIT $3"))
            .bind(self.org.as_str()).bind(after).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }
}
