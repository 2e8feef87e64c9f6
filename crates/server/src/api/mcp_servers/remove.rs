//! `DELETE /v1/orgs/{org}/mcp-servers/{serverKey}`

use axum::extract::State;
use axum::http::StatusCode;

use super::{ServerPath, find, live};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Remove an MCP server that was added by hand, with its toolset. One of a bundle can only be turned off
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/mcp-servers/{serverKey}", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn remove_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
) -> Result<StatusCode, ApiError> {
    let key = find(&app, &caller, &path).await?.key;
    app.toolsets().remove_server(&caller.org, &caller.who, &key).await?;
    live::changed(&app, &caller.org, &key, "remove_server").await;
    Ok(StatusCode::NO_CONTENT)
}
