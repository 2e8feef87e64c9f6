//! `GET /v1/session`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use kitbag_model::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use super::orgs::view::{MembershipView, memberships};
use super::people::view::PersonView;
use crate::access::caller::{Proven, authenticate};
use crate::app::App;

/// Who asks, and whom.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// The organisation of this token, as it stands in all other addresses. Null for a person, who may be a member of several.
    #[schema(required)]
    org: Option<String>,
    /// What this token may do: `use`, `manage`. Of a person each organisation says it.
    scopes: Vec<&'static str>,
    /// The person who signed in; null for a token.
    #[schema(required)]
    user: Option<PersonView>,
    /// Where that person is a member.
    organizations: Vec<MembershipView>,
    /// The version of this Kitbag.
    version: &'static str,
}

/// Ask who one is: the organisation and the rights of this token, or the person of this cookie
#[utoipa::path(
    get, path = "/v1/session", tag = "people",
    responses((status = 200, body = SessionView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_session(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
) -> Result<Json<SessionView>, ApiError> {
    let version = env!("CARGO_PKG_VERSION");
    Ok(Json(match authenticate(&app, &method, &headers).await? {
        Proven::Token(principal) => {
            let scopes = [Scope::Use, Scope::Manage].into_iter().filter(|scope| principal.scopes.contains(*scope));
            SessionView {
                org: Some(principal.org.to_string()),
                scopes: scopes.map(Scope::as_str).collect(),
                user: None,
                organizations: Vec::new(),
                version,
            }
        }
        Proven::Lent(lent) => SessionView {
            org: None,
            scopes: lent.scopes.iter().map(Scope::as_str).collect(),
            organizations: memberships(&app, lent.user).await?,
            user: None,
            version,
        },
        Proven::Person(person) => SessionView {
            org: None,
            scopes: Vec::new(),
            organizations: memberships(&app, person.user).await?,
            user: Some(person.into()),
            version,
        },
    }))
}
