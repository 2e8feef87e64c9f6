//! `POST /v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/cancel`

use axum::Json;
use axum::extract::State;

use super::{CallPath, ToolCallView};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Cancel a tool call, whether it waits for a yes, waits for its turn, or runs
///
/// Answers when it is over. A call that is over already is answered unchanged: nothing is cancelled twice, and what a tool did is
/// not undone.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/cancel", tag = "tool calls",
    params(CallPath),
    responses((status = 200, body = ToolCallView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn cancel_tool_call(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<CallPath>,
) -> Result<Json<ToolCallView>, ApiError> {
    let (chat, id) = path.ids()?;
    let call = app.calls().cancel(&caller.org, chat, id, &caller.who).await?;
    Ok(Json(ToolCallView::shown(call, &caller.org, app.stage())))
}
