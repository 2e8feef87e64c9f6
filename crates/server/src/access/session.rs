//! The page's own cookie: a session that a browser gets in exchange for a token, on `GET /?token=…` alone.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use kitbag_model::{Secret, SessionCookie, Timestamp};

use super::caller::{Principal, prove, unauthorized};
use super::origin::only;
use crate::api::error::{ApiError, Code};
use crate::app::App;

/// A month; the address that `kitbag serve` prints makes a new one at any time.
const LIFETIME_SECONDS: u32 = 30 * 24 * 60 * 60;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Cookies are shared by all ports of a host, so the name has the port in it.
fn cookie_name(app: &App) -> String {
    format!("kitbag_{}", app.settings().address.port())
}

/// Swaps a token for a session. What to set as the cookie.
pub(crate) async fn open(app: &App, token: &str) -> Result<HeaderValue, ApiError> {
    let (token, _) = prove(app, token).await?;
    let cookie = SessionCookie::generate(token.org.clone());
    let mut tx = app.store().write(&token.org).await?;
    tx.create_session(&cookie, token.id, Timestamp::now().plus_seconds(LIFETIME_SECONDS)).await?;
    tx.commit().await?;
    set_cookie(&cookie_name(app), &cookie.to_secret())
}

fn set_cookie(name: &str, value: &Secret) -> Result<HeaderValue, ApiError> {
    let text = format!("{name}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LIFETIME_SECONDS}", value.expose());
    let mut header = HeaderValue::from_str(&text).map_err(ApiError::internal)?;
    header.set_sensitive(true);
    Ok(header)
}

/// Proves the cookie of a request, if it has one.
pub(crate) async fn authenticate(
    app: &App,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Principal>, ApiError> {
    let Some(cookie) = find(headers, &cookie_name(app)) else { return Ok(None) };
    refuse_cross_site(method, headers)?;
    let cookie = SessionCookie::parse(cookie).ok_or_else(unauthorized)?;
    let mut tx = app.store().read_beside(&cookie.org).await?;
    let session = tx.session(cookie.id).await?;
    let session =
        session.filter(|session| session.admits(&cookie.secret, Timestamp::now())).ok_or_else(unauthorized)?;
    // The session may outlive its token's end; it must not.
    let token = tx.token(session.token_id).await?;
    let alive = token.is_some_and(|token| token.expires_at.is_none_or(|end| Timestamp::now() < end));
    if !alive {
        return Err(unauthorized());
    }
    let who = format!("token {} by session {}", session.token_id, cookie.id);
    Ok(Some(Principal { org: cookie.org, scopes: session.scopes, who }))
}

/// Browsers add the cookie by themselves. `SameSite` and `Origin` keep other sites out; this is for a browser that
/// sends neither, and for forms on another port of this host, which is the same site.
fn refuse_cross_site(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    let own = match headers.contains_key(&SITE) {
        true => only(headers, &SITE).is_some_and(|site| site == "same-origin" || (site == "none" && !changes)),
        false => !changes || headers.contains_key(header::ORIGIN),
    };
    if own {
        Ok(())
    } else {
        Err(ApiError::new(Code::Forbidden, "a cookie is taken from this server's own pages only"))
    }
}

/// The value of a cookie.
pub(crate) fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}
