//! `POST /v1/orgs`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kitbag_model::{Action, Email, OrgId, OrgRole, OrganizationName};
use kitbag_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::view::OrganizationView;
use crate::access::caller::Operator;
use crate::access::issuers::base_url;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::api::invitations::create::{NewInvitationView, invite};
use crate::app::App;

/// An organisation to be made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateOrganization {
    /// As it will stand in addresses: `^[a-z0-9][a-z0-9_-]{0,63}$`.
    id: String,
    /// What people call it; its id, if absent.
    #[schema(min_length = 1, max_length = 120)]
    name: Option<String>,
    /// The address of its first owner, who gets an invitation.
    #[schema(min_length = 3, max_length = 254)]
    owner_email: String,
}

/// A new organisation, and the way in for its owner.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewOrganization)]
pub(crate) struct NewOrganizationView {
    #[serde(flatten)]
    organization: OrganizationView,
    /// To be passed on to the owner.
    invitation: NewInvitationView,
}

/// Make an organisation, and an invitation for its first owner
///
/// This is for whoever runs the server: it takes the token of its data folder. If the organisation is there, only the invitation is
/// made, so that an operator can let in an owner again.
#[utoipa::path(
    post, path = "/v1/orgs", tag = "organizations",
    request_body = CreateOrganization,
    responses((status = 201, body = NewOrganizationView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_organization(
    State(app): State<App>,
    operator: Operator,
    headers: HeaderMap,
    JsonBody(body): JsonBody<CreateOrganization>,
) -> Result<(StatusCode, Json<NewOrganizationView>), ApiError> {
    let id: OrgId = body.id.parse().map_err(|reason| ApiError::invalid("id", reason))?;
    let name = body.name.unwrap_or_else(|| id.to_string());
    let name: OrganizationName = name.parse().map_err(|reason| ApiError::invalid("name", reason))?;
    let email: Email = body.owner_email.parse().map_err(|reason| ApiError::invalid("ownerEmail", reason))?;
    let mut tx = app.store().write(&id).await?;
    let organization = match tx.organization().await? {
        Some(found) => found,
        None => {
            let made = tx.create_organization(&name).await.map_err(|error| match error {
                StoreError::Exists => ApiError::new(Code::Conflict, format!("there is an organisation {id} already")),
                other => other.into(),
            })?;
            tx.audit(&operator.who, Action::OrganizationCreated, id.as_str(), &json!({ "name": made.name })).await?;
            made
        }
    };
    let invitation = invite(&base_url(&app, &headers), &mut tx, &operator.who, &email, OrgRole::Owner).await?;
    tx.commit().await?;
    let organization = organization.into();
    Ok((StatusCode::CREATED, Json(NewOrganizationView { organization, invitation })))
}
