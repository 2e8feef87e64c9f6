//! Chats.

pub(crate) mod active_leaf;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod update;
mod view;

use kitbag_model::{ChatId, ChatTitle, ToolSelectors};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;

pub(crate) use view::ChatView;

/// The path of a chat.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ChatPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The chat.
    chat: String,
}

impl ChatPath {
    /// A text that is no id names no chat.
    pub(crate) fn id(&self) -> Result<ChatId, ApiError> {
        self.chat.parse().map_err(|_| self.not_found())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found("chat", &self.chat)
    }
}

fn title(text: Option<String>) -> Result<Option<ChatTitle>, ApiError> {
    text.map(|text| text.parse()).transpose().map_err(|reason| ApiError::invalid("title", reason))
}

fn selectors(texts: Option<Vec<String>>) -> Result<Option<ToolSelectors>, ApiError> {
    let parsed = texts.map(|texts| ToolSelectors::try_from(texts.as_slice())).transpose();
    parsed.map_err(|reason| ApiError::invalid("toolSelectors", reason))
}
