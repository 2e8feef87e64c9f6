//! Where a browser goes to sign in to an MCP server, and where it comes back to.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use kitbag_mcp::auth::Callback;
use kitbag_model::{Action, OrgId, Scope, Secret, ServerKey};
use serde::Deserialize;
use serde_json::json;

use crate::access::caller::authenticate;
use crate::access::session;
use crate::api::error::{ApiError, Code};
use crate::api::input::{PathOf, QueryOf};
use crate::api::mcp_servers::sign_in;
use crate::app::App;
use crate::servers::begun::{LIFETIME, person};

/// It shows a few words and can do nothing.
pub(super) const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What a browser may bring to the start.
#[derive(Deserialize)]
pub(crate) struct Start {
    ticket: Option<String>,
}

/// `GET /oauth/start/{org}/{serverKey}`: the link that a server which waits for a sign-in shows. Whoever may manage begins a sign-in with
/// it; whoever has the ticket of one that has begun is the browser that it is for.
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    PathOf((org, key)): PathOf<(String, String)>,
    QueryOf(Start { ticket }): QueryOf<Start>,
) -> Result<Response, ApiError> {
    let not_found = || ApiError::not_found("MCP server", &key);
    let begun = ticket.and_then(|ticket| app.servers().tickets().take(&Secret::new(ticket)));
    if let Some(begun) = begun.filter(|begun| begun.org.as_str() == org && begun.key.to_string() == key) {
        let cookie = set_cookie(&app, &org, &begun.started.state, begun.value.expose(), LIFETIME.as_secs())?;
        let next = Redirect::to(begun.started.authorize_url.as_str());
        return Ok(([(header::SET_COOKIE, cookie)], next).into_response());
    }
    let principal = authenticate(&app, &Method::GET, &headers).await?.of(&app, &org).await.map_err(|_| not_found())?;
    if !principal.scopes.contains(Scope::Manage) {
        return Err(ApiError::new(Code::Forbidden, "this needs the scope \"manage\""));
    }
    let key: ServerKey = key.parse().map_err(|_| not_found())?;
    let begun = sign_in::begin(&app, &principal.org, &principal.who, &key).await?;
    Ok(Redirect::to(&sign_in::link(&app, begun)).into_response())
}

/// The cookie that binds a sign-in to a browser. Every sign-in has one of its own, so that two at a time do not get in each other's way.
/// `Lax`, since the answer comes from another site; it goes nowhere but there.
fn set_cookie(app: &App, org: &str, state: &str, value: &str, seconds: u64) -> Result<HeaderValue, ApiError> {
    let name = cookie_name(app, state);
    let text = format!("{name}={value}; Path=/oauth/callback/{org}; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    let mut header = HeaderValue::from_str(&text).map_err(ApiError::internal)?;
    header.set_sensitive(true);
    Ok(header)
}

/// Cookies are shared by all ports of a host, so the name has the port in it.
fn cookie_name(app: &App, state: &str) -> String {
    let hash = Secret::new(state).hash().to_string();
    format!("kitbag_sign_in_{}_{}", app.settings().address.port(), hash.get(..16).unwrap_or_default())
}

/// What an authorization server sends back.
#[derive(Deserialize)]
pub(crate) struct Answer {
    #[serde(default)]
    state: String,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// `GET /oauth/callback/{org}`: no token comes along. The state proves that it is the answer to our question, and the cookie that it came
/// to the browser that was sent to ask: nobody is signed in as somebody else by a link that they follow.
pub(crate) async fn callback(
    State(app): State<App>,
    headers: HeaderMap,
    PathOf(org): PathOf<String>,
    QueryOf(answer): QueryOf<Answer>,
) -> Response {
    let Ok(org) = org.parse::<OrgId>() else { return shown(StatusCode::NOT_FOUND, "There is no such organisation.") };
    let Answer { state, code, iss, error, error_description } = answer;
    let value = session::find(&headers, &cookie_name(&app, &state)).map(Secret::new);
    let over = set_cookie(&app, org.as_str(), &state, "", 0);
    let callback = Callback { state, code, iss, error, error_description };
    let who = value.as_ref().map(person).unwrap_or_default();
    let mut page = match app.servers().authorizer().finish(&org, &who, callback).await {
        Ok(finished) => {
            // No person comes along; who began is in a line of its own.
            let server = finished.server.to_string();
            if let Err(error) = app.note(&org, "server", Action::McpServerSignedIn, &server, &json!({})).await {
                tracing::error!(%error, %server, "signed in, and the audit has no line of it");
            }
            if let Err(error) = app.servers().reconnect(&org, &finished.server).await {
                tracing::warn!(%error, server = %finished.server, "signed in, and not connected");
            }
            shown(StatusCode::OK, &format!("Signed in to {}. You can close this tab.", finished.server))
        }
        Err(error) => shown(StatusCode::BAD_REQUEST, &format!("Signing in did not work: {error}")),
    };
    if let (Some(_), Ok(over)) = (value, over) {
        page.headers_mut().insert(header::SET_COOKIE, over);
    }
    page
}

/// A text as it may stand in markup.
pub(super) fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '&' => "&amp;".to_owned(),
            '"' => "&quot;".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

fn shown(status: StatusCode, text: &str) -> Response {
    let escaped = escaped(text);
    let page = format!("<!doctype html><meta charset=\"utf-8\"><title>Kitbag</title><p>{escaped}</p>\n");
    (status, [(header::CONTENT_SECURITY_POLICY, POLICY)], Html(page)).into_response()
}
