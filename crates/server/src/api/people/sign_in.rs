//! `GET /v1/sign-in` and `POST /v1/sign-in`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use kitbag_identity::Issuer;
use kitbag_model::{Email, Identity, Secret};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::view::PersonView;
use crate::access::client::ClientAddress;
use crate::access::people::{are_here, let_in, password};
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// How one may sign in.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SignInWays)]
pub(crate) struct Ways {
    /// Whether people sign in here at all. If not, the server is one person's, who opens the address that it printed.
    people: bool,
    /// With an address and a password.
    password: bool,
    /// At these issuers: a link to `/sign-in/{id}` leads there.
    issuers: Vec<IssuerView>,
}

/// An issuer of OpenID Connect.
#[derive(Serialize, ToSchema)]
#[schema(as = Issuer)]
pub(crate) struct IssuerView {
    /// What stands in the address.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: String,
}

/// Somebody who says who they are.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Credentials)]
pub(crate) struct SignIn {
    /// The address.
    #[schema(min_length = 3, max_length = 254)]
    email: String,
    /// The password.
    password: String,
}

/// Ask how one may sign in
#[utoipa::path(
    get, path = "/v1/sign-in", tag = "people", security(()),
    responses((status = 200, body = Ways), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_sign_in(State(app): State<App>) -> Json<Ways> {
    let view = |issuer: &Issuer| {
        let settings = issuer.settings();
        IssuerView { id: settings.id.to_string(), name: settings.name.clone() }
    };
    let issuers = app.issuers().for_people().map(view).collect();
    Json(Ways { people: are_here(&app).await, password: true, issuers })
}

/// Sign in with a password; the answer sets the cookie
///
/// Whether an address is not known or a password is wrong is one answer. Each address has a few tries, and each client more, then
/// `RATE_LIMITED`.
#[utoipa::path(
    post, path = "/v1/sign-in", tag = "people", security(()),
    request_body = SignIn,
    responses((status = 200, body = PersonView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn sign_in(
    State(app): State<App>,
    client: ClientAddress,
    headers: HeaderMap,
    JsonBody(body): JsonBody<SignIn>,
) -> Result<Response, ApiError> {
    let email: Email = body.email.parse().map_err(|reason| ApiError::invalid("email", reason))?;
    let identity = Identity::of_email(&email);
    app.tries().take(&identity, &client)?;
    let person = match app.store().whose(&identity).await? {
        Some(user) => app.store().read_person(user).await?.found().await?,
        None => None,
    };
    let hash = person.as_ref().and_then(|person| person.password_hash.clone());
    let right = password::matches(Secret::new(body.password), hash).await?;
    let Some(person) = person.filter(|_| right) else {
        // It is of no organisation, so no audit has it.
        tracing::warn!(%email, "somebody was not let in");
        return Err(ApiError::new(Code::Unauthorized, "the address or the password is wrong"));
    };
    app.tries().right(&identity, &client);
    tracing::info!(user = %person.id, "somebody signed in");
    let cookie = let_in(&app, person.id, &headers).await?;
    Ok(([(header::SET_COOKIE, cookie)], Json(PersonView::from(person))).into_response())
}
