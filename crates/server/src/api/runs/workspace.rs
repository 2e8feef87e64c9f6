//! `GET /v1/orgs/{org}/agent-runs/{run}/workspace`

use axum::Json;
use axum::extract::State;
use kitbag_cas::tree;
use kitbag_model::ManifestId;
use serde::Serialize;
use utoipa::ToSchema;

use super::RunPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::api::workspace::diff::{ChangeView, changes};
use crate::api::workspace::explain;
use crate::app::App;
use crate::workspaces::Lease;

/// The files of a run, before and after.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentRunWorkspace)]
pub(crate) struct RunWorkspaceView {
    chat_id: String,
    /// The state that it began with; null: an empty folder.
    #[schema(required)]
    pre_manifest_id: Option<String>,
    /// The state that it left; null until it is over, and if nothing could be kept.
    #[schema(required)]
    post_manifest_id: Option<String>,
    /// What it changed, by path; empty while there is no state that it left.
    changes: Vec<ChangeView>,
}

/// See which files a run changed
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agent-runs/{run}/workspace", tag = "runs",
    params(RunPath),
    responses((status = 200, body = RunWorkspaceView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_run_workspace(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<RunPath>,
) -> Result<Json<RunWorkspaceView>, ApiError> {
    let run = path.seen(&app, &caller.org, caller.audience()).await?;
    let chat = run.chat_id;
    let mut differing = Vec::new();
    if run.post_manifest_id.is_some() {
        let lease = app.workspaces().look(&caller.org, chat).await;
        let (from, to) = (root(&lease, run.pre_manifest_id).await?, root(&lease, run.post_manifest_id).await?);
        differing = changes(&lease, from, to).await.map_err(explain(chat))?;
    }
    Ok(Json(RunWorkspaceView {
        chat_id: chat.to_string(),
        pre_manifest_id: run.pre_manifest_id.map(|id| id.to_string()),
        post_manifest_id: run.post_manifest_id.map(|id| id.to_string()),
        changes: differing,
    }))
}

async fn root(lease: &Lease, manifest: Option<ManifestId>) -> Result<kitbag_model::ContentHash, ApiError> {
    Ok(match manifest {
        Some(id) => lease.manifest(id).await?.root,
        None => tree::empty().root,
    })
}
