//! `PUT /v1/orgs/{org}/secrets/{name}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Action, OrgSecretName};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::SecretPath;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// The value of a secret.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetSecret {
    /// Printable ASCII, without a space at either end.
    #[schema(min_length = 1, max_length = 4096, write_only)]
    value: String,
}

/// Give a secret, in place of the one that was given before
///
/// It is kept encrypted, and no request reads it again.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/secrets/{name}", tag = "organizations",
    params(SecretPath), request_body = SetSecret,
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn set_secret(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<SecretPath>,
    JsonBody(body): JsonBody<SetSecret>,
) -> Result<StatusCode, ApiError> {
    let name = path.name()?;
    let value = OrgSecretName::value(body.value).map_err(|reason| ApiError::invalid("value", reason))?;
    let sealed = app.seal(&caller.org, name, &value).await?;
    let mut tx = app.store().write(&caller.org).await?;
    tx.give_secret(crate::vaulted::ORGANIZATION, name.as_str(), &sealed, &caller.who).await?;
    tx.audit(&caller.who, Action::SecretSet, name.as_str(), &json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
