//! `POST /v1/password`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Identity, Secret};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::access::client::ClientAddress;
use crate::access::people::{Person, password};
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// Another password.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChangePassword {
    /// The one until now. Who signs in at an issuer has none, and sends none.
    current: Option<String>,
    /// The one from now on.
    #[schema(min_length = 10, max_length = 512)]
    new: String,
}

/// Change your password, and end all your other sessions
#[utoipa::path(
    post, path = "/v1/password", tag = "people",
    request_body = ChangePassword,
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn change_password(
    State(app): State<App>,
    Person(signed_in): Person,
    client: ClientAddress,
    JsonBody(body): JsonBody<ChangePassword>,
) -> Result<StatusCode, ApiError> {
    let new = Secret::new(body.new);
    password::check("new", &new)?;
    let person = app.store().read_person(signed_in.user).await?.found().await?;
    let identity = Identity::of_email(&signed_in.email);
    if let Some(hash) = person.and_then(|person| person.password_hash) {
        app.tries().take(&identity, &client)?;
        if !password::matches(Secret::new(body.current.unwrap_or_default()), Some(hash)).await? {
            return Err(ApiError::new(Code::Forbidden, "current: it is not your password"));
        }
        app.tries().right(&identity, &client);
    }
    let hash = password::hash(new).await?;
    let known = app.store().whose(&identity).await?;
    let mut tx = app.store().person(signed_in.user).await?;
    tx.set_password(&hash).await?;
    if known.is_none() {
        tx.add_identity(&identity).await?;
    }
    tx.end_other_sessions(Some(signed_in.session)).await?;
    tx.commit().await?;
    app.rights_changed();
    Ok(StatusCode::NO_CONTENT)
}
