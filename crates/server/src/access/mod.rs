//! Who may enter: by which name and from which page ([`origin`]), with which token or cookie ([`caller`]), who is behind it
//! ([`people`], [`issuers`], [`client`]), and for how long ([`stay`]).

pub(crate) mod caller;
pub(crate) mod client;
pub mod embedded;
pub(crate) mod executor;
pub(crate) mod issuers;
pub(crate) mod noted;
pub(crate) mod origin;
pub(crate) mod people;
pub(crate) mod permissions;
pub(crate) mod session;
pub(crate) mod stay;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::api::error::ApiError;
use crate::app::App;

/// Refuses requests for another name than ours and from pages that are not ours, before anything else is looked at.
pub(crate) async fn check_host_and_origin(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    app.hosts().check(request.uri(), request.headers())?;
    Ok(next.run(request).await)
}
