//! A message as the API shows it.

use kitbag_model::Message;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One message in the tree of a chat.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Message)]
pub(crate) struct MessageView {
    id: String,
    chat_id: String,
    /// The message above it; null for one at the top.
    #[schema(required)]
    parent_id: Option<String>,
    /// `user`, `assistant` or `tool`.
    role: String,
    /// A text, or a list of blocks.
    content: Value,
    /// The workspace's state after it, where that differs from its nearest ancestor's.
    #[schema(required)]
    manifest_id: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Message> for MessageView {
    fn from(message: Message) -> Self {
        Self {
            id: message.id.to_string(),
            chat_id: message.chat_id.to_string(),
            parent_id: message.parent_id.map(|id| id.to_string()),
            role: message.role.to_string(),
            content: message.content.as_json().clone(),
            manifest_id: message.manifest_id.map(|id| id.to_string()),
            created_at: message.created_at.to_string(),
        }
    }
}
