//! `POST /v1/orgs/{org}/mcp-servers/{serverKey}/test`

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{ServerPath, ServerView, find, live, show};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// A server that answered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestedServer {
    /// How long it took, in milliseconds.
    duration_ms: f64,
    server: ServerView,
}

/// Ask an MCP server for its tools, and say how long that took. It is connected first if it must be
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/test", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 200, body = TestedServer), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn test_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
) -> Result<Json<TestedServer>, ApiError> {
    let found = find(&app, &caller, &path).await?;
    found.may_run()?;
    app.note(&caller.org, &caller.who, Action::McpServerTested, &found.key.to_string(), &json!({})).await?;
    let began = Instant::now();
    live::test(&app, &caller.org, &found.key).await?;
    let duration_ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    Ok(Json(TestedServer { duration_ms, server: show(&app, &caller.org, true, &found.key).await? }))
}
