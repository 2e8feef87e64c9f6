//! `POST /v1/orgs/{org}/server/reseal`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::of_the_machine;
use super::retain::PATIENCE;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::app::App;
use crate::reseal::{ResealError, Unreadable};

/// What was sealed anew.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resealed)]
pub(crate) struct ResealedView {
    /// The name of the master key that seals; it says nothing of the key.
    key_id: String,
    /// How many had another key.
    resealed: u64,
    /// How many had this one already.
    current: u64,
    /// What no key here opens.
    unreadable: Vec<UnreadableView>,
    /// Whether there is more: ask again.
    more: bool,
}

/// Something sealed that no key here opens. What is in it nobody can tell.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UnreadableSecret)]
pub(crate) struct UnreadableView {
    organization_id: String,
    kind: String,
    name: String,
    reason: String,
}

impl From<Unreadable> for UnreadableView {
    fn from(one: Unreadable) -> Self {
        Self { organization_id: one.org.to_string(), kind: one.kind, name: one.name, reason: one.reason }
    }
}

/// Seal everything of all organisations with the first master key, so that older ones are needed no more
///
/// Only the organisation `local` may.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/server/reseal", tag = "operations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = ResealedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn reseal(State(app): State<App>, caller: MayManage) -> Result<Json<ResealedView>, ApiError> {
    of_the_machine(&caller.org)?;
    let done = app.reseal(Instant::now() + PATIENCE).await.map_err(|error| match error {
        ResealError::Store(error) => error.into(),
        error @ (ResealError::OtherKey { .. } | ResealError::Vault(_)) => {
            ApiError::new(Code::Conflict, error.to_string())
        }
        error @ ResealError::Keeper(_) => ApiError::internal(error),
    })?;
    Ok(Json(ResealedView {
        key_id: done.key.to_string(),
        resealed: done.resealed,
        current: done.current,
        unreadable: done.unreadable.into_iter().map(UnreadableView::from).collect(),
        more: done.more,
    }))
}
