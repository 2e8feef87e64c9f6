//! `POST /v1/invitations/read`

use axum::Json;
use axum::extract::State;
use kitbag_model::{Identity, Invitation, InvitationText, OrgId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::api::members::view::RoleName;
use crate::app::App;

/// Whoever was invited.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReadInvitation {
    /// The text of the invitation: what stands behind the `#` of its link.
    secret: String,
}

/// What an invitation is for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OpenInvitation)]
pub(crate) struct OpenInvitationView {
    /// The organisation.
    org: String,
    /// What people call it.
    organization_name: String,
    /// Whom it is for.
    email: String,
    /// What they will be.
    #[schema(value_type = RoleName)]
    role: &'static str,
    /// Whether that address is somebody's here already, who then signs in to accept it. If not, a password makes them known.
    known: bool,
}

/// See what an invitation is for
///
/// Whoever has its text may; it is in the body, so that it stands in no log.
#[utoipa::path(
    post, path = "/v1/invitations/read", tag = "people", security(()),
    request_body = ReadInvitation,
    responses((status = 200, body = OpenInvitationView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn read_invitation(
    State(app): State<App>,
    JsonBody(body): JsonBody<ReadInvitation>,
) -> Result<Json<OpenInvitationView>, ApiError> {
    let (org, invitation) = open(&app, &body.secret).await?;
    let organization = app.store().read_beside(&org).await?.organization().await?.ok_or_else(ended)?;
    let known = app.store().whose(&Identity::of_email(&invitation.email)).await?.is_some();
    Ok(Json(OpenInvitationView {
        org: org.to_string(),
        organization_name: organization.name,
        email: invitation.email.to_string(),
        role: invitation.role.as_str(),
        known,
    }))
}

/// The invitation of a text.
pub(crate) async fn open(app: &App, text: &str) -> Result<(OrgId, Invitation), ApiError> {
    let text = InvitationText::parse(text).ok_or_else(ended)?;
    let found = app.store().read_beside(&text.org).await?.invitation(text.id).await?;
    let found = found.filter(|found| found.admits(&text.secret, Timestamp::now())).ok_or_else(ended)?;
    Ok((text.org, found))
}

/// One answer for one that never was, was used, was taken back, or ended.
pub(super) fn ended() -> ApiError {
    ApiError::new(Code::NotFound, "this invitation does not work (any more); ask for a new one")
}
