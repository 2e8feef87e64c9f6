//! `GET /v1/orgs/{org}/chats/{chat}`

use axum::Json;
use axum::extract::State;

use super::{ChatPath, ChatView};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Get a chat
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}", tag = "chats",
    params(ChatPath),
    responses((status = 200, body = ChatView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_chat(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
) -> Result<Json<ChatView>, ApiError> {
    let chat = app.store().read(&caller.org).await?.chat(path.id()?).await?;
    Ok(Json(chat.ok_or_else(|| path.not_found())?.into()))
}
