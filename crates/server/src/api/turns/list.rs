//! `GET /v1/orgs/{org}/chats/{chat}/turns`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::api::list::List;
use crate::app::App;

/// A turn that runs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Turn)]
pub(crate) struct TurnView {
    id: String,
    chat_id: String,
    /// The message that it writes.
    message_id: String,
}

/// The turn that runs in a chat, if one does
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/turns", tag = "turns",
    params(ChatPath),
    responses((status = 200, body = List<TurnView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_turns(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
) -> Result<Json<List<TurnView>>, ApiError> {
    let chat = path.id()?;
    app.calls().stand(&caller.org, chat).await?.ok_or_else(|| path.not_found())?;
    let running = app.turns().running(&caller.org, chat).into_iter();
    let view = running.map(|turn| TurnView {
        id: turn.id.to_string(),
        chat_id: turn.chat.to_string(),
        message_id: turn.message.to_string(),
    });
    Ok(Json(List::part("", view.collect(), None)))
}
