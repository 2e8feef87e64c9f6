//! What happens to every request on its way in and every answer on its way out, whatever the route.
//!
//! It is one layer of the router and not many: a router copies its layers for every request, each with all that is below it, so
//! that many small ones cost more than a call of a tool does.

mod headers;
mod large;
mod observe;
mod panic;

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower::ServiceExt;
use tower_http::compression::Compression;

use crate::api::error::ApiError;
use crate::app::App;
use crate::{nodes, stage};

pub(crate) use large::{drain, refusing};
pub(crate) use observe::Counted;
pub(crate) use panic::words;

/// The frame of a request, from the outside in.
pub(crate) async fn frame(State(app): State<App>, request: Request, next: Next) -> Response {
    // First: what is for the stage must not get as far as the API's own rules and headers.
    if let Some(label) = stage::label(&app, &request) {
        return Box::pin(staged(&app, &label, request)).await;
    }
    observe::observe(&app, request, |request| answer(&app, request, next)).await
}

/// What the stage answers, which may be another node's.
async fn staged(app: &App, label: &str, mut request: Request) -> Response {
    let (label, mark) = label.split_once('-').unwrap_or((label, ""));
    if app.nodes().are_several() && request.headers_mut().remove(nodes::SEAL).is_none() {
        match nodes::pass_to_stage(app, mark, request).await {
            nodes::Passed::Here(here, _) => request = here,
            nodes::Passed::Answered(response) => return response,
        }
    }
    stage::answer(app.stage(), label, request).await
}

async fn answer(app: &App, request: Request, next: Next) -> Response {
    let mut response = match request.headers().contains_key(header::ACCEPT_ENCODING) {
        true => Box::pin(compressed(app, request, next)).await,
        false => admitted(app, request, next).await,
    };
    headers::secure(&mut response);
    response
}

/// An answer as small as its client can read it.
async fn compressed(app: &App, request: Request, next: Next) -> Response {
    let mut next = Some(next);
    let service = tower::service_fn(|request| {
        let next = next.take();
        async move {
            Ok::<_, Infallible>(match next {
                Some(next) => admitted(app, request, next).await,
                None => ApiError::internal("a request was answered twice").into_response(),
            })
        }
    });
    match Compression::new(service).oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

/// What a request is answered that may come in, or why it may not.
async fn admitted(app: &App, request: Request, next: Next) -> Response {
    let answering = async move {
        app.hosts().check(request.uri(), request.headers())?;
        // Before it is passed on: what is too large would only be refused elsewhere.
        let request = large::refuse(app, request).await?;
        let (mut request, kept) = match app.nodes().are_several() {
            false => (request, nodes::Kept::default()),
            // Boxed: few servers share a database.
            true => match Box::pin(nodes::pass_on(app, request)).await {
                nodes::Passed::Here(request, kept) => (request, kept),
                nodes::Passed::Answered(response) => return Ok(response),
            },
        };
        DefaultBodyLimit::max(app.settings().max_body_bytes).apply(&mut request);
        Ok::<_, ApiError>(kept.told(next.run(request).await))
    };
    panic::caught(answering).await.unwrap_or_else(IntoResponse::into_response)
}
