//! `DELETE /v1/orgs/{org}/secrets/{name}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::Action;
use serde_json::json;

use super::SecretPath;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::vaulted::ORGANIZATION;

/// Forget a secret
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/secrets/{name}", tag = "organizations",
    params(SecretPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn delete_secret(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<SecretPath>,
) -> Result<StatusCode, ApiError> {
    let name = path.name()?;
    let mut tx = app.store().write(&caller.org).await?;
    if !tx.delete_secret(ORGANIZATION, name.as_str()).await? {
        return Err(ApiError::not_found("secret", name.as_str()));
    }
    tx.audit(&caller.who, Action::SecretDeleted, name.as_str(), &json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
