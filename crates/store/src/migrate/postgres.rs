//! PostgreSQL's schema: made and upgraded by its owner (`kitbag admin migrate`), only looked at by the app role.
//!
//! Servers go on while their schema is upgraded. Whoever waits for a table keeps all waiting that come after it, and whoever waits with a table in hand may
//! wait for somebody who waits for that. So all tables that are to change are taken first, at once, or let go of again very soon and tried again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kitbag_model::{OrgId, Secret, Timestamp};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool};

use super::catalogue::{self, Dialect, Migration};
use super::{
    Applied, CREATE_HISTORY, READ_HISTORY, READ_OLDEST, WRITE_HISTORY, WRITE_OLDEST, is_newer, newest, pending,
};
use crate::error::OpenError;
use crate::organizations::INSERT_LOCAL;
use crate::postgres;
use crate::row::At;

/// Any number; the same in every version, so that two migrators wait for each other.
const MIGRATION_LOCK: i64 = 0x6b69_7462_6167;

/// Less than it takes until PostgreSQL looks for those who wait for each other (`deadlock_timeout`) and ends one of them: that would be a request.
const TAKE: &str = "SET LOCAL statement_timeout = '700ms'";
const TAKEN: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '700ms'";

/// So long it is tried. A backup reads from everything, for as long as it takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long servers are left alone before it is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What a migration did.
#[derive(Clone, Debug)]
pub struct Migrated {
    /// The version before; 0 if there was no schema.
    pub from: i64,
    /// The version now.
    pub to: i64,
    /// Whether the app role was made. It has no password then.
    pub made_role: bool,
}

/// Makes or upgrades the schema with the owner's URL, and grants the app role what it needs and no more.
pub async fn migrate_postgres(owner: &Secret, app_role: &str) -> Result<Migrated, OpenError> {
    migrate_patiently(owner, app_role, catalogue::all()).await
}

/// The same with migrations that this program does not have: for tests of what servers do meanwhile.
#[doc(hidden)]
pub async fn migrate_further(owner: &Secret, app_role: &str, text: &'static str) -> Result<Migrated, OpenError> {
    let next = Migration::after_all("9999_future", text);
    let all: Vec<Migration> = catalogue::all().iter().cloned().chain([next]).collect();
    migrate_patiently(owner, app_role, &all).await
}

async fn migrate_patiently(owner: &Secret, app_role: &str, all: &[Migration]) -> Result<Migrated, OpenError> {
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match migrate(owner, app_role, all).await {
            Err(OpenError::Database(error)) if is_in_use(&error) => {
                if begun.elapsed() > PATIENCE {
                    return Err(OpenError::InUse(error));
                }
                tracing::warn!(%error, "somebody works with a table that is to change; trying again");
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            done => return done,
        }
    }
}

/// Whether a statement ended because others had what it needs.
fn is_in_use(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["55P03", "57014", "40P01"].contains(&&*code))
}

async fn migrate(owner: &Secret, app_role: &str, all: &[Migration]) -> Result<Migrated, OpenError> {
    let mut connection = postgres::options(owner)?.connect().await.map_err(OpenError::connecting)?;
    let mut tx = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *tx).await?;
    sqlx::query(CREATE_HISTORY).execute(&mut *tx).await?;
    let applied: Vec<Applied> = sqlx::query_as(READ_HISTORY).fetch_all(&mut *tx).await?;
    let pending = pending(all, &applied, None)?;
    take_tables(&mut tx, pending).await?;
    for migration in pending {
        tracing::info!(version = migration.version, name = migration.name, "migrating the database");
        sqlx::raw_sql(AssertSqlSafe(migration.sql(Dialect::Postgres))).execute(&mut *tx).await?;
        sqlx::query(WRITE_HISTORY)
            .bind(migration.version)
            .bind(migration.name)
            .bind(migration.sha256())
            .bind(Timestamp::now().to_string())
            .execute(&mut *tx)
            .await?;
        if let Some(oldest) = migration.survived_by() {
            sqlx::query(WRITE_OLDEST).bind(oldest).bind(migration.version).execute(&mut *tx).await?;
        }
    }
    insert_local(&mut tx).await?;
    let made_role = ensure_role(&mut tx, app_role).await?;
    grant(&mut tx, app_role).await?;
    tx.commit().await?;
    connection.close().await?;
    let to = all.last().map_or(0, |last| last.version);
    Ok(Migrated { from: applied.last().map_or(0, |last| last.version), to, made_role })
}

/// Takes all tables that migrations change.
async fn take_tables(tx: &mut PgConnection, pending: &[Migration]) -> Result<(), OpenError> {
    let texts: Vec<String> = pending.iter().map(|migration| migration.sql(Dialect::Postgres)).collect();
    let named: BTreeSet<&str> = texts.iter().flat_map(|text| tables_of(text)).collect();
    let mut there = Vec::new();
    for table in named {
        let known: Option<String> = sqlx::query_scalar(
            "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename = $1",
        )
        .bind(table)
        .fetch_optional(&mut *tx)
        .await?;
        there.extend(known);
    }
    if !there.is_empty() {
        let take = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", there.join(", "));
        sqlx::raw_sql(TAKE).execute(&mut *tx).await?;
        sqlx::raw_sql(AssertSqlSafe(take)).execute(&mut *tx).await?;
    }
    sqlx::raw_sql(TAKEN).execute(&mut *tx).await?;
    Ok(())
}

/// What a migration may be about: words behind those that go before a table. Some of them are none.
fn tables_of(text: &str) -> Vec<&str> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let is_before = |word: &str| ["TABLE", "ON", "REFERENCES", "UPDATE", "INTO", "FROM"].contains(&word);
    words.windows(2).filter(|pair| is_before(pair[0])).map(|pair| pair[1]).collect()
}

/// The owner is bound by the policies too, so even this takes a bound organisation.
async fn insert_local(tx: &mut PgConnection) -> Result<(), OpenError> {
    sqlx::query("SELECT set_config('kitbag.org', $1, true)").bind(OrgId::local().as_str()).execute(&mut *tx).await?;
    for statement in INSERT_LOCAL {
        sqlx::query(statement).bind(At(Timestamp::now())).execute(&mut *tx).await?;
    }
    Ok(())
}

async fn ensure_role(tx: &mut PgConnection, role: &str) -> Result<bool, OpenError> {
    let unusable = |reason: &str| OpenError::AppRole { role: role.to_owned(), reason: reason.to_owned() };
    if role.is_empty() || role.len() > 63 || role.chars().any(char::is_control) {
        return Err(unusable("a role's name has 1 to 63 bytes on one line"));
    }
    let owner: String = sqlx::query_scalar("SELECT current_user::text").fetch_one(&mut *tx).await?;
    if owner == role {
        return Err(unusable("it is the owner of the tables; the app role must be another one"));
    }
    let known: Option<bool> = sqlx::query_scalar(
        "SELECT rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication FROM pg_roles WHERE rolname = $1",
    )
    .bind(role)
    .fetch_optional(&mut *tx)
    .await?;
    match known {
        Some(false) => return Ok(false),
        Some(true) => {
            return Err(unusable("it has SUPERUSER, BYPASSRLS, CREATEROLE or REPLICATION and so may too much"));
        }
        None => {}
    }
    let may_create: bool =
        sqlx::query_scalar("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
            .fetch_one(&mut *tx)
            .await?;
    if !may_create {
        return Err(unusable(
            "there is no such role, and the owner may not make one. As an administrator, run: \
             CREATE ROLE … LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD '…'",
        ));
    }
    run_for_role(tx, "CREATE ROLE %I LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE", role).await?;
    Ok(true)
}

/// Rows only: no TRUNCATE (it ignores policies), no REFERENCES, no TRIGGER. Whatever the role or everybody was granted
/// before goes first.
async fn grant(tx: &mut PgConnection, role: &str) -> Result<(), OpenError> {
    run_for_role(tx, "REVOKE CREATE ON SCHEMA public FROM PUBLIC, %I", role).await?;
    run_for_role(tx, "GRANT USAGE ON SCHEMA public TO %I", role).await?;
    run_for_role(tx, "REVOKE ALL ON schema_migrations FROM PUBLIC, %I", role).await?;
    run_for_role(tx, "GRANT SELECT ON schema_migrations TO %I", role).await?;
    // The policies say what may be done to a table's rows; some may be added and read, and no more.
    let protected: Vec<(String, String)> = sqlx::query_as(
        "SELECT quote_ident(tablename),
                CASE WHEN bool_or(cmd = 'ALL') THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE string_agg(DISTINCT cmd, ', ') END
         FROM pg_policies WHERE schemaname = 'public' AND policyname LIKE 'kitbag\\_%' GROUP BY tablename",
    )
    .fetch_all(&mut *tx)
    .await?;
    for (table, commands) in protected {
        run_for_role(tx, &format!("REVOKE ALL ON {table} FROM PUBLIC, %I"), role).await?;
        run_for_role(tx, &format!("GRANT {commands} ON {table} TO %I"), role).await?;
    }
    Ok(())
}

/// Runs a statement that cannot take parameters; the database itself quotes the role's name.
async fn run_for_role(tx: &mut PgConnection, template: &str, role: &str) -> Result<(), OpenError> {
    let statement: String =
        sqlx::query_scalar("SELECT format($1, $2::text)").bind(template).bind(role).fetch_one(&mut *tx).await?;
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *tx).await?;
    Ok(())
}

/// As the app role: says what to run if the schema is not the one this program needs.
pub(crate) async fn check_postgres(pool: &PgPool) -> Result<(), OpenError> {
    let exists: bool =
        sqlx::query_scalar("SELECT to_regclass('public.schema_migrations') IS NOT NULL").fetch_one(pool).await?;
    let applied: Vec<Applied> = if exists { sqlx::query_as(READ_HISTORY).fetch_all(pool).await? } else { Vec::new() };
    // Nodes of the version before go on with what its migration left them, also if they are started again.
    let oldest = match is_newer(&applied) {
        true => sqlx::query_scalar(READ_OLDEST).fetch_one(pool).await?,
        false => None,
    };
    if pending(catalogue::all(), &applied, oldest)?.is_empty() {
        return Ok(());
    }
    Err(OpenError::NeedsMigration { found: applied.last().map_or(0, |last| last.version), needed: newest() })
}

#[cfg(test)]
mod tests {
    use super::tables_of;

    #[test]
    fn the_tables_of_a_migration() {
        let text = "CREATE TABLE plants (bed ID NOT NULL REFERENCES beds (id) ON DELETE CASCADE);\nALTER TABLE users ADD COLUMN age INTEGER;\n\
                    CREATE POLICY kitbag_owner ON identities FOR SELECT TO CURRENT_USER;\nINSERT INTO notes SELECT * FROM lines;";
        let found = tables_of(text);
        for table in ["plants", "beds", "users", "identities", "notes", "lines"] {
            assert!(found.contains(&table), "{table}: {found:?}");
        }
        assert!(!found.contains(&"age"), "{found:?}");
    }
}
