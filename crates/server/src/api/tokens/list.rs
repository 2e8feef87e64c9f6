//! `GET /v1/orgs/{org}/tokens`

use axum::Json;
use axum::extract::State;

use super::TokenView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the tokens, oldest first; a member lists their own
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tokens", tag = "tokens",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<TokenView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_tokens(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<TokenView>>, ApiError> {
    let (after, limit) = (query.after("tokens")?, query.limit()?);
    // A token of nobody that does not manage has none of its own.
    let of = match (caller.manages, caller.user) {
        (true, _) => None,
        (false, Some(user)) => Some(user),
        (false, None) => {
            return Err(ApiError::new(Code::Forbidden, "this token is nobody's: it has no tokens to list"));
        }
    };
    let page = app.store().read_beside(&caller.org).await?.tokens(of, after, limit).await?;
    Ok(Json(List::of("tokens", page, |token| token.id)))
}
