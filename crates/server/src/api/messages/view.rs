//! A message as the API shows it.

use kitbag_model::Message;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Who a message is from.
#[derive(ToSchema)]
#[schema(as = Role, rename_all = "lowercase")]
#[allow(dead_code, reason = "it is there to be documented; the values are the model's")]
pub(crate) enum RoleName {
    User,
    Assistant,
    Tool,
}

/// What a message says: a text, or a list of blocks, each an object with a `type`.
#[derive(Serialize, ToSchema)]
#[schema(as = Content)]
#[serde(untagged)]
#[allow(dead_code, reason = "it is there to be documented; the values are the model's")]
pub(crate) enum ContentShape {
    Text(String),
    Blocks(Vec<Block>),
}

/// A part of a message. Other fields are kept as they are.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "it is there to be documented; the values are the model's")]
pub(crate) struct Block {
    r#type: String,
}

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
    #[schema(value_type = RoleName)]
    role: String,
    #[schema(value_type = ContentShape)]
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
