//! `POST /v1/orgs/{org}/toolsets/{id}/enable`

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{ToolsetPath, ToolsetView};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// On or off.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Enable {
    /// Whether its tools are there.
    enabled: bool,
}

/// Turn a toolset on or off, with all its tools
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/{id}/enable", tag = "toolsets",
    params(ToolsetPath),
    request_body = Enable,
    responses((status = 200, body = ToolsetView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn enable_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
    JsonBody(body): JsonBody<Enable>,
) -> Result<Json<ToolsetView>, ApiError> {
    let id = path.id()?;
    let mut tx = app.store().write(&caller.org).await?;
    if !tx.enable_toolset(&id, body.enabled).await? {
        return Err(path.not_found());
    }
    let toolset = tx.toolset(&id).await?.ok_or_else(|| path.not_found())?;
    let action = if body.enabled { Action::ToolsetEnabled } else { Action::ToolsetDisabled };
    tx.audit(&caller.who, action, id.as_str(), &json!({})).await?;
    tx.commit().await?;
    if !body.enabled {
        // What is off does not go on in the background.
        app.calls().end_toolset(&caller.org, id.as_str(), "turned off").await;
    }
    app.tools_changed(&caller.org, id.as_str(), if body.enabled { "enable" } else { "disable" }).await;
    Ok(Json(toolset.into()))
}
