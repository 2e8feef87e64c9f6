//! Which node has the process of an MCP server. A holder is a node and a number, as with chats. It writes nothing as that: what it says counts
//! only while nobody can have said that it is dead, which it knows by itself.

use kitbag_model::{OrgId, ServerKey};

use super::{Fence, Nodes, bind};
use crate::error::StoreError;
use crate::row::row;
use crate::store::uncancelled;

/// What comes of wanting a server.
#[derive(Clone, Debug)]
pub enum ServerClaim {
    /// It is held by whoever asked.
    Held(Fence),
    /// Another node holds it that nobody said is dead.
    Elsewhere(String),
    /// Whoever asks is dead itself.
    Dead,
}

row!(LeaseRow { node_id: String, epoch: i64, is_alive: bool });
row!(HolderRow { server_key: String, node_id: String });

impl Nodes {
    /// Has `node` hold a server, unless another one does that is not dead.
    pub async fn claim_server(&self, org: &OrgId, key: &ServerKey, node: &str) -> Result<ServerClaim, StoreError> {
        let (nodes, org, key, node) = (self.clone(), org.clone(), key.to_string(), node.to_owned());
        uncancelled(async move { nodes.do_claim_server(&org, &key, &node).await }).await
    }

    async fn do_claim_server(&self, org: &OrgId, key: &str, node: &str) -> Result<ServerClaim, StoreError> {
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        let alive: Option<bool> = sqlx::query_scalar("SELECT TRUE FROM nodes WHERE id = $1 AND NOT dead FOR SHARE")
            .bind(node)
            .fetch_optional(&mut *tx)
            .await?;
        if alive.is_none() {
            return Ok(ServerClaim::Dead);
        }
        sqlx::query(
            "INSERT INTO server_leases (organization_id, server_key, node_id, epoch, taken_at)
             VALUES ($1, $2, '', 0, clock_timestamp()) ON CONFLICT (organization_id, server_key) DO NOTHING",
        )
        .bind(org.as_str())
        .bind(key)
        .execute(&mut *tx)
        .await?;
        let held: LeaseRow = sqlx::query_as(
            "SELECT node_id, epoch, EXISTS (SELECT 1 FROM nodes WHERE id = node_id AND NOT dead) AS is_alive
             FROM server_leases WHERE organization_id = $1 AND server_key = $2 FOR UPDATE",
        )
        .bind(org.as_str())
        .bind(key)
        .fetch_one(&mut *tx)
        .await?;
        // Whoever claims it again has a number of its own: what the one before gives back late is not this one's.
        if held.node_id != node && held.is_alive {
            return Ok(ServerClaim::Elsewhere(held.node_id));
        }
        let epoch = held.epoch + 1;
        sqlx::query(
            "UPDATE server_leases SET node_id = $3, epoch = $4, taken_at = clock_timestamp()
             WHERE organization_id = $1 AND server_key = $2",
        )
        .bind(org.as_str())
        .bind(key)
        .bind(node)
        .bind(epoch)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(ServerClaim::Held(Fence { node: node.to_owned(), epoch }))
    }

    /// The servers of an organisation that a node holds which is not dead.
    pub async fn server_holders(&self, org: &OrgId) -> Result<Vec<(ServerKey, String)>, StoreError> {
        let (pool, org) = (self.0.clone(), org.clone());
        let rows: Vec<HolderRow> = uncancelled(async move {
            let mut tx = pool.begin_with("BEGIN READ ONLY").await?;
            bind(&mut tx, &org).await?;
            let holders = sqlx::query_as(
                "SELECT server_key, node_id FROM server_leases JOIN nodes ON nodes.id = node_id
                 WHERE organization_id = $1 AND NOT dead ORDER BY server_key",
            );
            Ok::<_, StoreError>(holders.bind(org.as_str()).fetch_all(&mut *tx).await?)
        })
        .await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.server_key.parse().ok()?, row.node_id))).collect())
    }

    /// The node that holds a server and is not dead.
    pub async fn server_holder(&self, org: &OrgId, key: &ServerKey) -> Result<Option<String>, StoreError> {
        let (pool, org, key) = (self.0.clone(), org.clone(), key.to_string());
        uncancelled(async move {
            let mut tx = pool.begin_with("BEGIN READ ONLY").await?;
            bind(&mut tx, &org).await?;
            let holder = sqlx::query_scalar(
                "SELECT node_id FROM server_leases JOIN nodes ON nodes.id = node_id
                 WHERE organization_id = $1 AND server_key = $2 AND NOT dead",
            );
            Ok(holder.bind(org.as_str()).bind(key).fetch_optional(&mut *tx).await?)
        })
        .await
    }

    /// Gives a server back, when nothing of it runs any more. The row stays, for its number goes on.
    pub async fn give_back_server(&self, org: &OrgId, key: &ServerKey, fence: &Fence) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        sqlx::query(
            "UPDATE server_leases SET node_id = '', epoch = epoch + 1
             WHERE organization_id = $1 AND server_key = $2 AND node_id = $3 AND epoch = $4",
        )
        .bind(org.as_str())
        .bind(key.to_string())
        .bind(&fence.node)
        .bind(fence.epoch)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// Gives a server back under whichever number a node holds it.
    pub async fn give_up_server(&self, org: &OrgId, key: &ServerKey, node: &str) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        sqlx::query(
            "UPDATE server_leases SET node_id = '', epoch = epoch + 1
             WHERE organization_id = $1 AND server_key = $2 AND node_id = $3",
        )
        .bind(org.as_str())
        .bind(key.to_string())
        .bind(node)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// Forgets servers that nobody holds who is alive, and that are not among these.
    pub async fn forget_servers(&self, org: &OrgId, there: &[String]) -> Result<(), StoreError> {
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        sqlx::query(
            "DELETE FROM server_leases WHERE organization_id = $1 AND NOT (server_key = ANY ($2))
             AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = node_id AND NOT dead)",
        )
        .bind(org.as_str())
        .bind(there)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }
}
