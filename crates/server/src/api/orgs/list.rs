//! `GET /v1/orgs`

use axum::Json;
use axum::extract::State;

use super::view::{MembershipView, memberships};
use crate::access::people::Person;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::list::List;
use crate::app::App;

/// List the organisations that you are a member of
#[utoipa::path(
    get, path = "/v1/orgs", tag = "organizations",
    responses((status = 200, body = List<MembershipView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_organizations(
    State(app): State<App>,
    Person(person): Person,
) -> Result<Json<List<MembershipView>>, ApiError> {
    Ok(Json(List::part("organizations", memberships(&app, person.user).await?, None)))
}
