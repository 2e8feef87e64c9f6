//! `GET /v1/session`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use kitbag_model::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use crate::access::caller::authenticate;
use crate::app::App;

/// Who asks, and whom.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// The organisation, as it stands in all other addresses.
    org: String,
    /// What this token or cookie may do: `use`, `manage`.
    scopes: Vec<&'static str>,
    /// The version of this Kitbag.
    version: &'static str,
}

/// Ask who one is: the organisation and the rights of this token or cookie
#[utoipa::path(
    get, path = "/v1/session", tag = "tokens",
    responses((status = 200, body = SessionView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_session(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
) -> Result<Json<SessionView>, ApiError> {
    let principal = authenticate(&app, &method, &headers).await?;
    let scopes = [Scope::Use, Scope::Manage].into_iter().filter(|scope| principal.scopes.contains(*scope));
    Ok(Json(SessionView {
        org: principal.org.to_string(),
        scopes: scopes.map(Scope::as_str).collect(),
        version: env!("CARGO_PKG_VERSION"),
    }))
}
