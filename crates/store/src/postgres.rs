//! PostgreSQL: connects as the app role, and refuses to serve as any role that row-level security does not bind.

use std::str::FromStr;

use kitbag_model::Secret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgPool};

use crate::error::OpenError;
use crate::migrate;
use crate::store::PATIENCE;

/// How many connections a server takes at most.
pub(crate) const CONNECTIONS: u32 = 16;

/// How many of them organisations share. The others are for what must not wait for any of them: a node says that it is alive.
pub(crate) const SHARED: usize = CONNECTIONS as usize - 2;

/// A statement that runs longer is a defect, and a lock that is held longer is another's. A server that falls asleep within a transaction keeps what it has
/// locked from the others, its own row among it, by which they would say that it is dead: no longer than a node may be silent.
const SESSION: &str = "SET statement_timeout = '30s'; SET lock_timeout = '5s'; \
     SET idle_in_transaction_session_timeout = '15s'";

/// Connects, and checks the schema's version, the role and the protection of every tenant's table.
pub(crate) async fn open(url: &Secret) -> Result<PgPool, OpenError> {
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .after_connect(|connection, _| Box::pin(async move { connection.execute(SESSION).await.map(drop) }))
        .connect_with(options(url)?)
        .await
        .map_err(OpenError::connecting)?;
    migrate::check_postgres(&pool).await?;
    refuse_unsafe_role(&pool).await?;
    refuse_unprotected_tables(&pool).await?;
    Ok(pool)
}

/// Reads a URL, without repeating it in the error.
pub(crate) fn options(url: &Secret) -> Result<PgConnectOptions, OpenError> {
    let url = url.expose();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(OpenError::BadUrl { reason: "it does not begin with postgres://".to_owned() });
    }
    PgConnectOptions::from_str(url)
        .map(|options| options.application_name("kitbag"))
        .map_err(|error| OpenError::BadUrl { reason: error.to_string() })
}

/// Superusers and BYPASSRLS roles read past every policy, REPLICATION reads the log they are written to, CREATEROLE and
/// the server's own file and program roles can become any of these; an owner can switch the policies off. What the
/// session began as counts too: `RESET ROLE` brings it back.
pub(crate) async fn refuse_unsafe_role(pool: &PgPool) -> Result<(), OpenError> {
    let found: Option<(String, String)> = sqlx::query_as(
        "WITH us (role) AS (VALUES (current_user::text), (session_user::text)),
              dangers (rank, oid, why) AS (
             SELECT 1, oid, 'superusers are not bound by row-level security' FROM pg_roles WHERE rolsuper
             UNION ALL SELECT 2, oid, 'BYPASSRLS reads past row-level security' FROM pg_roles WHERE rolbypassrls
             UNION ALL SELECT 3, oid, 'REPLICATION reads every row from the log' FROM pg_roles WHERE rolreplication
             UNION ALL SELECT 4, oid, 'CREATEROLE can join the role that owns the tables' FROM pg_roles WHERE rolcreaterole
             UNION ALL SELECT 5, oid, 'it can use the files of the database server: ' || rolname FROM pg_roles WHERE rolname IN
                   ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
             UNION ALL SELECT 6, c.relowner, 'the owner can switch row-level security off: it owns tables such as ' || c.relname
             FROM pg_class c
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
               AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname LIKE 'kitbag\\_%'))
         SELECT us.role, dangers.why FROM us JOIN dangers ON pg_has_role(us.role, dangers.oid, 'MEMBER')
         ORDER BY dangers.rank, dangers.why LIMIT 1",
    )
    .fetch_optional(pool)
    .await?;
    found.map_or(Ok(()), |(role, reason)| {
        Err(OpenError::UnsafeRole { role, reason: format!("it is, or can become, a role that may too much: {reason}") })
    })
}

/// A table that was made by hand, whose protection was switched off, or that somebody gave a policy of their own (which
/// would be OR-ed with ours) is not served.
pub(crate) async fn refuse_unprotected_tables(pool: &PgPool) -> Result<(), OpenError> {
    let tables: Option<String> = sqlx::query_scalar(
        "SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND (c.relname IN ('organizations', 'users')
                OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'organization_id'))
           AND (NOT (c.relrowsecurity AND c.relforcerowsecurity)
                OR EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname NOT LIKE 'kitbag\\_%'))",
    )
    .fetch_one(pool)
    .await?;
    tables.map_or(Ok(()), |tables| Err(OpenError::Unprotected { tables }))
}
