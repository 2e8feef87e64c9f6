//! `POST /v1/sign-out`

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::access::people::Person;
use crate::access::session::set_cookie;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::App;

/// End this session, here and in the browser
#[utoipa::path(
    post, path = "/v1/sign-out", tag = "people",
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn sign_out(State(app): State<App>, Person(person): Person) -> Result<Response, ApiError> {
    let mut tx = app.store().person(person.user).await?;
    tx.end_session(person.session).await?;
    tx.commit().await?;
    app.rights_changed();
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, set_cookie(&app, None)?)]).into_response())
}
