//! Several servers on one PostgreSQL: which of them are alive, who holds which chat and which MCP server, and what they tell each other.
//!
//! All times are the database's own, so that clocks of machines need not agree.

mod alone;
mod budgets;
mod chats;
mod left;
mod servers;
mod told;

use std::time::Duration;

use kitbag_model::{OrgId, Timestamp};
use sqlx::PgPool;
use sqlx::postgres::PgConnection;

use crate::error::StoreError;
use crate::row::{At, row};
use crate::store::{Database, Store};

pub use alone::Alone;
pub use budgets::Budget;
pub use chats::{ChatClaim, Fence};
pub use servers::ServerClaim;
pub use told::{Listening, News};

/// The nodes of a database. SQLite has none: it is one process's.
#[derive(Clone)]
pub struct Nodes(PgPool);

/// A process that serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is called. Another process is another node, also of the same folder.
    pub id: String,
    /// The name of its data folder.
    pub home: String,
    /// Where other nodes reach it.
    pub address: Option<String>,
    /// Its version of Kitbag.
    pub version: String,
    /// Since when it serves.
    pub started_at: Timestamp,
    /// Whether it is about to stop.
    pub draining: bool,
    /// Whether it was not heard of in time. It may still be, as long as nobody has said that it is dead.
    pub is_late: bool,
    /// Whether somebody said so.
    pub is_dead: bool,
}

row!(NodeRow {
    id: String,
    home: String,
    address: Option<String>,
    version: String,
    started_at: At,
    draining: bool,
    is_late: bool,
    is_dead: bool
});

impl From<NodeRow> for Node {
    fn from(row: NodeRow) -> Self {
        let NodeRow { id, home, address, version, started_at, draining, is_late, is_dead } = row;
        Self { id, home, address, version, started_at: started_at.0, draining, is_late, is_dead }
    }
}

impl Store {
    /// The nodes, where there can be several.
    pub fn nodes(&self) -> Option<Nodes> {
        match self.parts().0 {
            Database::Sqlite(_) => None,
            Database::Postgres(pool) => Some(Nodes(pool)),
        }
    }
}

impl Nodes {
    /// A node begins, and is alive for `lease` from now on.
    pub async fn join(&self, node: &Node, lease: Duration) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        sqlx::query(
            "INSERT INTO nodes (id, home, address, version, started_at, expires_at, draining, dead)
             VALUES ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6), FALSE, FALSE)",
        )
        .bind(&node.id)
        .bind(&node.home)
        .bind(&node.address)
        .bind(&node.version)
        .bind(At(node.started_at))
        .bind(lease.as_secs_f64())
        .execute(&mut *tx)
        .await?;
        told::notify(&mut tx, &told::News::of_nodes(&node.id)).await?;
        Ok(tx.commit().await?)
    }

    /// A node is alive for another `lease`, however late it says so. Not if another said that it is dead: then it has lost all that it held.
    pub async fn renew(&self, id: &str, lease: Duration) -> Result<bool, StoreError> {
        let renewed = sqlx::query(
            "UPDATE nodes SET expires_at = clock_timestamp() + make_interval(secs => $2)
             WHERE id = $1 AND NOT dead",
        )
        .bind(id)
        .bind(lease.as_secs_f64());
        Ok(renewed.execute(&self.0).await?.rows_affected() > 0)
    }

    /// A node is about to stop, and says so to the others.
    pub async fn drain(&self, id: &str) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        sqlx::query("UPDATE nodes SET draining = TRUE WHERE id = $1").bind(id).execute(&mut *tx).await?;
        told::notify(&mut tx, &told::News::of_nodes(id)).await?;
        Ok(tx.commit().await?)
    }

    /// A node stops: whatever it held is free.
    pub async fn leave(&self, id: &str) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        sqlx::query("DELETE FROM nodes WHERE id = $1").bind(id).execute(&mut *tx).await?;
        told::notify(&mut tx, &told::News::of_nodes(id)).await?;
        Ok(tx.commit().await?)
    }

    /// All nodes, also those that are dead and that nobody has cleared up after.
    pub async fn all(&self) -> Result<Vec<Node>, StoreError> {
        let rows: Vec<NodeRow> = sqlx::query_as(
            "SELECT id, home, address, version, started_at, draining,
                    expires_at <= clock_timestamp() AS is_late, dead AS is_dead
             FROM nodes ORDER BY id",
        )
        .fetch_all(&self.0)
        .await?;
        Ok(rows.into_iter().map(Node::from).collect())
    }

    /// Says that a node is dead which was not heard of in time, or whose folder is another process's now (`at_once`). Whether it is:
    /// it may have been heard of just now.
    pub async fn declare_dead(&self, id: &str, at_once: bool) -> Result<bool, StoreError> {
        let dead = sqlx::query(
            "UPDATE nodes SET dead = TRUE WHERE id = $1 AND (dead OR $2 OR expires_at <= clock_timestamp())",
        );
        let mut tx = self.0.begin().await?;
        let dead = dead.bind(id).bind(at_once).execute(&mut *tx).await?.rows_affected() > 0;
        if dead {
            // Whoever waits for it need not any more.
            told::notify(&mut tx, &told::News::of_nodes(id)).await?;
        }
        tx.commit().await?;
        Ok(dead)
    }

    /// Forgets a node that is dead, when everything that it had begun was ended.
    pub async fn bury(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM nodes WHERE id = $1 AND dead").bind(id).execute(&self.0).await?;
        Ok(())
    }
}

/// Binds a transaction to an organisation, as [`crate::Tx`] does.
async fn bind(connection: &mut PgConnection, org: &OrgId) -> Result<(), StoreError> {
    let bind = sqlx::query("SELECT set_config('kitbag.org', $1, true)");
    bind.bind(org.as_str()).execute(connection).await?;
    Ok(())
}
