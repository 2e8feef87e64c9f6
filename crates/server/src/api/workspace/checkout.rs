//! `POST /v1/orgs/{org}/chats/{chat}/workspace/checkout`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ManifestView, explain, manifest_id};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// The state to bring back.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Checkout {
    manifest_id: String,
}

/// Bring an earlier state back
///
/// It becomes a new state that follows the active one; what had been changed is kept first, so nothing is lost.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/checkout", tag = "workspace",
    params(ChatPath),
    request_body = Checkout,
    responses((status = 200, body = ManifestView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn checkout_workspace(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<Checkout>,
) -> Result<Json<ManifestView>, ApiError> {
    let chat = path.id()?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    lease.active().await.map_err(explain(chat))?;
    let target = lease.manifest(manifest_id(&body.manifest_id)?).await.map_err(explain(chat))?;
    let manifest = lease.checkout(&target).await.map_err(explain(chat))?;
    let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
    Ok(Json(ManifestView::new(manifest, entries)))
}
