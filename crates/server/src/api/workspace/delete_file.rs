//! `DELETE /v1/orgs/{org}/chats/{chat}/workspace/files/{path}`

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kitbag_cas::workspace::Workspace;
use kitbag_model::Source;

use super::{FilePath, current_entry, explain};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Delete a file. Earlier states still have it
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/chats/{chat}/workspace/files/{*path}", tag = "workspace",
    params(FilePath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn delete_workspace_file(
    State(app): State<App>,
    caller: MayUse,
    PathOf(at): PathOf<FilePath>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let (chat, path) = (at.chat()?, at.path()?);
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    current_entry(&lease, chat, &path, &headers).await?;
    let remove = move |workspace: &mut Workspace| Ok(workspace.remove_file(&path)?);
    let (_, was_there) = lease.edit(Source::Edit, None, remove).await.map_err(explain(chat))?;
    if was_there { Ok(StatusCode::NO_CONTENT) } else { Err(at.not_found()) }
}
