//! `DELETE /v1/orgs/{org}/tokens/{token}`

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The path of a token.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct TokenPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The token's id.
    token: String,
}

/// End a token and every session made with it, at once
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/tokens/{token}", tag = "tokens",
    params(TokenPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<TokenPath>,
) -> Result<StatusCode, ApiError> {
    let not_found = || ApiError::not_found("token", &path.token);
    let id = path.token.parse().map_err(|_| not_found())?;
    let mut tx = app.store().write(&caller.org).await?;
    if !tx.revoke_token(id).await? {
        return Err(not_found());
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
