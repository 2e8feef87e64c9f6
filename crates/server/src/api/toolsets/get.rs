//! `GET /v1/orgs/{org}/toolsets/{id}`

use axum::Json;
use axum::extract::State;
use kitbag_model::{Audience, OrgId, ToolsetId};

use super::view::FileView;
use super::{ToolsetDetail, ToolsetPath};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::api::mcp_servers::Viewer;
use crate::api::tools::ToolView;
use crate::app::App;

/// So many files are shown with a toolset.
const SHOWN_FILES: u32 = 1000;

/// Show a toolset with its tools, servers, skills and files
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/{id}", tag = "toolsets",
    params(ToolsetPath),
    responses((status = 200, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_toolset(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ToolsetPath>,
) -> Result<Json<ToolsetDetail>, ApiError> {
    let detail = seen(&app, &caller.org, caller.audience(), &path.id()?, caller.manages).await?;
    detail.map(Json).ok_or_else(|| path.not_found())
}

/// A toolset with everything in it, for who sees them all; none if there is none.
pub(crate) async fn detail(
    app: &App,
    org: &OrgId,
    id: &ToolsetId,
    manages: bool,
) -> Result<Option<ToolsetDetail>, ApiError> {
    seen(app, org, Audience::Everything, id, manages).await
}

async fn seen(
    app: &App,
    org: &OrgId,
    audience: Audience,
    id: &ToolsetId,
    manages: bool,
) -> Result<Option<ToolsetDetail>, ApiError> {
    let mut tx = app.store().read(org).await?;
    let Some(installed) = tx.installed(id).await?.filter(|one| audience.sees(&one.toolset)) else { return Ok(None) };
    let files = tx.toolset_files(id, None, SHOWN_FILES).await?.items.into_iter().map(FileView::from).collect();
    let mut pins = Vec::new();
    for server in &installed.servers {
        pins.extend(tx.pins(&installed.server_key(&server.server)).await?);
    }
    drop(tx);
    let tools = app.toolsets().catalogue(org, audience).await?.tools;
    let own = tools.into_iter().filter(|tool| tool.toolset.0 == id.as_str()).map(ToolView::from).collect();
    let elsewhere = app.servers().shown_elsewhere(org).await;
    let viewer = Viewer { app, org, manages, pins: &pins, elsewhere: &elsewhere };
    Ok(Some(ToolsetDetail::new(&viewer, installed, own, files)))
}
