//! `GET /healthz`, `GET /readyz`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::error::{ApiError, Code, ErrorBody};
use crate::app::App;

/// A balancer asks every few seconds; an answer that takes longer is no.
const PATIENCE: Duration = Duration::from_secs(2);

/// How it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Is the process alive?
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Can it serve? Asks the database
#[utoipa::path(
    get, path = "/readyz", tag = "operations", security(()),
    responses((status = 200, body = Health), (status = 503, body = ErrorBody)),
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    if app.is_stopping() || app.is_draining() {
        return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
    }
    if app.nodes().is_coming_back() {
        let why = "another server took this one for dead; it ends what it had begun, and comes back";
        return Err(ApiError::new(Code::Unavailable, why));
    }
    match tokio::time::timeout(PATIENCE, app.store().ping()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ok" })),
        Ok(Err(cause)) => {
            tracing::warn!(%cause, "the database is not ready");
            Err(ApiError::new(Code::Unavailable, "the database does not answer as it should; the log has the cause"))
        }
        Err(_) => Err(ApiError::new(Code::Unavailable, "the database does not answer; try again")),
    }
}
