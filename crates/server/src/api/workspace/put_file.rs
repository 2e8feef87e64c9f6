//! `PUT /v1/orgs/{org}/chats/{chat}/workspace/files/{path}`

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kitbag_cas::workspace::Workspace;
use kitbag_model::Source;
use serde::Serialize;
use utoipa::ToSchema;

use super::{EntryView, FilePath, current_entry, explain};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::edge::refusing;

/// A file that was written.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WrittenFile)]
pub(crate) struct WrittenView {
    path: String,
    #[serde(flatten)]
    entry: EntryView,
    /// The state that has it.
    manifest_id: String,
}

/// Write a file
///
/// `If-Match: "<sha256>"` writes only over the content that was read; `If-None-Match: *` only where nothing is.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/chats/{chat}/workspace/files/{*path}", tag = "workspace",
    params(FilePath),
    request_body(content = Option<Vec<u8>>, content_type = "application/octet-stream", description = "The content; nothing for an empty file."),
    responses((status = 200, body = WrittenView), (status = 201, body = WrittenView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn put_workspace_file(
    State(app): State<App>,
    caller: MayUse,
    PathOf(at): PathOf<FilePath>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<WrittenView>), ApiError> {
    let (chat, path) = (at.chat()?, at.path()?);
    let settings = app.settings();
    let mut arriving = match app.workspaces().arriving(&caller.org, &headers).await {
        Ok(arriving) => arriving,
        Err(error) => return Err(refusing(body, error.into()).await),
    };
    let body = body.into_data_stream();
    let (most, patience) = (settings.max_upload_bytes, settings.request_timeout);
    let staged = app.inbox().receive(body, most, patience, Some(&mut arriving)).await?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    let current = current_entry(&lease, chat, &path, &headers).await?;
    let written = path.clone();
    let place = move |workspace: &mut Workspace| Ok(workspace.place_file(&written, staged.path(), None)?);
    let (manifest, ()) = lease.edit(Source::Edit, None, place).await.map_err(explain(chat))?;
    let manifest = manifest.ok_or_else(|| ApiError::new(Code::Conflict, "the file went away while it was written"))?;
    let entry = lease.find(manifest.root, path).await.map_err(explain(chat))?;
    let entry = entry.ok_or_else(|| ApiError::new(Code::Conflict, "the file went away while it was written"))?;
    let status = if current.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(WrittenView { path: at.path, entry: entry.into(), manifest_id: manifest.id.to_string() })))
}
