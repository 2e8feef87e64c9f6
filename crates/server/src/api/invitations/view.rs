//! An invitation as the API shows it: never its secret.

use kitbag_model::Invitation;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::members::view::RoleName;

/// An invitation, without its secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invitation)]
pub(crate) struct InvitationView {
    id: String,
    /// Whom it is for.
    email: String,
    /// What they will be.
    #[schema(value_type = RoleName)]
    role: &'static str,
    /// Who made it.
    invited_by: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

impl From<Invitation> for InvitationView {
    fn from(invitation: Invitation) -> Self {
        Self {
            id: invitation.id.to_string(),
            email: invitation.email.to_string(),
            role: invitation.role.as_str(),
            invited_by: invitation.invited_by,
            created_at: invitation.created_at.to_string(),
            expires_at: invitation.expires_at.to_string(),
        }
    }
}
