//! A member as the API shows them.

use kitbag_model::Member;
use serde::Serialize;
use utoipa::ToSchema;

/// What a member is: `owner`, `admin` (write), `member` (reads, and uses tools).
#[derive(ToSchema)]
#[schema(as = OrgRole, rename_all = "lowercase")]
#[allow(dead_code, reason = "it is there to be documented; the values are the model's")]
pub(crate) enum RoleName {
    Owner,
    Admin,
    Member,
}

/// A member.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Member)]
pub(crate) struct MemberView {
    /// The person's id.
    id: String,
    email: String,
    #[schema(required)]
    display_name: Option<String>,
    #[schema(value_type = RoleName)]
    role: &'static str,
    /// Since when they are a member.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Member> for MemberView {
    fn from(member: Member) -> Self {
        Self {
            id: member.user.to_string(),
            email: member.email,
            display_name: member.display_name,
            role: member.role.as_str(),
            created_at: member.created_at.to_string(),
        }
    }
}
