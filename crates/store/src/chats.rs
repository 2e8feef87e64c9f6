//! Chats.

use kitbag_model::{Chat, ChatChange, ChatId, NewChat, Timestamp, ToolSelectors};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(ChatRow {
    id: String,
    title: Option<String>,
    tool_selectors: Option<String>,
    active_leaf_message_id: Option<String>,
    active_manifest_id: Option<String>,
    created_at: At,
    updated_at: At,
});

impl TryFrom<ChatRow> for Chat {
    type Error = StoreError;

    fn try_from(row: ChatRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let selectors = row.tool_selectors.map(|json| serde_json::from_str(&json)).transpose();
        let leaf = row.active_leaf_message_id.map(|id| id.parse()).transpose();
        let manifest = row.active_manifest_id.map(|id| id.parse()).transpose();
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("chats.id"))?,
            title: row.title,
            tool_selectors: selectors.map_err(|_| corrupt("chats.tool_selectors"))?,
            active_leaf_message_id: leaf.map_err(|_| corrupt("chats.active_leaf_message_id"))?,
            active_manifest_id: manifest.map_err(|_| corrupt("chats.active_manifest_id"))?,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}

fn to_json(selectors: &ToolSelectors) -> String {
    serde_json::Value::from(selectors.to_strings()).to_string()
}

impl WriteTx {
    /// Makes a chat.
    pub async fn create_chat(&mut self, new: &NewChat) -> Result<Chat, StoreError> {
        let row: ChatRow = on!(self, c => sqlx::query_as(
            "INSERT INTO chats (organization_id, id, title, tool_selectors, created_at, updated_at, of_run)
             VALUES ($1, $2, $3, $4, $5, $5, $6)
             RETURNING id, title, tool_selectors, active_leaf_message_id, active_manifest_id, created_at, updated_at")
            .bind(self.org.as_str()).bind(ChatId::generate().to_string()).bind(new.title.as_ref().map(|t| t.as_str()))
            .bind(new.tool_selectors.as_ref().map(to_json)).bind(At(Timestamp::now())).bind(new.of_run).fetch_one(c))?;
        row.try_into()
    }

    /// Changes a chat; nothing if there is none.
    pub async fn update_chat(&mut self, id: ChatId, change: &ChatChange) -> Result<Option<Chat>, StoreError> {
        let title = change.title.as_ref();
        let selectors = change.tool_selectors.as_ref();
        let row: Option<ChatRow> = on!(self, c => sqlx::query_as(
            "UPDATE chats SET title = CASE WHEN $3 THEN $4 ELSE title END,
                              tool_selectors = CASE WHEN $5 THEN $6 ELSE tool_selectors END, updated_at = $7
             WHERE organization_id = $1 AND id = $2
             RETURNING id, title, tool_selectors, active_leaf_message_id, active_manifest_id, created_at, updated_at")
            .bind(self.org.as_str()).bind(id.to_string())
            .bind(title.is_some()).bind(title.and_then(|t| t.as_ref()).map(|t| t.as_str()))
            .bind(selectors.is_some()).bind(selectors.and_then(|s| s.as_ref()).map(to_json))
            .bind(At(Timestamp::now())).fetch_optional(c))?;
        row.map(Chat::try_from).transpose()
    }

    /// Makes a chat the one of a client that names none. The one that there is meanwhile, if there is.
    pub async fn keep_chat_of(&mut self, owner: &str, chat: ChatId) -> Result<ChatId, StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO mcp_chats (organization_id, owner, chat_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            )
            .bind(self.org.as_str())
            .bind(owner)
            .bind(chat.to_string())
        )?;
        Ok(self.chat_of(owner).await?.unwrap_or(chat))
    }

    /// Deletes a chat with its messages, manifests and calls. Whether there was one.
    pub async fn delete_chat(&mut self, id: ChatId) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM chats WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
        )?;
        Ok(deleted > 0)
    }
}

impl<Mode> Tx<Mode> {
    /// One chat.
    pub async fn chat(&mut self, id: ChatId) -> Result<Option<Chat>, StoreError> {
        let row: Option<ChatRow> = on!(self, c => sqlx::query_as(
            "SELECT id, title, tool_selectors, active_leaf_message_id, active_manifest_id, created_at, updated_at
             FROM chats WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Chat::try_from).transpose()
    }

    /// Whether a chat is only the workspace of a run.
    pub async fn is_chat_of_run(&mut self, id: ChatId) -> Result<bool, StoreError> {
        let found: Option<bool> = on!(self, c => sqlx::query_scalar(
            "SELECT of_run FROM chats WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        Ok(found.unwrap_or_default())
    }

    /// The chat of a client that names none.
    pub async fn chat_of(&mut self, owner: &str) -> Result<Option<ChatId>, StoreError> {
        let row: Option<(String,)> = on!(self, c => sqlx::query_as(
            "SELECT chat_id FROM mcp_chats WHERE organization_id = $1 AND owner = $2")
            .bind(self.org.as_str()).bind(owner).fetch_optional(c))?;
        row.map(|(id,)| id.parse().map_err(|_| StoreError::Corrupt { column: "mcp_chats.chat_id" })).transpose()
    }

    /// Chats that are not only the workspaces of runs, newest first, that are older than `before`.
    pub async fn chats(&mut self, before: Option<ChatId>, limit: u32) -> Result<Page<Chat>, StoreError> {
        // Ids are hexadecimal: "g" is behind all of them.
        let before = before.map_or_else(|| "g".to_owned(), |id| id.to_string());
        let rows: Vec<ChatRow> = on!(self, c => sqlx::query_as(
            "SELECT id, title, tool_selectors, active_leaf_message_id, active_manifest_id, created_at, updated_at
             FROM chats WHERE organization_id = $1 AND id < $2 AND NOT of_run ORDER BY id DESC LIMIT $3")
            .bind(self.org.as_str()).bind(before).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }
}
