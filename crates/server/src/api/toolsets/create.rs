//! `POST /v1/orgs/{org}/toolsets`

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use super::ToolsetDetail;
use super::body::{LARGEST, ToolsetBody};
use super::get::detail;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::LargeJsonBody;
use crate::app::App;

/// Make a toolset of MCP servers and skills
///
/// Whoever writes a server has seen what it starts, so it is trusted as it is, unless `trust` says otherwise. Everything that is wrong is
/// told at once, in `details.problems`; no value is repeated.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets", tag = "toolsets",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = ToolsetBody,
    responses((status = 201, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_toolset(
    State(app): State<App>,
    caller: MayManage,
    request: Request,
) -> Result<(StatusCode, Json<ToolsetDetail>), ApiError> {
    let LargeJsonBody { body, place: _body } =
        LargeJsonBody::<ToolsetBody, LARGEST>::read(&app, &caller.org, request).await?;
    let _place = app.fair().imports.enter(&caller.org).await?;
    let id = app.toolsets().create(&caller.org, caller.author(), body.read()).await?;
    app.tools_changed(&caller.org, id.as_str(), "create").await;
    let detail = detail(&app, &caller.org, &id, true).await?;
    let gone = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {:?}", id.as_str()));
    Ok((StatusCode::CREATED, Json(detail.ok_or_else(gone)?)))
}
