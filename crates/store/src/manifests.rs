//! Manifests and the tree nodes they are made of.

use kitbag_model::{ChatId, ContentHash, Manifest, ManifestId, MessageId, NewManifest, Timestamp};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(ManifestRow {
    id: String,
    chat_id: String,
    parent_id: Option<String>,
    root: String,
    created_at: At,
    source: String,
    source_ref: Option<String>,
});
row!(NodeRow { hash: String, bytes: Vec<u8> });

impl TryFrom<ManifestRow> for Manifest {
    type Error = StoreError;

    fn try_from(row: ManifestRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let parent = row.parent_id.map(|id| id.parse()).transpose();
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("workspace_manifests.id"))?,
            chat_id: row.chat_id.parse().map_err(|_| corrupt("workspace_manifests.chat_id"))?,
            parent_id: parent.map_err(|_| corrupt("workspace_manifests.parent_id"))?,
            root: row.root.parse().map_err(|_| corrupt("workspace_manifests.root"))?,
            created_at: row.created_at.0,
            source: row.source.parse().map_err(|_| corrupt("workspace_manifests.source"))?,
            source_ref: row.source_ref,
        })
    }
}

/// Why a state was not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// There is no such chat.
    #[error("no such chat")]
    NoChat,
    /// Somebody else changed the workspace in the meantime.
    #[error("the workspace has changed in the meantime")]
    Conflict,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for KeepError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl WriteTx {
    /// Keeps tree nodes. Those that are there already are left as they are.
    pub async fn add_nodes(&mut self, chat: ChatId, nodes: &[(ContentHash, Vec<u8>)]) -> Result<(), StoreError> {
        for (hash, bytes) in nodes {
            execute!(
                self,
                sqlx::query(
                    "INSERT INTO workspace_nodes (organization_id, chat_id, hash, bytes) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (organization_id, chat_id, hash) DO NOTHING"
                )
                .bind(self.org.as_str())
                .bind(chat.to_string())
                .bind(hash.to_string())
                .bind(bytes.as_slice())
            )?;
        }
        Ok(())
    }

    /// Keeps a state and makes it the active one, of the chat and of the message that the chat stands at. Fails if the
    /// state that it follows is not the active one any more.
    pub async fn keep_manifest(&mut self, chat: ChatId, new: &NewManifest) -> Result<Manifest, KeepError> {
        let now = At(Timestamp::now());
        // First, because it locks the chat's row: of two writers the second one sees what the first one did.
        let active: Option<Option<String>> = on!(self, c => sqlx::query_scalar(
            "UPDATE chats SET updated_at = $3 WHERE organization_id = $1 AND id = $2 RETURNING active_manifest_id")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(now).fetch_optional(c))?;
        let parent = new.parent.map(|id| id.to_string());
        if active.ok_or(KeepError::NoChat)? != parent {
            return Err(KeepError::Conflict);
        }
        let manifest = self.insert_manifest(chat, new, now).await?;
        self.activate(chat, Some(manifest.id)).await?;
        Ok(manifest)
    }

    /// Keeps a state beside the active one.
    pub async fn add_manifest(&mut self, chat: ChatId, new: &NewManifest) -> Result<Manifest, StoreError> {
        self.insert_manifest(chat, new, At(Timestamp::now())).await
    }

    async fn insert_manifest(&mut self, chat: ChatId, new: &NewManifest, now: At) -> Result<Manifest, StoreError> {
        let row: ManifestRow = on!(self, c => sqlx::query_as(
            "INSERT INTO workspace_manifests (organization_id, chat_id, id, parent_id, root, created_at, source, source_ref)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             RETURNING id, chat_id, parent_id, root, created_at, source, source_ref")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(ManifestId::generate().to_string())
            .bind(new.parent.map(|id| id.to_string())).bind(new.root.to_string()).bind(now)
            .bind(new.source.as_str()).bind(new.source_ref.as_deref()).fetch_one(c))?;
        row.try_into()
    }

    /// Makes a state the active one, of the chat and of the message that it stands at.
    async fn activate(&mut self, chat: ChatId, manifest: Option<ManifestId>) -> Result<(), StoreError> {
        let manifest = manifest.map(|id| id.to_string());
        execute!(
            self,
            sqlx::query("UPDATE chats SET active_manifest_id = $3 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(chat.to_string())
                .bind(manifest.as_deref())
        )?;
        execute!(
            self,
            sqlx::query(
                "UPDATE messages SET manifest_id = $3 WHERE organization_id = $1 AND chat_id = $2 AND id =
                 (SELECT active_leaf_message_id FROM chats WHERE organization_id = $1 AND id = $2)"
            )
            .bind(self.org.as_str())
            .bind(chat.to_string())
            .bind(manifest.as_deref())
        )?;
        Ok(())
    }

    /// Makes a message the one that the chat stands at, with its state, or that of its nearest ancestor that has one.
    pub async fn set_active_leaf(&mut self, chat: ChatId, message: MessageId) -> Result<(), StoreError> {
        let manifest = self.manifest_of_message(chat, message).await?;
        execute!(
            self,
            sqlx::query(
                "UPDATE chats SET active_leaf_message_id = $3, active_manifest_id = $4, updated_at = $5
             WHERE organization_id = $1 AND id = $2"
            )
            .bind(self.org.as_str())
            .bind(chat.to_string())
            .bind(message.to_string())
            .bind(manifest.map(|id| id.to_string()))
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// Whether a chat's blobs are still written into this generation. If they are, they are until the transaction ends: a collection
    /// waits. Call it before anything is written that relies on blobs or nodes being there.
    pub async fn hold_blob_generation(&mut self, chat: ChatId, generation: u64) -> Result<bool, StoreError> {
        let held: Option<i64> = on!(self, c => sqlx::query_scalar(
            "UPDATE chats SET blob_generation = blob_generation WHERE organization_id = $1 AND id = $2 RETURNING blob_generation")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_optional(c))?;
        Ok(held.and_then(|held| u64::try_from(held).ok()) == Some(generation))
    }

    /// Begins the next generation of a chat's blobs; none if there is no such chat. Whoever keeps a state waits until the transaction
    /// ends, and then notices.
    pub async fn next_blob_generation(&mut self, chat: ChatId) -> Result<Option<u64>, StoreError> {
        let next: Option<i64> = on!(self, c => sqlx::query_scalar(
            "UPDATE chats SET blob_generation = blob_generation + 1 WHERE organization_id = $1 AND id = $2
             RETURNING blob_generation")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_optional(c))?;
        Ok(next.and_then(|next| u64::try_from(next).ok()))
    }

    /// Forgets these nodes of a chat.
    pub async fn sweep_nodes(&mut self, chat: ChatId, dead: &[ContentHash]) -> Result<(), StoreError> {
        for hash in dead {
            execute!(
                self,
                sqlx::query("DELETE FROM workspace_nodes WHERE organization_id = $1 AND chat_id = $2 AND hash = $3")
                    .bind(self.org.as_str())
                    .bind(chat.to_string())
                    .bind(hash.to_string())
            )?;
        }
        Ok(())
    }
}

impl<Mode> Tx<Mode> {
    /// The bytes of a tree node.
    pub async fn node(&mut self, chat: ChatId, hash: &ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(on!(self, c => sqlx::query_scalar(
            "SELECT bytes FROM workspace_nodes WHERE organization_id = $1 AND chat_id = $2 AND hash = $3")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(hash.to_string()).fetch_optional(c))?)
    }

    /// The generation that a chat's blobs are written into; none if there is no such chat.
    pub async fn blob_generation(&mut self, chat: ChatId) -> Result<Option<u64>, StoreError> {
        let found: Option<i64> = on!(self, c => sqlx::query_scalar(
            "SELECT blob_generation FROM chats WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_optional(c))?;
        Ok(found.and_then(|found| u64::try_from(found).ok()))
    }

    /// All tree nodes of a chat.
    pub async fn nodes(&mut self, chat: ChatId) -> Result<Vec<(ContentHash, Vec<u8>)>, StoreError> {
        let rows: Vec<NodeRow> = on!(self, c => sqlx::query_as(
            "SELECT hash, bytes FROM workspace_nodes WHERE organization_id = $1 AND chat_id = $2 ORDER BY hash")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_all(c))?;
        let hash = |text: &str| text.parse().map_err(|_| StoreError::Corrupt { column: "workspace_nodes.hash" });
        rows.into_iter().map(|row| Ok((hash(&row.hash)?, row.bytes))).collect()
    }

    /// One state.
    pub async fn manifest(&mut self, chat: ChatId, id: ManifestId) -> Result<Option<Manifest>, StoreError> {
        let row: Option<ManifestRow> = on!(self, c => sqlx::query_as(
            "SELECT id, chat_id, parent_id, root, created_at, source, source_ref FROM workspace_manifests
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Manifest::try_from).transpose()
    }

    /// Whether a state of a chat was made of this one, and made the chat's own.
    pub async fn was_taken_from(&mut self, chat: ChatId, id: ManifestId) -> Result<bool, StoreError> {
        let found: Option<String> = on!(self, c => sqlx::query_scalar(
            "SELECT id FROM workspace_manifests WHERE organization_id = $1 AND chat_id = $2 AND source_ref = $3 LIMIT 1")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// States of a chat, newest first, that are older than `before`.
    pub async fn manifests(
        &mut self,
        chat: ChatId,
        before: Option<ManifestId>,
        limit: u32,
    ) -> Result<Page<Manifest>, StoreError> {
        // Ids are hexadecimal: "g" is behind all of them.
        let before = before.map_or_else(|| "g".to_owned(), |id| id.to_string());
        let rows: Vec<ManifestRow> = on!(self, c => sqlx::query_as(
            "SELECT id, chat_id, parent_id, root, created_at, source, source_ref FROM workspace_manifests
             WHERE organization_id = $1 AND chat_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(before).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }

    /// The trees of all states of a chat.
    pub async fn manifest_roots(&mut self, chat: ChatId) -> Result<Vec<ContentHash>, StoreError> {
        let roots: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT DISTINCT root FROM workspace_manifests WHERE organization_id = $1 AND chat_id = $2")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_all(c))?;
        roots
            .iter()
            .map(|root| root.parse().map_err(|_| StoreError::Corrupt { column: "workspace_manifests.root" }))
            .collect()
    }

    /// The state of a message: its own, or that of its nearest ancestor that has one.
    pub async fn manifest_of_message(
        &mut self,
        chat: ChatId,
        message: MessageId,
    ) -> Result<Option<ManifestId>, StoreError> {
        let found: Option<Option<String>> = on!(self, c => sqlx::query_scalar(
            "WITH RECURSIVE line (id, parent_id, manifest_id, depth) AS (
                 SELECT id, parent_id, manifest_id, 0 FROM messages
                 WHERE organization_id = $1 AND chat_id = $2 AND id = $3
                 UNION ALL
                 SELECT m.id, m.parent_id, m.manifest_id, line.depth + 1 FROM line
                 JOIN messages m ON m.organization_id = $1 AND m.chat_id = $2 AND m.id = line.parent_id
                 WHERE line.manifest_id IS NULL)
             SELECT manifest_id FROM line WHERE manifest_id IS NOT NULL ORDER BY depth LIMIT 1")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(message.to_string()).fetch_optional(c))?;
        let id = found.flatten().map(|id| id.parse()).transpose();
        id.map_err(|_| StoreError::Corrupt { column: "messages.manifest_id" })
    }
}
