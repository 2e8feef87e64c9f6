//! `POST /v1/orgs/{org}/chats/{chat}/workspace/rename`

use axum::Json;
use axum::extract::State;
use kitbag_cas::workspace::Workspace;
use kitbag_model::{Source, WorkPath};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ManifestView, explain};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// What to call what.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rename {
    /// A file or a folder of the workspace.
    from: String,
    /// A path where nothing is yet.
    to: String,
}

/// Rename a file or a folder. It answers with the state that has it under its new name
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/rename", tag = "workspace",
    params(ChatPath),
    request_body = Rename,
    responses((status = 200, body = ManifestView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn rename_workspace_file(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<Rename>,
) -> Result<Json<ManifestView>, ApiError> {
    let chat = path.id()?;
    let from: WorkPath = body.from.parse().map_err(|reason| ApiError::invalid("from", reason))?;
    let to: WorkPath = body.to.parse().map_err(|reason| ApiError::invalid("to", reason))?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    lease.current().await.map_err(explain(chat))?;
    let rename = move |workspace: &mut Workspace| Ok(workspace.rename(&from, &to)?);
    let (manifest, was_there) = lease.edit(Source::Edit, None, rename).await.map_err(explain(chat))?;
    let manifest = manifest.filter(|_| was_there).ok_or_else(|| ApiError::not_found("file", &body.from))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    Ok(Json(ManifestView::new(manifest, entries)))
}
