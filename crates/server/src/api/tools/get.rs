//! `GET /v1/orgs/{org}/tools/{toolId}`

use axum::Json;
use axum::extract::State;
use kitbag_model::ToolId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::ToolDetail;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The path of a tool.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Path)]
pub(crate) struct ToolPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The tool's id.
    tool_id: String,
}

/// Show a tool, with where each of its values comes from
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools/{toolId}", tag = "tools",
    params(ToolPath),
    responses((status = 200, body = ToolDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_tool(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ToolPath>,
) -> Result<Json<ToolDetail>, ApiError> {
    let not_found = || ApiError::new(Code::ToolNotFound, format!("there is no tool {:?}", path.tool_id));
    let id: ToolId = path.tool_id.parse().map_err(|_| not_found())?;
    let id = app.toolsets().canonical(&caller.org, caller.audience(), id).await?;
    let tool = app.toolsets().catalogue(&caller.org, caller.audience()).await?.find(&id).ok_or_else(not_found)?;
    Ok(Json(tool.into()))
}
