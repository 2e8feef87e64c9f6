//! Where a browser goes to sign in to an MCP server, and where it comes back to.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use kitbag_mcp::auth::Callback;
use kitbag_model::{OrgId, Scope, ServerKey};
use serde::Deserialize;

use crate::access::caller::authenticate;
use crate::api::error::{ApiError, Code};
use crate::api::input::{PathOf, QueryOf};
use crate::api::mcp_servers::sign_in;
use crate::app::App;

/// It shows a few words and can do nothing.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// `GET /oauth/start/{org}/{serverKey}`: the link that a server which waits for a sign-in shows.
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    PathOf((org, key)): PathOf<(String, String)>,
) -> Result<Response, ApiError> {
    let not_found = || ApiError::not_found("MCP server", &key);
    let principal = authenticate(&app, &Method::GET, &headers).await?;
    if principal.org.as_str() != org {
        return Err(not_found());
    }
    if !principal.scopes.contains(Scope::Manage) {
        return Err(ApiError::new(Code::Forbidden, "this needs the scope \"manage\""));
    }
    let key: ServerKey = key.parse().map_err(|_| not_found())?;
    let started = sign_in::begin(&app, &principal.org, &key).await?;
    Ok(Redirect::to(started.authorize_url.as_str()).into_response())
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

/// `GET /oauth/callback/{org}`: no token and no cookie comes along; the state proves that it is the answer to our question.
pub(crate) async fn callback(
    State(app): State<App>,
    PathOf(org): PathOf<String>,
    QueryOf(answer): QueryOf<Answer>,
) -> Response {
    let Ok(org) = org.parse::<OrgId>() else { return shown(StatusCode::NOT_FOUND, "There is no such organisation.") };
    let Answer { state, code, iss, error, error_description } = answer;
    let callback = Callback { state, code, iss, error, error_description };
    match app.servers().authorizer().finish(&org, sign_in::PERSON, callback).await {
        Ok(finished) => {
            if let Err(error) = app.servers().reconnect(&org, &finished.server).await {
                tracing::warn!(%error, server = %finished.server, "signed in, and not connected");
            }
            shown(StatusCode::OK, &format!("Signed in to {}. You can close this tab.", finished.server))
        }
        Err(error) => shown(StatusCode::BAD_REQUEST, &format!("Signing in did not work: {error}")),
    }
}

fn shown(status: StatusCode, text: &str) -> Response {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '&' => "&amp;".to_owned(),
            '"' => "&quot;".to_owned(),
            c => c.to_string(),
        })
        .collect();
    let page = format!("<!doctype html><meta charset=\"utf-8\"><title>Kitbag</title><p>{escaped}</p>\n");
    (status, [(header::CONTENT_SECURITY_POLICY, POLICY)], Html(page)).into_response()
}
