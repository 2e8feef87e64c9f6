//! `POST /v1/orgs/{org}/mcp-servers`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::body::AddServer;
use super::{ServerView, live, show};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// Add an MCP server
///
/// It gets a toolset of its own with the same id. Whoever adds it has seen what it starts, so it is trusted as it is, unless `trust` says
/// otherwise.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-servers", tag = "mcp-servers",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = AddServer,
    responses((status = 201, body = ServerView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn add_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    JsonBody(body): JsonBody<AddServer>,
) -> Result<(StatusCode, Json<ServerView>), ApiError> {
    let key = app.toolsets().add_server(&caller.org, &caller.author(), body.checked(&caller.org)?).await?;
    live::changed(&app, &caller.org, &key, "add_server").await;
    Ok((StatusCode::CREATED, Json(show(&app, &caller.org, true, &key).await?)))
}
