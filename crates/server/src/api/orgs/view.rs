//! Organisations as the API shows them.

use kitbag_model::{Organization, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::app::App;

/// An organisation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Organization)]
pub(crate) struct OrganizationView {
    /// As it stands in addresses.
    id: String,
    /// What people call it.
    name: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Organization> for OrganizationView {
    fn from(org: Organization) -> Self {
        Self { id: org.id.to_string(), name: org.name, created_at: org.created_at.to_string() }
    }
}

/// An organisation, and what the caller is there.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Membership)]
pub(crate) struct MembershipView {
    /// As it stands in addresses.
    id: String,
    /// What people call it.
    name: String,
    /// What the caller is there.
    #[schema(value_type = super::super::members::view::RoleName)]
    role: &'static str,
    /// What the caller may do there.
    #[schema(value_type = Vec<super::super::tokens::ScopeName>)]
    scopes: Vec<&'static str>,
}

/// Where somebody is a member.
pub(crate) async fn memberships(app: &App, user: UserId) -> Result<Vec<MembershipView>, ApiError> {
    let memberships = app.store().read_person(user).await?.memberships().await?;
    let mut views = Vec::with_capacity(memberships.len());
    for (org, role) in memberships {
        let Some(organization) = app.store().read_beside(&org).await?.organization().await? else { continue };
        let scopes = role.scopes().iter().map(kitbag_model::Scope::as_str).collect();
        views.push(MembershipView { id: org.to_string(), name: organization.name, role: role.as_str(), scopes });
    }
    Ok(views)
}
