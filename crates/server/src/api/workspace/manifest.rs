//! `GET /v1/orgs/{org}/chats/{chat}/workspace/manifest`

use axum::Json;
use axum::extract::State;
use kitbag_model::MessageId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{ManifestView, explain, manifest_id};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;

/// Which state: by its id, by a message that has it, or the active one.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ManifestQuery {
    /// A manifest's id.
    id: Option<String>,
    /// A message: its own state, or that of its nearest ancestor that has one.
    message_id: Option<String>,
}

/// Get a state with all its files
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/workspace/manifest", tag = "workspace",
    params(ChatPath, ManifestQuery),
    responses((status = 200, body = ManifestView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_workspace_manifest(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<ManifestQuery>,
) -> Result<Json<ManifestView>, ApiError> {
    let chat = path.id()?;
    let lease = app.workspaces().look(&caller.org, chat).await;
    let active = lease.active().await.map_err(explain(chat))?;
    let none = || ApiError::new(Code::NotFound, "there is no state yet");
    let id = match (query.id, query.message_id) {
        (Some(_), Some(_)) => return Err(ApiError::new(Code::BadRequest, "give id or messageId, not both")),
        (Some(id), None) => manifest_id(&id)?,
        (None, Some(message)) => {
            let unknown = || ApiError::not_found("message", &message);
            let id: MessageId = message.parse().map_err(|_| unknown())?;
            let mut tx = app.store().read(&caller.org).await?;
            if !tx.has_message(chat, id).await? {
                return Err(unknown());
            }
            tx.manifest_of_message(chat, id).await?.ok_or_else(none)?
        }
        (None, None) => active.ok_or_else(none)?.id,
    };
    let manifest = lease.manifest(id).await.map_err(explain(chat))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    Ok(Json(ManifestView::new(manifest, entries)))
}
