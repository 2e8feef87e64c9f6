//! A chat as the API shows it.

use kitbag_model::Chat;
use serde::Serialize;
use utoipa::ToSchema;

/// A conversation: the tools it may use, and where it stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Chat)]
pub(crate) struct ChatView {
    id: String,
    #[schema(required)]
    title: Option<String>,
    /// Which tools it may use; null means whatever is resolved for the caller.
    #[schema(required)]
    tool_selectors: Option<Vec<String>>,
    /// The message that the conversation stands at.
    #[schema(required)]
    active_leaf_message_id: Option<String>,
    /// The state that its workspace stands at.
    #[schema(required)]
    active_manifest_id: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<Chat> for ChatView {
    fn from(chat: Chat) -> Self {
        Self {
            id: chat.id.to_string(),
            title: chat.title,
            tool_selectors: chat.tool_selectors,
            active_leaf_message_id: chat.active_leaf_message_id.map(|id| id.to_string()),
            active_manifest_id: chat.active_manifest_id.map(|id| id.to_string()),
            created_at: chat.created_at.to_string(),
            updated_at: chat.updated_at.to_string(),
        }
    }
}
