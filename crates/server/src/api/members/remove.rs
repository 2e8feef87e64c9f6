//! `DELETE /v1/orgs/{org}/members/{user}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Action, OrgRole, UserId};
use serde_json::json;

use super::{MemberPath, refused};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Take a member out of the organisation, with their tokens, at once; everybody may leave
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/members/{user}", tag = "organizations",
    params(MemberPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn remove_member(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<MemberPath>,
) -> Result<StatusCode, ApiError> {
    let not_found = || ApiError::not_found("member", &path.user);
    let user: UserId = path.user.parse().map_err(|_| not_found())?;
    // A program with somebody's token is not that person: it takes the right to manage even to leave.
    let leaves = caller.at_page && caller.user == Some(user);
    if !caller.manages && !leaves {
        return Err(ApiError::new(Code::Forbidden, "only an owner or admin takes others out of the organisation"));
    }
    let mut tx = app.store().write(&caller.org).await?;
    let before = tx.member(user).await?.ok_or_else(not_found)?;
    if before.role == OrgRole::Owner && caller.role != OrgRole::Owner {
        return Err(ApiError::new(Code::Forbidden, "only an owner takes an owner out of the organisation"));
    }
    let member = tx.remove_member(user).await.map_err(|error| refused(error, &path.user))?;
    tx.audit(&caller.who, Action::MemberRemoved, &path.user, &json!({ "email": member.email })).await?;
    tx.commit().await?;
    app.rights_changed();
    app.stage().close_organization(&caller.org);
    app.events().members_changed(&caller.org, Some(user), "removed");
    Ok(StatusCode::NO_CONTENT)
}
