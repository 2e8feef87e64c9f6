//! `GET /v1/sessions` and `DELETE /v1/sessions/{session}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::people::Person;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::api::list::List;
use crate::app::App;

/// A browser that somebody signed in with.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PersonSession)]
pub(crate) struct PersonSessionView {
    id: String,
    /// Whether it is the one that asks.
    current: bool,
    /// What the browser called itself.
    #[schema(required)]
    user_agent: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    /// Give or take a few minutes.
    #[schema(format = DateTime)]
    last_seen_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// List the browsers that you are signed in with, newest first
#[utoipa::path(
    get, path = "/v1/sessions", tag = "people",
    responses((status = 200, body = List<PersonSessionView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_sessions(
    State(app): State<App>,
    Person(person): Person,
) -> Result<Json<List<PersonSessionView>>, ApiError> {
    let sessions = app.store().read_person(person.user).await?.sessions().await?;
    let views = sessions.into_iter().map(|session| PersonSessionView {
        id: session.id.to_string(),
        current: session.id == person.session,
        user_agent: session.user_agent,
        created_at: session.created_at.to_string(),
        last_seen_at: session.last_seen_at.to_string(),
        expires_at: session.expires_at.to_string(),
    });
    Ok(Json(List::part("sessions", views.collect(), None)))
}

/// End one of your sessions at once, wherever that browser is
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "people",
    params(("session" = String, Path, description = "The session's id.")),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn end_session(
    State(app): State<App>,
    Person(person): Person,
    PathOf(session): PathOf<String>,
) -> Result<StatusCode, ApiError> {
    let not_found = || ApiError::not_found("session", &session);
    let id = session.parse().map_err(|_| not_found())?;
    let mut tx = app.store().person(person.user).await?;
    if !tx.end_session(id).await? {
        return Err(not_found());
    }
    tx.commit().await?;
    app.rights_changed();
    Ok(StatusCode::NO_CONTENT)
}
