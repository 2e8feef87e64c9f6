//! `GET /v1/orgs/{org}/chats/{chat}/tool-calls/{callId}`

use axum::Json;
use axum::extract::State;

use super::{CallPath, ToolCallView};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Show a tool call
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}", tag = "tool calls",
    params(CallPath),
    responses((status = 200, body = ToolCallView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_tool_call(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<CallPath>,
) -> Result<Json<ToolCallView>, ApiError> {
    let (chat, id) = path.ids()?;
    let call = app.calls().find(&caller.org, chat, id).await?.ok_or_else(|| path.not_found())?;
    Ok(Json(ToolCallView::shown(call, &caller.org, app.stage())))
}
