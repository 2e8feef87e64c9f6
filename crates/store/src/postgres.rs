//! PostgreSQL: connects as the app role, and refuses to serve as any role that row-level security does not bind.

use std::str::FromStr;

use kitbag_model::Secret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor, PgPool, Row};

use crate::error::OpenError;
use crate::migrate;
use crate::store::PATIENCE;

const CONNECTIONS: u32 = 16;

/// A statement that runs longer is a defect, and a lock that is held longer is another's.
const SESSION: &str = "SET statement_timeout = '30s'; SET lock_timeout = '5s'; \
     SET idle_in_transaction_session_timeout = '60s'";

/// Connects, and checks the schema's version, the role and the protection of every tenant's table.
pub(crate) async fn open(url: &Secret) -> Result<PgPool, OpenError> {
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
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

/// Superusers and BYPASSRLS roles read past every policy; an owner, or a role that can become one, can switch the
/// policies off.
async fn refuse_unsafe_role(pool: &PgPool) -> Result<(), OpenError> {
    let row = sqlx::query(
        "SELECT current_user::text AS role,
                EXISTS (SELECT 1 FROM pg_roles WHERE rolsuper AND pg_has_role(current_user, oid, 'MEMBER')) AS super,
                EXISTS (SELECT 1 FROM pg_roles WHERE rolbypassrls AND pg_has_role(current_user, oid, 'MEMBER')) AS bypass,
                (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c
                 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
                   AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname LIKE 'kitbag\\_%')
                   AND pg_has_role(current_user, c.relowner, 'MEMBER')) AS owned",
    )
    .fetch_one(pool)
    .await?;
    let owned: Option<String> = row.try_get("owned")?;
    let reason = if row.try_get("super")? {
        "it is a superuser, or can become one, and superusers are not bound by row-level security".to_owned()
    } else if row.try_get("bypass")? {
        "it has BYPASSRLS, or can become a role that has it".to_owned()
    } else if let Some(tables) = owned {
        format!("it owns tables, or can become their owner, and an owner can switch row-level security off ({tables})")
    } else {
        return Ok(());
    };
    Err(OpenError::UnsafeRole { role: row.try_get("role")?, reason })
}

/// A table that was made by hand, or whose protection was switched off, is not served.
async fn refuse_unprotected_tables(pool: &PgPool) -> Result<(), OpenError> {
    let tables: Option<String> = sqlx::query_scalar(
        "SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND (c.relname IN ('organizations', 'users')
                OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'organization_id'))
           AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
    )
    .fetch_one(pool)
    .await?;
    tables.map_or(Ok(()), |tables| Err(OpenError::Unprotected { tables }))
}
