//! `POST /v1/orgs/{org}/chats/{chat}/workspace/restore`

use axum::Json;
use axum::extract::State;
use kitbag_cas::Kind;
use kitbag_cas::workspace::Workspace;
use kitbag_model::{Source, WorkPath};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ManifestView, explain, manifest_id};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// Which file, and from which state.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Restore {
    /// The file.
    path: String,
    /// The state that has it.
    manifest_id: String,
}

/// Bring one file back as it was in an earlier state. Everything else stays
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/restore", tag = "workspace",
    params(ChatPath),
    request_body = Restore,
    responses((status = 200, body = ManifestView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn restore_workspace_file(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<Restore>,
) -> Result<Json<ManifestView>, ApiError> {
    let chat = path.id()?;
    let file: WorkPath = body.path.parse().map_err(|reason| ApiError::invalid("path", reason))?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    lease.current().await.map_err(explain(chat))?;
    let from = lease.manifest(manifest_id(&body.manifest_id)?).await.map_err(explain(chat))?;
    let entry = lease.find(from.root, file.clone()).await.map_err(explain(chat))?;
    let entry = entry.ok_or_else(|| ApiError::not_found("file", &body.path))?;
    if !matches!(entry.kind, Kind::File | Kind::Executable) {
        return Err(ApiError::invalid(
            "path",
            "is a link or a folder in that state; only files can be brought back alone",
        ));
    }
    let executable = entry.kind == Kind::Executable;
    let write = move |workspace: &mut Workspace| Ok(workspace.write_blob(&file, &entry.hash, executable)?);
    let (manifest, ()) = lease.edit(Source::Edit, Some(from.id.to_string()), write).await.map_err(explain(chat))?;
    let manifest = manifest.ok_or_else(|| ApiError::new(Code::Conflict, "the file went away while it was written"))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    Ok(Json(ManifestView::new(manifest, entries)))
}
