//! `GET /v1/orgs/{org}/invitations`

use axum::Json;
use axum::extract::State;

use super::view::InvitationView;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the invitations that nobody has taken yet
#[utoipa::path(
    get, path = "/v1/orgs/{org}/invitations", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<InvitationView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_invitations(
    State(app): State<App>,
    caller: MayManage,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<InvitationView>>, ApiError> {
    let (after, limit) = (query.after("invitations")?, query.limit()?);
    let page = app.store().read_beside(&caller.org).await?.invitations(after, limit).await?;
    Ok(Json(List::of("invitations", page, |invitation| invitation.id)))
}
