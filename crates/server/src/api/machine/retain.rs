//! `POST /v1/orgs/{org}/server/retain`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::of_the_machine;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::App;

/// So long one request works.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What was deleted.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Retained)]
pub(crate) struct RetainedView {
    chats: u64,
    /// Lines of the audit; null where only the owner of the database's tables deletes them (`kitbag admin retain --database`).
    #[schema(required)]
    audit: Option<u64>,
    /// Whether there is more: ask again.
    more: bool,
}

/// Delete now what is older than organisations want it kept, and would be deleted within the hour
///
/// Only the organisation `local` may.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/server/retain", tag = "operations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = RetainedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn retain(State(app): State<App>, caller: MayManage) -> Result<Json<RetainedView>, ApiError> {
    of_the_machine(&caller.org)?;
    let done = app.retain(Some(Instant::now() + PATIENCE), true).await.map_err(ApiError::internal)?;
    Ok(Json(RetainedView { chats: done.chats, audit: done.audit, more: done.more }))
}
