//! The page at `/`. A token in the query is taken here alone: it is swapped for the cookie at once, so that it stays in
//! no history, no bookmark and no `Referer`.

pub(crate) mod oauth;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::access::caller::authenticate;
use crate::access::session;
use crate::api::error::{ApiError, Code};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;

/// What the page may do. Frames show the stage alone, so that what is in one cannot go elsewhere with what it was given.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

#[derive(Deserialize)]
pub(crate) struct IndexQuery {
    token: Option<String>,
}

pub(crate) async fn index(
    State(app): State<App>,
    method: Method,
    QueryOf(query): QueryOf<IndexQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(token) = query.token.filter(|_| method == Method::GET) {
        let cookie = session::open(&app, &token).await?;
        return Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response());
    }
    let policy = [(header::CONTENT_SECURITY_POLICY, format!("{POLICY}; frame-src {}", app.stage().frame_sources()))];
    Ok(match authenticate(&app, &Method::GET, &headers).await {
        Ok(_) => (policy, Html(include_str!("assets/index.html"))).into_response(),
        Err(_) => (StatusCode::UNAUTHORIZED, policy, Html(include_str!("assets/locked.html"))).into_response(),
    })
}

pub(crate) async fn asset(PathOf(file): PathOf<String>) -> Result<Response, ApiError> {
    let (kind, content) = match file.as_str() {
        "style.css" => ("text/css; charset=utf-8", include_str!("assets/style.css")),
        "chats.js" => ("text/javascript; charset=utf-8", include_str!("assets/chats.js")),
        "icon.svg" => ("image/svg+xml", include_str!("assets/icon.svg")),
        _ => return Err(ApiError::new(Code::NotFound, format!("the page has no file {file:?}"))),
    };
    Ok(([(header::CONTENT_TYPE, kind)], content).into_response())
}
