//! `POST /v1/orgs/{org}/chats/{chat}/turns/{turn}/cancel`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::TurnPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::turns::Why;

/// What became of it.
#[derive(Serialize, ToSchema)]
pub(crate) struct CancelledTurn {
    /// Whether it ran until now.
    cancelled: bool,
}

/// End a model's turn, with the calls that it waits for
///
/// Answers when it is over. What was said until then stays; one that is over already stays as it is.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/turns/{turn}/cancel", tag = "turns",
    params(TurnPath),
    responses((status = 200, body = CancelledTurn), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn cancel_turn(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<TurnPath>,
) -> Result<Json<CancelledTurn>, ApiError> {
    let turn = app.turns().find(&caller.org, path.chat()?, path.turn()?).ok_or_else(|| path.not_found())?;
    let cancelled = turn.cancel(Why::Cancelled);
    turn.over().await;
    Ok(Json(CancelledTurn { cancelled }))
}
