//! `PUT /v1/orgs/{org}/toolsets/{id}`

use axum::Json;
use axum::extract::{Request, State};

use super::body::{LARGEST, ToolsetBody};
use super::get::detail;
use super::{ToolsetDetail, ToolsetPath};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{LargeJsonBody, PathOf};
use crate::app::App;
use crate::toolsets::Edited;

/// Change a toolset
///
/// What is absent stays as it is; a list that is there is the whole list. What people changed about its tools, switches, pins, and trust in
/// what is the same stay. The patch number of its version goes up when its servers or skills change. Of a toolset that came as a bundle the
/// Python tools, pages and other files stay. One that was made for a single MCP server is changed as that server. What is published must be
/// unpublished first.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/toolsets/{id}", tag = "toolsets",
    params(ToolsetPath),
    request_body = ToolsetBody,
    responses((status = 200, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
    request: Request,
) -> Result<Json<ToolsetDetail>, ApiError> {
    let id = path.id()?;
    let LargeJsonBody { body, place: _body } =
        LargeJsonBody::<ToolsetBody, LARGEST>::read(&app, &caller.org, request).await?;
    let _place = app.fair().imports.enter(&caller.org).await?;
    let edited = app.toolsets().update(&caller.org, caller.author(), &id, body.read()).await?;
    if edited == Edited::Replaced {
        app.calls().end_toolset(&caller.org, id.as_str(), "replaced").await;
    }
    if edited != Edited::Nothing {
        app.tools_changed(&caller.org, id.as_str(), "update").await;
    }
    detail(&app, &caller.org, &id, true).await?.map(Json).ok_or_else(|| path.not_found())
}
