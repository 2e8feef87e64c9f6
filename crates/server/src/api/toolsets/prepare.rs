//! `POST /v1/orgs/{org}/toolsets/{id}/prepare`

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::ToolsetPath;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// A tool that was found in a toolset's code.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreparedTool {
    entrypoint: String,
    /// Why it cannot be called, if that is so.
    #[schema(required)]
    problem: Option<String>,
}

/// A toolset whose tools can be called at once.
#[derive(Serialize, ToSchema)]
pub(crate) struct Prepared {
    /// The toolset's id.
    id: String,
    tools: Vec<PreparedTool>,
}

/// Build what the Python tools of a toolset need, and look into their code; fetch or build the images of its containers
///
/// Otherwise that is done when one of them is first called. It answers when all is ready; how far it is, is told on `events`
/// (`toolset_progress`).
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/{id}/prepare", tag = "toolsets",
    params(ToolsetPath),
    responses((status = 200, body = Prepared), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn prepare_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
) -> Result<Json<Prepared>, ApiError> {
    let one = app.toolsets().installed(&caller.org, &path.id()?).await?;
    app.note(&caller.org, &caller.who, Action::ToolsetPrepared, one.toolset.id.as_str(), &json!({})).await?;
    let found = if one.tools.is_empty() { Vec::new() } else { app.toolsets().prepare(&caller.org, &one).await?.tools };
    app.containers().prepare_all(&caller.org, &one).await?;
    app.tools_changed(&caller.org, one.toolset.id.as_str(), "prepare").await;
    let tools = found
        .into_iter()
        .map(|tool| PreparedTool { entrypoint: tool.entrypoint.to_string(), problem: tool.problem })
        .collect();
    Ok(Json(Prepared { id: one.toolset.id.to_string(), tools }))
}
