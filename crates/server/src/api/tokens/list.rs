//! `GET /v1/orgs/{org}/tokens`

use axum::Json;
use axum::extract::State;

use super::TokenView;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the tokens, oldest first
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tokens", tag = "tokens",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<TokenView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_tokens(
    State(app): State<App>,
    caller: MayManage,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<TokenView>>, ApiError> {
    let (after, limit) = (query.after("tokens")?, query.limit()?);
    let page = app.store().read(&caller.org).await?.tokens(after, limit).await?;
    Ok(Json(List::of("tokens", page, |token| token.id)))
}
