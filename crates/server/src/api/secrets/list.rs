//! `GET /v1/orgs/{org}/secrets`

use axum::Json;
use axum::extract::State;
use kitbag_store::KeptSecret;
use serde::Serialize;
use utoipa::ToSchema;

use super::SecretNameDoc;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;
use crate::vaulted::ORGANIZATION;

/// What may be told of a secret: that it is there.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub(crate) struct SecretView {
    #[schema(value_type = SecretNameDoc)]
    name: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// Who gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_by: Option<String>,
}

impl From<KeptSecret> for SecretView {
    fn from(kept: KeptSecret) -> Self {
        Self { name: kept.name, updated_at: kept.updated_at.to_string(), updated_by: kept.updated_by }
    }
}

/// The secrets that the organisation gave; never their values
#[utoipa::path(
    get, path = "/v1/orgs/{org}/secrets", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<SecretView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_secrets(
    State(app): State<App>,
    caller: MayManage,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<SecretView>>, ApiError> {
    let (limit, after) = (query.limit()?, query.after::<String>("secrets")?);
    let mut kept = app.store().read_beside(&caller.org).await?.kept_secrets(ORGANIZATION).await?;
    kept.retain(|secret| after.as_ref().is_none_or(|after| secret.name > *after));
    Ok(Json(List::cut("secrets", kept, limit, |secret| secret.name.clone(), SecretView::from)))
}
