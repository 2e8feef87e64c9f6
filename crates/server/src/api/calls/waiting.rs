//! `GET /v1/orgs/{org}/pending-tool-calls`

use axum::Json;
use axum::extract::State;

use super::ToolCallView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the tool calls of all chats that wait for somebody to say yes or no, in the order they were asked for
#[utoipa::path(
    get, path = "/v1/orgs/{org}/pending-tool-calls", tag = "tool calls",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<ToolCallView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_pending_tool_calls(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<ToolCallView>>, ApiError> {
    let list = "pending calls";
    let (after, limit) = (query.after(list)?, query.limit()?);
    let page = app.store().read(&caller.org).await?.waiting_calls(after, limit).await?;
    Ok(Json(List::of(list, page, |call| call.id)))
}
