//! `DELETE /v1/orgs/{org}/invitations/{invitation}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::Action;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The path of an invitation.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct InvitationPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The invitation's id.
    invitation: String,
}

/// Take an invitation back, at once
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/invitations/{invitation}", tag = "organizations",
    params(InvitationPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn delete_invitation(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<InvitationPath>,
) -> Result<StatusCode, ApiError> {
    let not_found = || ApiError::not_found("invitation", &path.invitation);
    let id = path.invitation.parse().map_err(|_| not_found())?;
    let mut tx = app.store().write(&caller.org).await?;
    if !tx.delete_invitation(id).await? {
        return Err(not_found());
    }
    tx.audit(&caller.who, Action::InvitationDeleted, &path.invitation, &json!({})).await?;
    tx.commit().await?;
    app.events().members_changed(&caller.org, None, "invitations");
    Ok(StatusCode::NO_CONTENT)
}
