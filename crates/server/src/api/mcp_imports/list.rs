//! `GET /v1/orgs/{org}/mcp-imports`

use axum::Json;
use axum::extract::State;

use super::view::ImportableServers;
use super::{mark_known, of_this_machine};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::App;

/// Find the MCP servers that other programs on this machine use
///
/// It reads their files below the home folder of whoever runs Kitbag, and those of the folder that Kitbag was started in; for the
/// organisation `local` only. Nothing is taken, and no value that looks like a secret is shown.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/mcp-imports", tag = "mcp-servers",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = ImportableServers), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_importable_mcp_servers(
    State(app): State<App>,
    caller: MayManage,
) -> Result<Json<ImportableServers>, ApiError> {
    let (mut found, unread) = of_this_machine(&caller.org).await?;
    mark_known(&app, &caller.org, &mut found).await?;
    Ok(Json(ImportableServers::new(&app, &caller.org, &found, &unread)))
}
