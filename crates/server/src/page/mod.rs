//! The page: one document for all its addresses, and the files that it is made of. A token in the query is taken on `/` alone: it is
//! swapped for the cookie at once, so that it stays in no history, no bookmark and no `Referer`.

mod files;
pub(crate) mod oauth;
mod sign_in;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use crate::access::caller::authenticate;
use crate::access::session;
use crate::api::error::ApiError;
use crate::api::input::QueryOf;
use crate::app::App;

pub use files::{PageFile, PageFiles};

/// What the page may do. Scripts and styles are its own files. Pictures may also be part of a result. Frames show the stage alone, so
/// that what is in one cannot go elsewhere with what it was given. Its one form goes to `/`, with a token.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
     form-action 'self'";

/// The addresses of the page, all of which can be linked to and loaded again.
const VIEWS: [&str; 6] = ["/chats", "/toolsets", "/servers", "/tools", "/files", "/settings"];

#[derive(Deserialize)]
pub(crate) struct IndexQuery {
    token: Option<String>,
}

pub(crate) fn routes() -> Router<App> {
    let mut router = Router::new().route("/", get(index)).route("/page/{*file}", get(files::asset));
    for view in VIEWS {
        router = router.route(view, get(view_of)).route(&format!("{view}/{{*rest}}"), get(view_of));
    }
    router
        .route("/oauth/start/{org}/{server}", get(oauth::start))
        .route("/oauth/callback/{org}", get(oauth::callback))
        .route("/sign-in/{issuer}", get(sign_in::begin))
        .route("/sign-in/{issuer}/callback", get(sign_in::callback))
}

async fn index(
    State(app): State<App>,
    method: Method,
    QueryOf(query): QueryOf<IndexQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(token) = query.token.filter(|_| method == Method::GET) {
        let cookie = session::open(&app, &token).await?;
        return Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response());
    }
    Ok(shell(&app, &headers).await)
}

async fn view_of(State(app): State<App>, headers: HeaderMap) -> Response {
    shell(&app, &headers).await
}

/// The document. What it shows it asks the API for, with the cookie.
async fn shell(app: &App, headers: &HeaderMap) -> Response {
    let policy = [
        (header::CONTENT_SECURITY_POLICY, format!("{POLICY}; frame-src {}", app.stage().frame_sources())),
        // It names the files of this build.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    if authenticate(app, &Method::GET, headers).await.is_err() {
        return (StatusCode::UNAUTHORIZED, policy, Html(include_str!("assets/locked.html"))).into_response();
    }
    match files::find(app, "index.html").await {
        Some(found) => (policy, Html(found.plain)).into_response(),
        None => (policy, Html(include_str!("assets/unbuilt.html"))).into_response(),
    }
}
