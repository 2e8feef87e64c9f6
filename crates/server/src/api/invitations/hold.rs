//! `POST /v1/invitations/hold`

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::InvitationText;
use serde::Deserialize;
use utoipa::ToSchema;

use super::read::open;
use crate::access::session;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// How long somebody may take until they are at the issuer.
const LIFETIME_SECONDS: u32 = 600;

/// Whoever was invited, and signs in at an issuer.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HoldInvitation {
    /// The text of the invitation.
    secret: String,
}

/// Have this browser hold an invitation while somebody signs in at an issuer
///
/// Then `/sign-in/{issuer}?join=1` accepts it. It is a cookie of ten minutes, so that the text stands in no address.
#[utoipa::path(
    post, path = "/v1/invitations/hold", tag = "people", security(()),
    request_body = HoldInvitation,
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn hold_invitation(
    State(app): State<App>,
    JsonBody(body): JsonBody<HoldInvitation>,
) -> Result<Response, ApiError> {
    open(&app, &body.secret).await?;
    let cookie = cookie(&app, &body.secret, LIFETIME_SECONDS)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// The invitation that a browser holds.
pub(crate) fn held(app: &App, headers: &HeaderMap) -> Option<String> {
    let text = session::find(headers, &name(app))?;
    InvitationText::parse(text).map(|_| text.to_owned())
}

/// The cookie that ends it.
pub(crate) fn over(app: &App) -> Result<HeaderValue, ApiError> {
    cookie(app, "", 0)
}

fn cookie(app: &App, value: &str, seconds: u32) -> Result<HeaderValue, ApiError> {
    session::short_cookie(app, &name(app), value, "/sign-in", "Strict", seconds)
}

/// Cookies are shared by all ports of a host, so the name has the port in it.
fn name(app: &App) -> String {
    format!("kitbag_join_{}", app.settings().address.port())
}
