//! What is deleted for its age: chats by whoever serves, lines of the audit by whoever owns the tables.
//!
//! On PostgreSQL the role that serves cannot delete lines of the audit, and neither can the owner, who is bound by the policies too. So
//! the owner makes a policy for it in the very transaction that deletes, and takes it away in the same: nobody ever sees it. SQLite knows no roles.

use kitbag_model::{Action, ChatId, OrgId, Secret, Timestamp};
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

use crate::error::{OpenError, StoreError};
use crate::row::{At, row};
use crate::store::{Database, PATIENCE, Store};
use crate::system::SystemTx;
use crate::tx::{Edition, Inner, Tx, WriteTx, execute, on};
use crate::{migrate, postgres};

/// So many lines are deleted in one transaction.
const BATCH: i64 = 1_000;

/// How long whoever deletes holds up whoever serves.
const HURRY: &str = "SET statement_timeout = '30s'; SET lock_timeout = '10s'";

const LET_DELETE: &str = "CREATE POLICY kitbag_trim ON audit FOR DELETE TO CURRENT_USER
     USING (organization_id = (SELECT nullif(current_setting('kitbag.org', true), '')))";
const LET_NO_LONGER: &str = "DROP POLICY kitbag_trim ON audit";

const DELETE_LINES: &str = "DELETE FROM audit WHERE organization_id = $1 AND id IN
     (SELECT id FROM audit WHERE organization_id = $1 AND at < $2 ORDER BY at, id LIMIT $3)";

row!(Untouched { id: String, updated_at: At });

impl<Mode> Tx<Mode> {
    /// Chats that nobody touched since `before`, those first that nobody touched for the longest, behind `after`.
    pub async fn untouched_chats(
        &mut self,
        before: Timestamp,
        after: Option<(ChatId, Timestamp)>,
        limit: u32,
    ) -> Result<Vec<(ChatId, Timestamp)>, StoreError> {
        let (id, at) = after.map_or_else(|| (String::new(), Timestamp::EPOCH), |(id, at)| (id.to_string(), at));
        let rows: Vec<Untouched> = on!(self, c => sqlx::query_as(
            "SELECT id, updated_at FROM chats
             WHERE organization_id = $1 AND updated_at < $2 AND (updated_at > $3 OR (updated_at = $3 AND id > $4))
             ORDER BY updated_at, id LIMIT $5")
            .bind(self.org.as_str()).bind(At(before)).bind(At(at)).bind(id).bind(i64::from(limit)).fetch_all(c))?;
        let corrupt = |_| StoreError::Corrupt { column: "chats.id" };
        rows.into_iter().map(|row| Ok((row.id.parse().map_err(corrupt)?, row.updated_at.0))).collect()
    }
}

impl WriteTx {
    /// Deletes a chat that nobody touched since `before`. Whether there was one.
    pub async fn expire_chat(&mut self, id: ChatId, before: Timestamp) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM chats WHERE organization_id = $1 AND id = $2 AND updated_at < $3")
                .bind(self.org.as_str())
                .bind(id.to_string())
                .bind(At(before))
        )?;
        Ok(deleted > 0)
    }

    async fn trim_audit(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(execute!(self, sqlx::query(DELETE_LINES).bind(self.org.as_str()).bind(At(before)).bind(BATCH))?)
    }
}

impl Store {
    /// Whether whoever has this database open may delete lines of the audit.
    pub fn may_trim_audit(&self) -> bool {
        matches!(self.parts().0, Database::Sqlite(_))
    }

    /// Deletes the lines of an organisation's audit from before, in small parts, and adds one that says so. How many.
    pub async fn trim_audit(&self, org: &OrgId, before: Timestamp, who: &str) -> Result<u64, StoreError> {
        let mut lines = 0;
        loop {
            let mut tx = self.write(org).await?;
            let trimmed = tx.trim_audit(before).await?;
            if trimmed > 0 {
                tx.audit(who, Action::AuditTrimmed, org.as_str(), &told(trimmed, before)).await?;
            }
            tx.commit_chat().await?;
            lines += trimmed;
            if trimmed < BATCH as u64 {
                return Ok(lines);
            }
        }
    }
}

fn told(lines: u64, before: Timestamp) -> serde_json::Value {
    json!({ "lines": lines, "before": before.to_string() })
}

/// What was deleted of one organisation's audit.
#[derive(Clone, Debug)]
pub struct Trimmed {
    /// Whose it was.
    pub org: OrgId,
    /// How many lines.
    pub lines: u64,
}

/// Deletes, as the owner of the tables on PostgreSQL, the lines of the audit that are older than their organisation wants them kept.
pub async fn trim_audit_postgres(owner: &Secret, who: &str) -> Result<Vec<Trimmed>, OpenError> {
    // Whoever serves adds lines all the time, and must not wait long for one who deletes.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(PATIENCE)
        .after_connect(|connection, _| Box::pin(async move { connection.execute(HURRY).await.map(drop) }))
        .connect_with(postgres::options(owner)?)
        .await
        .map_err(OpenError::connecting)?;
    migrate::check_postgres(&pool).await?;
    let mut system = SystemTx::open(Inner::Postgres(pool.begin().await?)).await.map_err(failed)?;
    let orgs = system.organization_ids().await.map_err(failed)?;
    drop(system);
    let mut done = Vec::new();
    for org in orgs {
        let lines = trim_one(&pool, &org, who).await?;
        if lines > 0 {
            done.push(Trimmed { org, lines });
        }
    }
    pool.close().await;
    Ok(done)
}

async fn trim_one(pool: &PgPool, org: &OrgId, who: &str) -> Result<u64, OpenError> {
    let mut lines = 0;
    loop {
        let mut tx =
            WriteTx::bind(Inner::Postgres(pool.begin().await?), org, Edition::default(), None).await.map_err(failed)?;
        let settings = tx.settings().await.map_err(failed)?;
        let Some(days) = settings.and_then(|(settings, _)| settings.retention.audit_days) else { return Ok(lines) };
        let before = Timestamp::now().minus_days(days.get());
        execute!(tx, sqlx::query(LET_DELETE))?;
        let trimmed = tx.trim_audit(before).await.map_err(failed)?;
        execute!(tx, sqlx::query(LET_NO_LONGER))?;
        if trimmed == 0 {
            return Ok(lines);
        }
        tx.audit(who, Action::AuditTrimmed, org.as_str(), &told(trimmed, before)).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        lines += trimmed;
    }
}

fn failed(error: StoreError) -> OpenError {
    match error {
        StoreError::Unavailable(cause) | StoreError::Database(cause) => OpenError::Database(cause),
        other => OpenError::Database(sqlx::Error::Configuration(other.into())),
    }
}
