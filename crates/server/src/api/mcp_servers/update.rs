//! `PUT /v1/orgs/{org}/mcp-servers/{serverKey}`

use axum::Json;
use axum::extract::State;

use super::body::UpdateServer;
use super::{ServerPath, ServerView, find, live, show};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// Change an MCP server
///
/// What is absent stays as it is. A server of a bundle that would start something else needs to be trusted again; one that was added
/// by hand is trusted as it is changed.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/mcp-servers/{serverKey}", tag = "mcp-servers",
    params(ServerPath),
    request_body = UpdateServer,
    responses((status = 200, body = ServerView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
    JsonBody(body): JsonBody<UpdateServer>,
) -> Result<Json<ServerView>, ApiError> {
    let change = body.checked()?;
    let before = find(&app, &caller, &path).await?.key;
    let held = app.servers().hold_homes().await;
    let after = app.toolsets().update_server(&caller.org, &caller.who, &before, change).await?;
    if after != before {
        app.servers().rename(&caller.org, &before, &after).await;
    }
    drop(held);
    if after != before {
        live::changed(&app, &caller.org, &before, "rename_server").await;
    }
    live::changed(&app, &caller.org, &after, "update_server").await;
    show(&app, &caller.org, true, &after).await.map(Json)
}
