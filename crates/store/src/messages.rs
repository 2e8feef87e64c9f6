//! Messages: the tree of a chat.

use kitbag_model::{ChatId, Content, Message, MessageId, NewMessage, Parent, Timestamp};

use serde_json::Value;

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(MessageRow {
    id: String,
    chat_id: String,
    parent_id: Option<String>,
    role: String,
    content: String,
    manifest_id: Option<String>,
    created_at: At,
});

row!(StandRow { active_leaf_message_id: Option<String>, active_manifest_id: Option<String> });
row!(SizeRow { position: i64, bytes: i64 });

/// One page holds no more than this, whatever its limit: a message may have megabytes.
const PAGE_BYTES: i64 = 8 << 20;

/// Why a message was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddMessageError {
    /// There is no such chat.
    #[error("no such chat")]
    NoChat,
    /// The parent is not a message of this chat.
    #[error("the parent is not a message of this chat")]
    NoParent,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for AddMessageError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl TryFrom<MessageRow> for Message {
    type Error = StoreError;

    fn try_from(row: MessageRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let content = serde_json::from_str::<Value>(&row.content).ok().and_then(|json| Content::try_from(json).ok());
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("messages.id"))?,
            chat_id: row.chat_id.parse().map_err(|_| corrupt("messages.chat_id"))?,
            parent_id: row.parent_id.map(|id| id.parse()).transpose().map_err(|_| corrupt("messages.parent_id"))?,
            role: row.role.parse().map_err(|_| corrupt("messages.role"))?,
            content: content.ok_or_else(|| corrupt("messages.content"))?,
            manifest_id: row
                .manifest_id
                .map(|id| id.parse())
                .transpose()
                .map_err(|_| corrupt("messages.manifest_id"))?,
            created_at: row.created_at.0,
        })
    }
}

impl WriteTx {
    /// Adds a message and makes it the chat's active leaf.
    pub async fn add_message(&mut self, chat: ChatId, new: &NewMessage) -> Result<Message, AddMessageError> {
        let (id, now) = (MessageId::generate(), At(Timestamp::now()));
        // The update comes first because it locks the chat's row: of two writers that go below the active leaf, the
        // second one sees the first one's message.
        let chat_row: Option<StandRow> = on!(self, c => sqlx::query_as(
            "UPDATE chats SET updated_at = $3 WHERE organization_id = $1 AND id = $2
             RETURNING active_leaf_message_id, active_manifest_id")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(now).fetch_optional(c))?;
        let stand = chat_row.ok_or(AddMessageError::NoChat)?;
        // What was in the workspace before there was a message is the first message's.
        let manifest = if stand.active_leaf_message_id.is_none() { stand.active_manifest_id } else { None };
        let parent = match new.parent {
            Parent::ActiveLeaf => stand.active_leaf_message_id,
            Parent::Root => None,
            Parent::Message(parent) if self.has_message(chat, parent).await? => Some(parent.to_string()),
            Parent::Message(_) => return Err(AddMessageError::NoParent),
        };
        let row: MessageRow = on!(self, c => sqlx::query_as(
            "INSERT INTO messages (organization_id, chat_id, id, position, parent_id, role, content, manifest_id, created_at)
             VALUES ($1, $2, $3, (SELECT coalesce(max(position), 0) + 1 FROM messages WHERE organization_id = $1 AND chat_id = $2),
                     $4, $5, $6, $7, $8)
             RETURNING id, chat_id, parent_id, role, content, manifest_id, created_at")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).bind(parent.as_deref())
            .bind(new.role.as_str()).bind(new.content.as_json().to_string()).bind(manifest).bind(now).fetch_one(c))?;
        execute!(
            self,
            sqlx::query("UPDATE chats SET active_leaf_message_id = $3 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(chat.to_string())
                .bind(id.to_string())
        )?;
        if new.parent != Parent::ActiveLeaf {
            // Another branch, another workspace.
            let manifest = self.manifest_of_message(chat, id).await?.map(|id| id.to_string());
            execute!(
                self,
                sqlx::query("UPDATE chats SET active_manifest_id = $3 WHERE organization_id = $1 AND id = $2")
                    .bind(self.org.as_str())
                    .bind(chat.to_string())
                    .bind(manifest.as_deref())
            )?;
        }
        Ok(row.try_into()?)
    }
}

impl WriteTx {
    /// Has a message say something else: one that a model still writes. Whether it is there.
    pub async fn rewrite_message(
        &mut self,
        chat: ChatId,
        id: MessageId,
        content: &Content,
    ) -> Result<bool, StoreError> {
        let written = execute!(
            self,
            sqlx::query("UPDATE messages SET content = $4 WHERE organization_id = $1 AND chat_id = $2 AND id = $3")
                .bind(self.org.as_str())
                .bind(chat.to_string())
                .bind(id.to_string())
                .bind(content.as_json().to_string())
        )?;
        Ok(written > 0)
    }
}

impl<Mode> Tx<Mode> {
    /// One message.
    pub async fn message(&mut self, chat: ChatId, id: MessageId) -> Result<Option<Message>, StoreError> {
        let row: Option<MessageRow> = on!(self, c => sqlx::query_as(
            "SELECT id, chat_id, parent_id, role, content, manifest_id, created_at FROM messages
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Message::try_from).transpose()
    }

    /// The messages from the top of the chat down to this one.
    pub async fn line_to(&mut self, chat: ChatId, id: MessageId) -> Result<Vec<Message>, StoreError> {
        let rows: Vec<MessageRow> = on!(self, c => sqlx::query_as(
            "WITH RECURSIVE line (id, parent_id) AS (
                 SELECT id, parent_id FROM messages WHERE organization_id = $1 AND chat_id = $2 AND id = $3
                 UNION ALL
                 SELECT m.id, m.parent_id FROM line
                 JOIN messages m ON m.organization_id = $1 AND m.chat_id = $2 AND m.id = line.parent_id)
             SELECT m.id, m.chat_id, m.parent_id, m.role, m.content, m.manifest_id, m.created_at
             FROM line JOIN messages m ON m.organization_id = $1 AND m.chat_id = $2 AND m.id = line.id ORDER BY m.position")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_all(c))?;
        rows.into_iter().map(Message::try_from).collect()
    }

    /// Whether `id` is a message of `chat`.
    pub async fn has_message(&mut self, chat: ChatId, id: MessageId) -> Result<bool, StoreError> {
        let found: Option<String> = on!(self, c => sqlx::query_scalar(
            "SELECT id FROM messages WHERE organization_id = $1 AND chat_id = $2 AND id = $3")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// Whether a message is the one that the chat stands at, or one above that: then the chat's workspace is that message's too.
    pub async fn is_on_active_line(&mut self, chat: ChatId, id: MessageId) -> Result<bool, StoreError> {
        let found: Option<String> = on!(self, c => sqlx::query_scalar(
            "WITH RECURSIVE line (id, parent_id) AS (
                 SELECT m.id, m.parent_id FROM chats c JOIN messages m
                     ON m.organization_id = $1 AND m.chat_id = $2 AND m.id = c.active_leaf_message_id
                 WHERE c.organization_id = $1 AND c.id = $2
                 UNION ALL
                 SELECT m.id, m.parent_id FROM line
                 JOIN messages m ON m.organization_id = $1 AND m.chat_id = $2 AND m.id = line.parent_id
                 WHERE line.id <> $3)
             SELECT id FROM line WHERE id = $3")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// Messages of a chat, all branches, in the order they were added: at most `limit` of them, and no more than fit into
    /// eight megabytes, but always one.
    pub async fn messages(
        &mut self,
        chat: ChatId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Page<Message>, StoreError> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let sizes: Vec<SizeRow> = on!(self, c => sqlx::query_as(
            "SELECT position, CAST(octet_length(content) AS BIGINT) AS bytes FROM messages
             WHERE organization_id = $1 AND chat_id = $2 AND position > coalesce(
                 (SELECT position FROM messages WHERE organization_id = $1 AND chat_id = $2 AND id = $3), 0)
             ORDER BY position LIMIT $4")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(after).bind(i64::from(limit) + 1).fetch_all(c))?;
        let mut bytes = 0;
        let fitting = sizes.iter().take(limit as usize).take_while(|row| {
            let fits = bytes == 0 || bytes + row.bytes <= PAGE_BYTES;
            bytes += row.bytes;
            fits
        });
        let count = fitting.count();
        let has_more = count < sizes.len();
        let Some((first, last)) = sizes[..count].first().zip(sizes[..count].last()) else {
            return Ok(Page { items: Vec::new(), has_more: false });
        };
        let rows: Vec<MessageRow> = on!(self, c => sqlx::query_as(
            "SELECT id, chat_id, parent_id, role, content, manifest_id, created_at FROM messages
             WHERE organization_id = $1 AND chat_id = $2 AND position BETWEEN $3 AND $4 ORDER BY position")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(first.position).bind(last.position).fetch_all(c))?;
        Ok(Page { items: rows.into_iter().map(Message::try_from).collect::<Result<_, _>>()?, has_more })
    }
}
