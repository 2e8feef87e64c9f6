//! `GET /v1/orgs/{org}/mcp-servers/{serverKey}`

use axum::Json;
use axum::extract::State;

use super::{ServerPath, ServerView, find, show};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Show an MCP server
#[utoipa::path(
    get, path = "/v1/orgs/{org}/mcp-servers/{serverKey}", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 200, body = ServerView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_mcp_server(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ServerPath>,
) -> Result<Json<ServerView>, ApiError> {
    let found = find(&app, &caller, &path).await?;
    show(&app, &caller.org, caller.manages, &found.key).await.map(Json)
}
