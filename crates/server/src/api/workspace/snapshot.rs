//! `POST /v1/orgs/{org}/chats/{chat}/workspace/snapshot`

use axum::Json;
use axum::extract::State;

use super::{ManifestView, explain};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Keep what was changed in the folder by other means
///
/// Answers with the active state: a new one, or the one that was there if nothing had changed.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/snapshot", tag = "workspace",
    params(ChatPath),
    responses((status = 200, body = ManifestView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn snapshot_workspace(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
) -> Result<Json<ManifestView>, ApiError> {
    let chat = path.id()?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    let manifest = lease.current().await.map_err(explain(chat))?;
    let manifest =
        manifest.ok_or_else(|| ApiError::new(Code::NotFound, "the workspace is empty and has no state yet"))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    Ok(Json(ManifestView::new(manifest, entries)))
}
