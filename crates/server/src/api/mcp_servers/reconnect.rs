//! `POST /v1/orgs/{org}/mcp-servers/{serverKey}/reconnect`

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use serde_json::json;

use super::{ServerPath, ServerView, find, live, show};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Connect an MCP server anew, at once
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/reconnect", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 200, body = ServerView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn reconnect_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
) -> Result<Json<ServerView>, ApiError> {
    let found = find(&app, &caller, &path).await?;
    found.may_run()?;
    app.note(&caller.org, &caller.who, Action::McpServerReconnected, &found.key.to_string(), &json!({})).await?;
    live::reconnect(&app, &caller.org, &found.key).await?;
    show(&app, &caller.org, true, &found.key).await.map(Json)
}
