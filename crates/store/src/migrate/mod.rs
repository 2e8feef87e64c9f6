//! Brings a schema up to date: forward only, all or nothing, one migrator at a time.

mod catalogue;
mod postgres;
pub mod transfer;

use kitbag_model::Timestamp;
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::error::OpenError;
use crate::organizations::INSERT_LOCAL;
use crate::row::{At, row};
use catalogue::{Dialect, Migration};

pub(crate) use postgres::check_postgres;
pub use postgres::{Migrated, migrate_further, migrate_postgres};

/// The version that this program needs.
pub fn newest() -> i64 {
    catalogue::all().last().map_or(0, |migration| migration.version)
}

const CREATE_HISTORY: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at TEXT NOT NULL)";
const READ_HISTORY: &str = "SELECT version, sha256 FROM schema_migrations ORDER BY version";
const WRITE_HISTORY: &str = "INSERT INTO schema_migrations (version, name, sha256, applied_at) VALUES ($1, $2, $3, $4)";
const WRITE_OLDEST: &str = "UPDATE schema_migrations SET oldest_program = $1 WHERE version = $2";
/// What the programs must know that a schema of a later version lets work with it.
const READ_OLDEST: &str = "SELECT MAX(COALESCE(oldest_program, version)) FROM schema_migrations";

row!(Applied { version: i64, sha256: String });

/// What of the catalogue is still to be applied, or why nothing may be.
/// `oldest` is the oldest program that works with a schema of a later version, for those who only want to work with it.
fn pending<'a>(known: &'a [Migration], applied: &[Applied], oldest: Option<i64>) -> Result<&'a [Migration], OpenError> {
    let newest = known.last().map_or(0, |migration| migration.version);
    let is_survived = oldest.is_some_and(|oldest| oldest <= newest);
    if let Some(last) = applied.last().filter(|last| last.version > newest && !is_survived) {
        return Err(OpenError::Newer { found: last.version, known: newest });
    }
    for (row, migration) in applied.iter().zip(known) {
        if row.version != migration.version || row.sha256 != migration.sha256() {
            return Err(OpenError::MigrationDiffers { version: row.version });
        }
    }
    Ok(&known[applied.len().min(known.len())..])
}

/// Whether a later version than this program's was here.
fn is_newer(applied: &[Applied]) -> bool {
    applied.last().is_some_and(|last| last.version > newest())
}

/// SQLite, at start. The write lock is taken before the history is read, so two programs cannot both migrate; what
/// a killed one left is rolled back by the next.
pub(crate) async fn sqlite(pool: &SqlitePool) -> Result<(), OpenError> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(CREATE_HISTORY).execute(&mut *tx).await?;
    let applied: Vec<Applied> = sqlx::query_as(READ_HISTORY).fetch_all(&mut *tx).await?;
    let oldest = match is_newer(&applied) {
        true => sqlx::query_scalar(READ_OLDEST).fetch_one(&mut *tx).await?,
        false => None,
    };
    for migration in pending(catalogue::all(), &applied, oldest)? {
        tracing::info!(version = migration.version, name = migration.name, "migrating the database");
        sqlx::raw_sql(AssertSqlSafe(migration.sql(Dialect::Sqlite))).execute(&mut *tx).await?;
        sqlx::query(WRITE_HISTORY)
            .bind(migration.version)
            .bind(migration.name)
            .bind(migration.sha256())
            .bind(At(Timestamp::now()))
            .execute(&mut *tx)
            .await?;
        if let Some(oldest) = migration.survived_by() {
            sqlx::query(WRITE_OLDEST).bind(oldest).bind(migration.version).execute(&mut *tx).await?;
        }
    }
    for statement in INSERT_LOCAL {
        sqlx::query(statement).bind(At(Timestamp::now())).execute(&mut *tx).await?;
    }
    Ok(tx.commit().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(applied: &[Applied], oldest: Option<i64>) -> Result<&'static [Migration], OpenError> {
        super::pending(catalogue::all(), applied, oldest)
    }

    fn history() -> Vec<Applied> {
        catalogue::all().iter().map(|m| Applied { version: m.version, sha256: m.sha256() }).collect()
    }

    #[test]
    fn what_is_pending() {
        let mut applied = history();
        assert!(pending(&applied, None).expect("up to date").is_empty());
        applied.pop();
        assert_eq!(pending(&applied, None).expect("one behind").len(), 1);
        assert_eq!(pending(&[], None).expect("empty").len(), catalogue::all().len());
    }

    #[test]
    fn a_newer_database_and_a_different_one_are_refused() {
        let mut applied = history();
        applied.push(Applied { version: newest() + 1, sha256: String::new() });
        for oldest in [None, Some(newest() + 1)] {
            assert!(matches!(pending(&applied, oldest), Err(OpenError::Newer { .. })));
        }
        assert!(pending(&applied, Some(newest())).expect("survived").is_empty());
        applied[1].sha256 = "0".repeat(64);
        for applied in [applied.as_slice(), &applied[..2]] {
            let differs = pending(applied, Some(newest()));
            assert!(matches!(differs, Err(OpenError::MigrationDiffers { version: 2 })));
        }
    }
}
