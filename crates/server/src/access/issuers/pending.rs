//! A sign-in that has begun, carried by the browser that began it: sealed, for one issuer and one state, for ten minutes. Nothing of it is
//! kept here, so it may end at another server of the same installation.

use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_model::{Secret, SessionId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::access::session;
use crate::api::error::ApiError;
use crate::app::App;

/// How long somebody may take at the issuer.
const LIFETIME_SECONDS: u32 = 600;

/// What is carried.
#[derive(Deserialize, Serialize)]
pub(crate) struct Pending {
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// The address that the answer comes to, as the issuer was told.
    pub(crate) back: String,
    /// Where the person goes afterwards.
    pub(crate) return_to: String,
    /// The invitation that they came with.
    pub(crate) invitation: Option<String>,
    /// The person who links this issuer, and their session: the cookie that proves it does not come along from another site.
    pub(crate) link: Option<(String, String)>,
    until: String,
}

impl Pending {
    pub(crate) fn new(
        (nonce, verifier): (&Secret, &Secret),
        back: String,
        return_to: String,
        invitation: Option<String>,
        link: Option<(UserId, SessionId)>,
    ) -> Self {
        Self {
            nonce: nonce.expose().to_owned(),
            verifier: verifier.expose().to_owned(),
            back,
            return_to,
            invitation,
            link: link.map(|(user, session)| (user.to_string(), session.to_string())),
            until: Timestamp::now().plus_seconds(LIFETIME_SECONDS).to_string(),
        }
    }

    /// The cookie for the browser.
    pub(crate) async fn sealed(&self, app: &App, issuer: &str, state: &Secret) -> Result<HeaderValue, ApiError> {
        let plain = serde_json::to_vec(self).map_err(ApiError::internal)?;
        let vault = app.servers().vault().await.map_err(ApiError::internal)?;
        let value = URL_SAFE_NO_PAD.encode(vault.seal(&["sign-in", issuer, state.expose()], &plain));
        cookie(app, issuer, state.expose(), &value, LIFETIME_SECONDS)
    }

    /// What the cookie of a browser carries; none if it is not one of ours for this issuer and state, or its time is up.
    pub(crate) async fn opened(app: &App, issuer: &str, state: &str, value: &str) -> Option<Self> {
        let sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let vault = app.servers().vault().await.ok()?;
        let plain = vault.unseal(&["sign-in", issuer, state], &sealed).ok()?;
        let read: Self = serde_json::from_slice(&plain).ok()?;
        // Both are written in one width.
        (Timestamp::now().to_string() < read.until).then_some(read)
    }
}

/// The cookie that ends the other.
pub(crate) fn over(app: &App, issuer: &str, state: &str) -> Result<HeaderValue, ApiError> {
    cookie(app, issuer, state, "", 0)
}

/// Every sign-in has a cookie of its own, so that two at a time do not get in each other's way. Cookies are shared by all ports of a host,
/// so the name has the port in it.
pub(crate) fn cookie_name(app: &App, state: &str) -> String {
    let hash = Secret::new(state).hash().to_string();
    format!("kitbag_issuer_{}_{}", app.settings().address.port(), hash.get(..16).unwrap_or_default())
}

/// `Lax`, since the answer comes from another site; it goes nowhere but there.
fn cookie(app: &App, issuer: &str, state: &str, value: &str, seconds: u32) -> Result<HeaderValue, ApiError> {
    let name = cookie_name(app, state);
    let place = format!("/sign-in/{issuer}/callback");
    session::short_cookie(app, &name, value, &place, "Lax", seconds)
}
