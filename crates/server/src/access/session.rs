//! The page's own cookie: the session of a person who signed in, or one that a browser gets in exchange for a token, on
//! `GET /?token=…` alone.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use kitbag_model::{PersonCookie, Secret, SessionCookie, Timestamp};

use super::caller::{Principal, Proven, prove, unauthorized};
use super::origin::only;
use super::people;
use crate::api::error::{ApiError, Code};
use crate::app::App;

/// A month; whoever has a password or the address that `kitbag serve` prints makes a new one at any time.
pub(super) const LIFETIME_SECONDS: u32 = 30 * 24 * 60 * 60;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Cookies are shared by all ports of a host, so the name has the port in it. `__Host-` has the browser refuse one that was set in the open or
/// by another host of the domain: nobody can give somebody a session of theirs.
fn cookie_name(app: &App) -> String {
    let prefix = if app.settings().is_public_https() { "__Host-" } else { "" };
    format!("{prefix}kitbag_{}", app.settings().address.port())
}

/// A cookie for a few minutes and one place.
pub(crate) fn short_cookie(
    app: &App,
    name: &str,
    value: &str,
    place: &str,
    same_site: &str,
    seconds: u32,
) -> Result<HeaderValue, ApiError> {
    let secure = if app.settings().is_public_https() { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={place}; HttpOnly; SameSite={same_site}; Max-Age={seconds}{secure}");
    let mut header = HeaderValue::from_str(&text).map_err(ApiError::internal)?;
    header.set_sensitive(true);
    Ok(header)
}

/// Swaps a token for a session. What to set as the cookie.
pub(crate) async fn open(app: &App, token: &str) -> Result<HeaderValue, ApiError> {
    let (token, kept) = prove(app, token).await?;
    app.token_used(&token.org, &kept, None);
    let cookie = SessionCookie::generate(token.org.clone());
    let mut tx = app.store().write(&token.org).await?;
    tx.create_session(&cookie, token.id, Timestamp::now().plus_seconds(LIFETIME_SECONDS)).await?;
    tx.commit().await?;
    set_cookie(app, Some(&cookie.to_secret()))
}

/// The cookie with this value, or the end of it.
pub(crate) fn set_cookie(app: &App, value: Option<&Secret>) -> Result<HeaderValue, ApiError> {
    let (text, seconds) = value.map_or(("", 0), |value| (value.expose(), LIFETIME_SECONDS));
    let secure = if app.settings().is_public_https() { "; Secure" } else { "" };
    let name = cookie_name(app);
    let text = format!("{name}={text}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let mut header = HeaderValue::from_str(&text).map_err(ApiError::internal)?;
    header.set_sensitive(true);
    Ok(header)
}

/// Proves the cookie of a request, if it has one.
pub(crate) async fn authenticate(app: &App, method: &Method, headers: &HeaderMap) -> Result<Option<Proven>, ApiError> {
    let Some(cookie) = find(headers, &cookie_name(app)) else { return Ok(None) };
    refuse_cross_site(method, headers)?;
    if let Some(cookie) = PersonCookie::parse(cookie) {
        return Ok(Some(Proven::Person(people::prove(app, &cookie).await?)));
    }
    let cookie = SessionCookie::parse(cookie).ok_or_else(unauthorized)?;
    let mut tx = app.store().read_beside(&cookie.org).await?;
    let session = tx.session(cookie.id).await?;
    let session =
        session.filter(|session| session.admits(&cookie.secret, Timestamp::now())).ok_or_else(unauthorized)?;
    // The session may outlive its token's end; it must not.
    let token = tx.token(session.token_id).await?;
    let alive = token.filter(|token| token.expires_at.is_none_or(|end| Timestamp::now() < end));
    let token = alive.ok_or_else(unauthorized)?;
    let mut principal = Principal::of_token(&cookie.org, &token);
    principal.who = format!("{} by session {}", principal.who, cookie.id);
    Ok(Some(Proven::Token(principal)))
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
