//! `DELETE /v1/orgs/{org}/tokens/{token}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::Action;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::access::caller::MayDecide;
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

/// End a token and every session made with it, at once; a member ends their own
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/tokens/{token}", tag = "tokens",
    params(TokenPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    caller: MayDecide,
    PathOf(path): PathOf<TokenPath>,
) -> Result<StatusCode, ApiError> {
    let not_found = || ApiError::not_found("token", &path.token);
    let id = path.token.parse().map_err(|_| not_found())?;
    let mut tx = app.store().write(&caller.org).await?;
    let token = tx.token(id).await?.ok_or_else(not_found)?;
    let own = token.owner.is_some_and(|(user, _)| caller.user == Some(user));
    if !caller.manages && !own {
        return Err(not_found());
    }
    tx.revoke_token(id).await?;
    tx.audit(&caller.who, Action::TokenRevoked, &path.token, &json!({ "name": token.name })).await?;
    tx.commit().await?;
    app.rights_changed();
    app.stage().close_organization(&caller.org);
    Ok(StatusCode::NO_CONTENT)
}
