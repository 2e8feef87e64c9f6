//! PostgreSQL's schema: made and upgraded by its owner (`kitbag admin migrate`), only looked at by the app role.

use kitbag_model::{OrgId, Secret, Timestamp};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool};

use super::{
    Applied, CREATE_HISTORY, READ_HISTORY, READ_OLDEST, WRITE_HISTORY, WRITE_OLDEST, is_newer, newest, pending,
};
use crate::error::OpenError;
use crate::migrate::catalogue::Dialect;
use crate::organizations::INSERT_LOCAL;
use crate::postgres;
use crate::row::At;

/// Any number; the same in every version, so that two migrators wait for each other.
const MIGRATION_LOCK: i64 = 0x6b69_7462_6167;

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
    let mut connection = postgres::options(owner)?.connect().await.map_err(OpenError::connecting)?;
    let mut tx = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *tx).await?;
    sqlx::query(CREATE_HISTORY).execute(&mut *tx).await?;
    let applied: Vec<Applied> = sqlx::query_as(READ_HISTORY).fetch_all(&mut *tx).await?;
    for migration in pending(&applied, None)? {
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
    Ok(Migrated { from: applied.last().map_or(0, |last| last.version), to: newest(), made_role })
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
    if pending(&applied, oldest)?.is_empty() {
        return Ok(());
    }
    Err(OpenError::NeedsMigration { found: applied.last().map_or(0, |last| last.version), needed: newest() })
}
