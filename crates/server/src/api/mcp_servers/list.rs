//! `GET /v1/orgs/{org}/mcp-servers`

use axum::Json;
use axum::extract::State;

use super::{ServerView, Viewer};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::list::List;
use crate::app::App;

/// List the MCP servers that toolsets declare and people added
#[utoipa::path(
    get, path = "/v1/orgs/{org}/mcp-servers", tag = "mcp-servers",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = List<ServerView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_mcp_servers(
    State(app): State<App>,
    caller: MayUse,
) -> Result<Json<List<ServerView>>, ApiError> {
    let mut tx = app.store().read(&caller.org).await?;
    let (mut installed, pins) = (tx.all_installed().await?, tx.all_pins().await?);
    installed.retain(|one| caller.audience().sees(&one.toolset));
    drop(tx);
    let elsewhere = app.servers().shown_elsewhere(&caller.org).await;
    let viewer = Viewer { app: &app, org: &caller.org, manages: caller.manages, pins: &pins, elsewhere: &elsewhere };
    let servers = installed
        .iter()
        .flat_map(|one| one.servers.iter().map(|server| ServerView::new(&viewer, one, server)))
        .collect();
    Ok(Json(List::part("", servers, None)))
}
