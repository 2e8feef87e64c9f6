//! `GET /v1/orgs/{org}/members`

use axum::Json;
use axum::extract::State;

use super::view::MemberView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the members
#[utoipa::path(
    get, path = "/v1/orgs/{org}/members", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<MemberView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_members(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<MemberView>>, ApiError> {
    let (after, limit) = (query.after("members")?, query.limit()?);
    let page = app.store().read_beside(&caller.org).await?.members(after, limit).await?;
    Ok(Json(List::of("members", page, |member| member.user)))
}
