//! The page: one document for all its addresses, and the files that it is made of. A token in the query is taken on `/` alone: it is
//! swapped for the cookie at once, so that it stays in no history, no bookmark and no `Referer`.
//!
//! Where one person has the server to themselves, the document is for who is let in, and everybody else is told how to get in. Where people
//! sign in, everybody gets it: it holds nothing, and shows the form when the API does not know who asks. It could not be kept back
//! anyway, since a browser that follows a link from a mail or an issuer sends no `SameSite=Strict` cookie with that first request.

mod files;
pub(crate) mod oauth;
mod sign_in;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use crate::access::caller::authenticate;
use crate::access::{people, session};
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
const VIEWS: [&str; 12] = [
    "/chats",
    "/toolsets",
    "/gallery",
    "/servers",
    "/tools",
    "/runs",
    "/executors",
    "/files",
    "/settings",
    "/organization",
    "/you",
    "/o",
];

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
        .route("/sign-in", get(view_of))
        .route("/join", get(join))
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

/// Whoever was invited is nobody yet, and may be the first on this server.
async fn join(State(app): State<App>) -> Response {
    document(&app).await
}

/// The document, or how to get it.
async fn shell(app: &App, headers: &HeaderMap) -> Response {
    if authenticate(app, &Method::GET, headers).await.is_ok() || people::are_here(app).await {
        return document(app).await;
    }
    (StatusCode::UNAUTHORIZED, policy(app), Html(include_str!("assets/locked.html"))).into_response()
}

/// What it shows it asks the API for, with the cookie.
async fn document(app: &App) -> Response {
    match files::find(app, "index.html").await {
        Some(found) => (policy(app), Html(found.plain)).into_response(),
        None => (policy(app), Html(include_str!("assets/unbuilt.html"))).into_response(),
    }
}

fn policy(app: &App) -> [(HeaderName, String); 2] {
    [
        (header::CONTENT_SECURITY_POLICY, format!("{POLICY}; frame-src {}", app.stage().frame_sources())),
        // It names the files of this build.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ]
}
