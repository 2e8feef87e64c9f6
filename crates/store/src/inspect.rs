//! A look at a PostgreSQL that several servers share, for whoever looks after it: what a server would refuse, each thing by itself, and
//! what it would not notice. It reads nobody's rows.

use std::time::Duration;

use kitbag_model::Secret;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use time::OffsetDateTime;

use crate::error::OpenError;
use crate::migrate;
use crate::postgres::{CONNECTIONS, options, refuse_unprotected_tables, refuse_unsafe_role};
use crate::store::PATIENCE;

/// What was found.
#[derive(Debug)]
pub struct Inspection {
    /// The version of PostgreSQL.
    pub server: String,
    /// The version of the schema, or why a server would not take it.
    pub schema: Result<i64, OpenError>,
    /// The role, or why a server would not connect as it.
    pub role: Result<String, OpenError>,
    /// Why a server would not trust its walls.
    pub walls: Result<(), OpenError>,
    /// How much later it is at the database, in seconds, and how exactly that is known.
    pub clock: (f64, f64),
    /// How the connections of the whole database server are used.
    pub connections: ServerConnections,
    /// The servers that said that they serve; none where the schema knows of none.
    pub nodes: Option<Vec<InspectedNode>>,
}

/// Connections of a database server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServerConnections {
    /// Those that there are.
    pub used: i64,
    /// Those that ordinary roles may have.
    pub most: i64,
    /// How many one server of ours may take.
    pub of_a_server: u32,
}

/// A server that shares the database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InspectedNode {
    /// What it is called.
    pub id: String,
    /// Where others reach it.
    pub address: Option<String>,
    /// Its version.
    pub version: String,
    /// Whether it was heard of in time.
    pub is_alive: bool,
    /// Whether it is about to stop.
    pub is_draining: bool,
}

/// Looks at the database behind a URL, as the role that is to serve.
pub async fn inspect(url: &Secret) -> Result<Inspection, OpenError> {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
    let pool = pool.connect_with(options(url)?).await.map_err(OpenError::connecting)?;
    let found = look(&pool).await;
    // One that hangs must not keep whoever asked.
    let _ = tokio::time::timeout(Duration::from_secs(1), pool.close()).await;
    found
}

async fn look(pool: &PgPool) -> Result<Inspection, OpenError> {
    let server: String = sqlx::query_scalar("SELECT current_setting('server_version')").fetch_one(pool).await?;
    let role: String = sqlx::query_scalar("SELECT current_user::text").fetch_one(pool).await?;
    let (used, most): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
                current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint",
    )
    .fetch_one(pool)
    .await?;
    Ok(Inspection {
        server,
        schema: migrate::check_postgres(pool).await.map(|()| migrate::newest()),
        role: refuse_unsafe_role(pool).await.map(|()| role),
        walls: refuse_unprotected_tables(pool).await,
        clock: clock(pool).await?,
        connections: ServerConnections { used, most, of_a_server: CONNECTIONS },
        nodes: nodes(pool).await?,
    })
}

/// The difference of the clocks. The answer was written somewhere between the question and its arrival, so that is how exact it is.
async fn clock(pool: &PgPool) -> Result<(f64, f64), OpenError> {
    let mut best = (0.0, f64::INFINITY);
    for _ in 0..3 {
        let before = OffsetDateTime::now_utc();
        let there: OffsetDateTime = sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(pool).await?;
        let took = OffsetDateTime::now_utc() - before;
        let half: time::Duration = took / 2;
        if half.as_seconds_f64() < best.1 {
            best = ((there - (before + half)).as_seconds_f64(), half.as_seconds_f64());
        }
    }
    Ok(best)
}

async fn nodes(pool: &PgPool) -> Result<Option<Vec<InspectedNode>>, OpenError> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('public.nodes') IS NOT NULL").fetch_one(pool).await?;
    if !exists {
        return Ok(None);
    }
    let rows: Vec<(String, Option<String>, String, bool, bool)> = sqlx::query_as(
        "SELECT id, address, version, NOT dead AND expires_at > now(), draining FROM nodes
         WHERE NOT dead ORDER BY version, address",
    )
    .fetch_all(pool)
    .await?;
    let node =
        |(id, address, version, is_alive, is_draining)| InspectedNode { id, address, version, is_alive, is_draining };
    Ok(Some(rows.into_iter().map(node).collect()))
}
