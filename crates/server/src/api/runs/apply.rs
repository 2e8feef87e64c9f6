//! `POST /v1/orgs/{org}/agent-runs/{run}/apply`

use axum::Json;
use axum::extract::State;

use super::RunPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::api::workspace::{ManifestView, explain};
use crate::app::App;

/// Make what a run left the next state of its chat
///
/// What was changed in the chat's folder is kept first, so that nothing is lost.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agent-runs/{run}/apply", tag = "runs",
    params(RunPath),
    responses((status = 200, body = ManifestView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn apply_run(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<RunPath>,
) -> Result<Json<ManifestView>, ApiError> {
    let run = path.seen(&app, &caller.org, caller.audience()).await?;
    let chat = run.chat_id;
    let left = run.post_manifest_id.ok_or_else(|| ApiError::new(Code::Conflict, "the run has left no files"))?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    let target = lease.manifest(left).await.map_err(explain(chat))?;
    let manifest = lease.checkout(&target).await.map_err(explain(chat))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    Ok(Json(ManifestView::new(manifest, entries)))
}
