//! `PATCH /v1/orgs/{org}/members/{user}`

use axum::Json;
use axum::extract::State;
use kitbag_model::{Action, OrgRole, UserId};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::view::{MemberView, RoleName};
use super::{MemberPath, refused};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// What is to be other than before.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateMember {
    /// `owner`, `admin` or `member`.
    #[schema(value_type = RoleName)]
    role: String,
}

/// Give a member another role; only an owner makes and unmakes owners
#[utoipa::path(
    patch, path = "/v1/orgs/{org}/members/{user}", tag = "organizations",
    params(MemberPath), request_body = UpdateMember,
    responses((status = 200, body = MemberView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_member(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<MemberPath>,
    JsonBody(body): JsonBody<UpdateMember>,
) -> Result<Json<MemberView>, ApiError> {
    let role: OrgRole = body.role.parse().map_err(|reason| ApiError::invalid("role", reason))?;
    let not_found = || ApiError::not_found("member", &path.user);
    let user: UserId = path.user.parse().map_err(|_| not_found())?;
    let mut tx = app.store().write(&caller.org).await?;
    let before = tx.member(user).await?.ok_or_else(not_found)?;
    if caller.role != OrgRole::Owner && (role == OrgRole::Owner || before.role == OrgRole::Owner) {
        return Err(ApiError::new(Code::Forbidden, "only an owner makes somebody an owner, or no longer one"));
    }
    let member = tx.set_role(user, role).await.map_err(|error| refused(error, &path.user))?;
    let details = json!({ "from": before.role.as_str(), "to": role.as_str(), "email": member.email });
    tx.audit(&caller.who, Action::MemberRoleChanged, &path.user, &details).await?;
    tx.commit().await?;
    app.rights_changed();
    app.events().members_changed(&caller.org, Some(user), "role");
    Ok(Json(member.into()))
}
