//! `POST /v1/orgs/{org}/invitations`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kitbag_model::{Action, Email, InvitationText, NewInvitation, OrgRole, Timestamp};
use kitbag_store::WriteTx;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::view::InvitationView;
use crate::access::caller::MayManage;
use crate::access::issuers::base_url;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::api::members::view::RoleName;
use crate::app::App;

/// Two weeks.
const LIFETIME_SECONDS: u32 = 14 * 24 * 60 * 60;

/// Somebody to be let in.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateInvitation {
    /// Their address; they sign in with it.
    #[schema(min_length = 3, max_length = 254)]
    email: String,
    /// What they will be.
    #[schema(value_type = RoleName)]
    role: String,
}

/// A new invitation. Its text is shown this once.
#[derive(Serialize, ToSchema)]
#[schema(as = NewInvitation)]
pub(crate) struct NewInvitationView {
    #[serde(flatten)]
    invitation: InvitationView,
    /// What opens the door. It cannot be shown again.
    secret: String,
    /// A link for a browser, to be passed on.
    link: String,
}

/// Invite somebody; only an owner invites owners
#[utoipa::path(
    post, path = "/v1/orgs/{org}/invitations", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = CreateInvitation,
    responses((status = 201, body = NewInvitationView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_invitation(
    State(app): State<App>,
    caller: MayManage,
    headers: HeaderMap,
    JsonBody(body): JsonBody<CreateInvitation>,
) -> Result<(StatusCode, Json<NewInvitationView>), ApiError> {
    let email: Email = body.email.parse().map_err(|reason| ApiError::invalid("email", reason))?;
    let role: OrgRole = body.role.parse().map_err(|reason| ApiError::invalid("role", reason))?;
    if role == OrgRole::Owner && caller.role != OrgRole::Owner {
        return Err(ApiError::new(Code::Forbidden, "only an owner invites owners"));
    }
    let mut tx = app.store().write(&caller.org).await?;
    let made = invite(&base_url(&app, &headers), &mut tx, &caller.who, &email, role).await?;
    tx.commit().await?;
    app.events().members_changed(&caller.org, None, "invitations");
    Ok((StatusCode::CREATED, Json(made)))
}

/// Makes an invitation in the organisation of `tx`, with a link to where whoever asks has found us.
pub(crate) async fn invite(
    base: &str,
    tx: &mut WriteTx,
    who: &str,
    email: &Email,
    role: OrgRole,
) -> Result<NewInvitationView, ApiError> {
    let text = InvitationText::generate(tx.org().clone());
    let new = NewInvitation {
        id: text.id,
        email: email.clone(),
        role,
        hash: text.secret.hash(),
        invited_by: who.to_owned(),
        expires_at: Timestamp::now().plus_seconds(LIFETIME_SECONDS),
    };
    let made = tx.create_invitation(&new).await?;
    let details = json!({ "email": email.as_str(), "role": role.as_str() });
    tx.audit(who, Action::InvitationCreated, &text.id.to_string(), &details).await?;
    let secret = text.to_secret().expose().to_owned();
    // Behind the `#` it is sent to no server and stands in no log.
    let link = format!("{base}/join#{secret}");
    Ok(NewInvitationView { invitation: made.into(), secret, link })
}
