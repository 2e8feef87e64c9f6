//! `POST /v1/orgs/{org}/tokens`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Action, BearerToken, NewToken, Scope, Scopes, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{ScopeName, TokenView};
use crate::access::caller::MayDecide;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// Ten years. Who wants longer leaves it out.
const LONGEST_SECONDS: u32 = 315_360_000;

/// A token to be made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateToken {
    /// What it is for; one line.
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// `use`, `manage` or both.
    #[schema(value_type = Vec<ScopeName>, min_items = 1)]
    scopes: Vec<String>,
    /// After how many seconds it ends; never, if absent.
    #[schema(minimum = 1, maximum = 315_360_000)]
    expires_in_seconds: Option<u32>,
}

/// A new token. Its text is shown this once.
#[derive(Serialize, ToSchema)]
#[schema(as = NewToken)]
pub(crate) struct NewTokenView {
    #[serde(flatten)]
    token: TokenView,
    /// What to send as `Authorization: Bearer …`. It cannot be shown again.
    secret: String,
}

/// Make a token; it is yours, and may do no more than you may
///
/// It takes a person at the page, or the scope `manage`: an agent makes no tokens.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/tokens", tag = "tokens",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = CreateToken,
    responses((status = 201, body = NewTokenView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_token(
    State(app): State<App>,
    caller: MayDecide,
    JsonBody(body): JsonBody<CreateToken>,
) -> Result<(StatusCode, Json<NewTokenView>), ApiError> {
    let name = body.name.parse().map_err(|reason| ApiError::invalid("name", reason))?;
    let scopes: Result<Scopes, _> = body.scopes.iter().map(|scope| scope.parse::<Scope>()).collect();
    let scopes = scopes.map_err(|reason| ApiError::invalid("scopes", reason))?;
    if scopes.is_empty() {
        return Err(ApiError::invalid("scopes", "must name at least one of use and manage"));
    }
    if scopes.and(caller.role.scopes()) != scopes {
        let message = format!("a token of yours may not have the scope \"manage\": you are here as {}", caller.role);
        return Err(ApiError::new(Code::Forbidden, message));
    }
    if body.expires_in_seconds.is_some_and(|seconds| !(1..=LONGEST_SECONDS).contains(&seconds)) {
        return Err(ApiError::invalid("expiresInSeconds", format!("must be from 1 to {LONGEST_SECONDS}")));
    }
    let expires_at = body.expires_in_seconds.map(|seconds| Timestamp::now().plus_seconds(seconds));
    let bearer = BearerToken::generate(caller.org.clone());
    let new = NewToken { id: bearer.id, name, hash: bearer.secret.hash(), scopes, expires_at, user: caller.user };
    let mut tx = app.store().write(&caller.org).await?;
    let token = tx.create_token(&new).await?;
    let details = json!({ "name": token.name, "scopes": scopes.to_string() });
    tx.audit(&caller.who, Action::TokenCreated, &token.id.to_string(), &details).await?;
    tx.commit().await?;
    let view = NewTokenView { token: token.into(), secret: bearer.to_secret().expose().to_owned() };
    Ok((StatusCode::CREATED, Json(view)))
}
