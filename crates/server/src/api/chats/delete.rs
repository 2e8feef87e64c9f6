//! `DELETE /v1/orgs/{org}/chats/{chat}`

use axum::extract::State;
use axum::http::StatusCode;

use super::ChatPath;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Delete a chat with everything in it
///
/// It needs the scope `manage`: an agent must not be able to wipe out what it did.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/chats/{chat}", tag = "chats",
    params(ChatPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn delete_chat(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ChatPath>,
) -> Result<StatusCode, ApiError> {
    let chat = path.id()?;
    if !app.delete_chat(&caller.org, chat, &caller.who).await? {
        return Err(path.not_found());
    }
    Ok(StatusCode::NO_CONTENT)
}
