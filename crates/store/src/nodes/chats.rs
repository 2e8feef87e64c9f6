//! Who holds a chat. A holder is a node and a number; each write of a holder carries both, and is refused if they are not the latest, or if
//! somebody said that the node is dead. The row of the lease is locked until such a write is over, so nobody takes the chat in between.

use kitbag_model::{ChatId, OrgId};

use super::{Nodes, bind};
use crate::error::StoreError;
use crate::row::row;
use crate::store::uncancelled;
use crate::tx::{Inner, WriteTx};

/// What a holder's writes carry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fence {
    /// The node that holds it.
    pub node: String,
    /// Which holder it is.
    pub epoch: i64,
}

/// What comes of wanting a chat.
#[derive(Clone, Debug)]
pub enum ChatClaim {
    /// It is held by whoever asked.
    Held {
        /// What writes carry from now on.
        fence: Fence,
        /// Whether another folder had it before, so that the one that is here may be behind.
        moved: bool,
    },
    /// Another node holds it that nobody said is dead.
    Elsewhere(String),
    /// Whoever asks is dead itself.
    Dead,
    /// There is no such chat.
    NoChat,
}

row!(LeaseRow { node_id: String, home: String, epoch: i64, is_alive: bool });

impl Nodes {
    /// Has `node` hold a chat, unless another one does that is not dead.
    pub async fn claim(&self, org: &OrgId, chat: ChatId, node: &str, home: &str) -> Result<ChatClaim, StoreError> {
        let (nodes, org, node, home) = (self.clone(), org.clone(), node.to_owned(), home.to_owned());
        uncancelled(async move { nodes.do_claim(&org, chat, &node, &home).await }).await
    }

    async fn do_claim(&self, org: &OrgId, chat: ChatId, node: &str, home: &str) -> Result<ChatClaim, StoreError> {
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        let alive: Option<bool> = sqlx::query_scalar("SELECT TRUE FROM nodes WHERE id = $1 AND NOT dead FOR SHARE")
            .bind(node)
            .fetch_optional(&mut *tx)
            .await?;
        if alive.is_none() {
            return Ok(ChatClaim::Dead);
        }
        let first = sqlx::query(
            "INSERT INTO chat_leases (organization_id, chat_id, node_id, home, epoch, taken_at)
             VALUES ($1, $2, $3, $4, 1, clock_timestamp()) ON CONFLICT (organization_id, chat_id) DO NOTHING",
        )
        .bind(org.as_str())
        .bind(chat.to_string())
        .bind(node)
        .bind(home);
        match first.execute(&mut *tx).await.map_err(StoreError::from) {
            Ok(done) if done.rows_affected() > 0 => {
                tx.commit().await?;
                return Ok(ChatClaim::Held { fence: Fence { node: node.to_owned(), epoch: 1 }, moved: false });
            }
            Ok(_) => {}
            Err(StoreError::Reference) => return Ok(ChatClaim::NoChat),
            Err(error) => return Err(error),
        }
        let held: Option<LeaseRow> = sqlx::query_as(
            "SELECT node_id, home, epoch,
                    EXISTS (SELECT 1 FROM nodes WHERE id = node_id AND NOT dead) AS is_alive
             FROM chat_leases WHERE organization_id = $1 AND chat_id = $2 FOR UPDATE",
        )
        .bind(org.as_str())
        .bind(chat.to_string())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(held) = held else { return Ok(ChatClaim::NoChat) };
        if held.node_id == node {
            return Ok(ChatClaim::Held { fence: Fence { node: held.node_id, epoch: held.epoch }, moved: false });
        }
        if held.is_alive {
            return Ok(ChatClaim::Elsewhere(held.node_id));
        }
        let epoch = held.epoch + 1;
        sqlx::query(
            "UPDATE chat_leases SET node_id = $3, home = $4, epoch = $5, taken_at = clock_timestamp()
             WHERE organization_id = $1 AND chat_id = $2",
        )
        .bind(org.as_str())
        .bind(chat.to_string())
        .bind(node)
        .bind(home)
        .bind(epoch)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(ChatClaim::Held { fence: Fence { node: node.to_owned(), epoch }, moved: held.home != home })
    }

    /// The node that holds a chat and is not dead.
    pub async fn holder(&self, org: &OrgId, chat: ChatId) -> Result<Option<String>, StoreError> {
        let (pool, org) = (self.0.clone(), org.clone());
        uncancelled(async move {
            let mut tx = pool.begin_with("BEGIN READ ONLY").await?;
            bind(&mut tx, &org).await?;
            let holder = sqlx::query_scalar(
                "SELECT node_id FROM chat_leases JOIN nodes ON nodes.id = node_id
                 WHERE organization_id = $1 AND chat_id = $2 AND NOT dead",
            );
            Ok(holder.bind(org.as_str()).bind(chat.to_string()).fetch_optional(&mut *tx).await?)
        })
        .await
    }

    /// Gives chats of an organisation back, so that others need not wait for the end of this node. Those that are somebody else's by now are left alone.
    pub async fn give_back(&self, org: &OrgId, chats: &[(ChatId, Fence)]) -> Result<(), StoreError> {
        let (ids, rest): (Vec<String>, Vec<(&str, i64)>) =
            chats.iter().map(|(chat, fence)| (chat.to_string(), (&*fence.node, fence.epoch))).unzip();
        let (nodes, epochs): (Vec<&str>, Vec<i64>) = rest.into_iter().unzip();
        let mut tx = self.0.begin().await?;
        bind(&mut tx, org).await?;
        // The rows stay: their numbers go on, and the folder is told of.
        sqlx::query(
            "UPDATE chat_leases SET node_id = '', epoch = chat_leases.epoch + 1
             FROM unnest($2::text[], $3::text[], $4::bigint[]) AS given (chat, node, epoch)
             WHERE organization_id = $1 AND chat_id = chat AND node_id = node AND chat_leases.epoch = given.epoch",
        )
        .bind(org.as_str())
        .bind(&ids)
        .bind(&nodes)
        .bind(&epochs)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }
}

impl WriteTx {
    /// Goes on only if whoever writes still holds the chat, and nobody takes it until this transaction is over;
    /// else [`StoreError::LeaseLost`].
    pub async fn hold_chat(&mut self, chat: ChatId, fence: &Fence) -> Result<(), StoreError> {
        let Inner::Postgres(tx) = &mut self.inner else { return Ok(()) };
        let holds: Option<bool> = sqlx::query_scalar(
            "SELECT TRUE FROM chat_leases
             WHERE organization_id = $1 AND chat_id = $2 AND node_id = $3 AND epoch = $4
               AND EXISTS (SELECT 1 FROM nodes WHERE id = $3 AND NOT dead) FOR SHARE",
        )
        .bind(self.org.as_str())
        .bind(chat.to_string())
        .bind(&fence.node)
        .bind(fence.epoch)
        .fetch_optional(&mut **tx)
        .await?;
        holds.map(drop).ok_or(StoreError::LeaseLost)
    }
}
