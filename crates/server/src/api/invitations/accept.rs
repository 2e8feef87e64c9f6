//! `POST /v1/invitations/accept`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::{Action, Email, Identity, Invitation, NewPerson, Person, PersonName, Secret, Timestamp, UserId};
use kitbag_store::{StoreError, WriteTx};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::read::{ended, open};
use crate::access::caller::{Proven, authenticate};
use crate::access::people::{let_in, password};
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::api::people::view::PersonView;
use crate::app::App;

/// Whoever accepts.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AcceptInvitation {
    /// The text of the invitation.
    secret: String,
    /// The password to sign in with from now on, for an address that is not known here.
    #[schema(min_length = 10, max_length = 512)]
    password: Option<String>,
    /// What to be called.
    #[schema(min_length = 1, max_length = 120)]
    display_name: Option<String>,
}

/// Accept an invitation
///
/// An address that is known here must be signed in. One that is not becomes known with the password that is sent along, and the answer
/// sets the cookie.
#[utoipa::path(
    post, path = "/v1/invitations/accept", tag = "people", security((), ("token" = [])),
    request_body = AcceptInvitation,
    responses((status = 200, body = PersonView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn accept_invitation(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    JsonBody(body): JsonBody<AcceptInvitation>,
) -> Result<Response, ApiError> {
    let (org, invitation) = open(&app, &body.secret).await?;
    let identity = Identity::of_email(&invitation.email);
    let known = app.store().whose(&identity).await?;
    let (person, mut tx, is_new) = match known {
        Some(user) => {
            let asks = match authenticate(&app, &method, &headers).await {
                Ok(Proven::Person(person)) => Some(person.user),
                _ => None,
            };
            if asks != Some(user) {
                let message = format!("{} is known here: sign in as that person, then accept", invitation.email);
                return Err(ApiError::new(Code::Unauthorized, message));
            }
            let mut tx = app.store().person(user).await?;
            let person = tx.found().await?.ok_or_else(ended)?;
            (person, tx.enter(&org).await?, false)
        }
        None => {
            let person = stranger(&invitation.email, body.password, body.display_name).await?;
            let mut tx = app.store().person(person.id).await?;
            tx.create(&person, std::slice::from_ref(&identity)).await.map_err(taken)?;
            let (id, email) = (person.id, person.email);
            let display_name = person.display_name.map(|name| name.to_string());
            let person = Person { id, email, display_name, password_hash: None, created_at: Timestamp::now() };
            (person, tx.enter(&org).await?, true)
        }
    };
    take_up(&mut tx, &person, &invitation).await?;
    tx.commit().await?;
    app.events().members_changed(&org, Some(person.id), "joined");
    let view = Json(PersonView::from(person.clone()));
    if !is_new {
        return Ok((StatusCode::OK, view).into_response());
    }
    let cookie = let_in(&app, person.id, &headers).await?;
    Ok((StatusCode::OK, [(header::SET_COOKIE, cookie)], view).into_response())
}

/// Makes somebody a member by an invitation of the organisation of `tx`.
pub(crate) async fn take_up(tx: &mut WriteTx, person: &Person, invitation: &Invitation) -> Result<(), ApiError> {
    // Whoever takes it away uses it: a second one who was as fast finds nothing to take, and nothing of theirs is kept.
    if !tx.delete_invitation(invitation.id).await? {
        return Err(ended());
    }
    let org = tx.org().clone();
    tx.add_member(person, invitation.role).await.map_err(|error| match error {
        StoreError::Exists => ApiError::new(Code::Conflict, format!("{} is a member of {org} already", person.email)),
        other => other.into(),
    })?;
    let details = json!({ "email": person.email.as_str(), "role": invitation.role.as_str() });
    let who = format!("{} (user {})", person.email, person.id);
    tx.audit(&who, Action::InvitationAccepted, &invitation.id.to_string(), &details).await?;
    tx.audit(&who, Action::MemberAdded, &person.id.to_string(), &details).await?;
    Ok(())
}

/// Somebody who was not known until now.
async fn stranger(
    email: &Email,
    password: Option<String>,
    display_name: Option<String>,
) -> Result<NewPerson, ApiError> {
    let password = password.map(Secret::new);
    let password = password.ok_or_else(|| ApiError::invalid("password", "is needed to sign in from now on"))?;
    password::check("password", &password)?;
    let display_name: Option<PersonName> =
        display_name.map(|name| name.parse().map_err(|reason| ApiError::invalid("displayName", reason))).transpose()?;
    let password_hash = Some(password::hash(password).await?);
    Ok(NewPerson { id: UserId::generate(), email: email.clone(), display_name, password_hash })
}

fn taken(error: StoreError) -> ApiError {
    match error {
        StoreError::Exists => {
            ApiError::new(Code::Conflict, "this address became known a moment ago: sign in, then accept")
        }
        other => other.into(),
    }
}
