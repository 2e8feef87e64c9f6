//! A model's turns in a chat.

pub(crate) mod cancel;
pub(crate) mod events;
mod follow;
mod limits;
pub(crate) mod list;
pub(crate) mod models;
pub(crate) mod stream;

use kitbag_model::{ChatId, TurnId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;

/// The path of a turn.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct TurnPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The chat.
    chat: String,
    /// The turn.
    turn: String,
}

impl TurnPath {
    fn chat(&self) -> Result<ChatId, ApiError> {
        self.chat.parse().map_err(|_| ApiError::not_found("chat", &self.chat))
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found("turn", &self.turn)
    }

    fn turn(&self) -> Result<TurnId, ApiError> {
        self.turn.parse().map_err(|_| self.not_found())
    }
}
