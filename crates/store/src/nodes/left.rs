//! What outlives the process that knew of it: chats whose bytes are still in the bucket, the name of the master key, and the nodes of a
//! database that became a file. Also the names of nodes under which something is recorded that nobody looks after.

use kitbag_model::{ChatId, Timestamp};

use super::Nodes;
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{Inner, Tx, WriteTx, execute, on};

impl WriteTx {
    /// Says that the bytes of a chat that is deleted here are still in the bucket.
    pub async fn leave_bytes(&mut self, chat: ChatId) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO deleted_chats (organization_id, chat_id, deleted_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            )
            .bind(self.org.as_str())
            .bind(chat.to_string())
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// Says that they are gone.
    pub async fn forget_bytes(&mut self, chat: ChatId) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("DELETE FROM deleted_chats WHERE organization_id = $1 AND chat_id = $2")
                .bind(self.org.as_str())
                .bind(chat.to_string())
        )?;
        Ok(())
    }

    /// From now on this is the name of the installation's master key, if one was ever noted.
    pub async fn rename_master_key(&mut self, key: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query("UPDATE master_keys SET key_id = $1").bind(key))?;
        Ok(())
    }

    /// The nodes of which a SQLite file tells: it was made of an installation that they served, and nobody but its one process is alive.
    pub async fn nodes_left_behind(&mut self) -> Result<Vec<String>, StoreError> {
        match &mut self.inner {
            Inner::Sqlite(tx) => {
                Ok(sqlx::query_scalar("SELECT id FROM nodes ORDER BY id").fetch_all(&mut **tx).await?)
            }
            Inner::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Forgets one of them, when what it had begun was ended.
    pub async fn forget_node_left_behind(&mut self, id: &str) -> Result<(), StoreError> {
        if let Inner::Sqlite(tx) = &mut self.inner {
            sqlx::query("DELETE FROM nodes WHERE id = $1").bind(id).execute(&mut **tx).await?;
        }
        Ok(())
    }
}

impl<Mode> Tx<Mode> {
    /// The names under which calls run or wait for a yes, and that no node has any more, also none that is dead.
    pub async fn nodes_gone(&mut self) -> Result<Vec<String>, StoreError> {
        let Inner::Postgres(tx) = &mut self.inner else { return Ok(Vec::new()) };
        let gone = sqlx::query_scalar(
            "SELECT DISTINCT node_id FROM tool_calls WHERE organization_id = $1 AND status IN ('pending', 'running')
               AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = tool_calls.node_id)",
        );
        Ok(gone.bind(self.org.as_str()).fetch_all(&mut **tx).await?)
    }

    /// Deleted chats whose bytes may still be in the bucket, the first of them.
    pub async fn bytes_left(&mut self, most: u32) -> Result<Vec<ChatId>, StoreError> {
        let ids: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT chat_id FROM deleted_chats WHERE organization_id = $1 ORDER BY deleted_at LIMIT $2")
            .bind(self.org.as_str()).bind(i64::from(most)).fetch_all(c))?;
        ids.iter().map(|id| id.parse().map_err(|_| StoreError::Corrupt { column: "deleted_chats.chat_id" })).collect()
    }
}

impl Nodes {
    /// The name of the installation's master key. If none was noted, it is `ours` from now on.
    pub async fn master_key(&self, ours: &str) -> Result<String, StoreError> {
        sqlx::query("INSERT INTO master_keys (place, key_id) VALUES ('first', $1) ON CONFLICT DO NOTHING")
            .bind(ours)
            .execute(&self.0)
            .await?;
        Ok(sqlx::query_scalar("SELECT key_id FROM master_keys").fetch_one(&self.0).await?)
    }
}
