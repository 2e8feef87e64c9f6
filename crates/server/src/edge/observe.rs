//! Gives each request an id, a deadline, a line in the log and a place in the metrics.

use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;
use uuid::Uuid;

use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::transfer::takes_files;

/// Whether a route waits for a tool, a server, or for what a toolset needs: those have deadlines of their own.
fn takes_its_time(method: &Method, route: &str) -> bool {
    if is_endpoint(route) {
        return true;
    }
    let route = route.strip_prefix("/v1/orgs/{org}").unwrap_or_default();
    let calls = ["/chats/{chat}/tool-calls", "/chats/{chat}/tool-calls/{callId}/decision"];
    let others = ["/chats/{chat}/tool-calls/{callId}/cancel", "/toolsets/{id}/prepare"];
    let servers = ["/mcp-servers/{serverKey}/reconnect", "/mcp-servers/{serverKey}/test"];
    let gallery = ["/toolsets/{id}/publish", "/toolset-gallery/{slug}/adopt"];
    *method == Method::POST && [&calls, &others, &servers, &gallery].iter().any(|routes| routes.contains(&route))
}

/// Whether a route is our own MCP endpoint. What is asked there has a line of its own in the log, and there is much of it.
fn is_endpoint(route: &str) -> bool {
    route.ends_with("/mcp") || ["/sse", "/messages"].contains(&route)
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    // Always our own: an id that a client chose could forge lines in the log.
    let id = Uuid::now_v7().to_string();
    let method = request.method().clone();
    // The query stays out of the log: it may hold the token.
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("(none)", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("request", id, %method, path);

    // A large file takes as long as it takes; whoever receives it sees to it that it gets on.
    let deadline = match takes_files(&method, &route) || takes_its_time(&method, &route) {
        true => Duration::MAX,
        false => app.settings().request_timeout,
    };
    let answer = tokio::time::timeout(deadline, next.run(request)).instrument(span.clone()).await;
    let mut response = answer.unwrap_or_else(|_| {
        let message = format!("the request took longer than {} seconds", deadline.as_secs());
        ApiError::new(Code::Timeout, message).into_response()
    });

    let seconds = began.elapsed().as_secs_f64();
    let ms = (seconds * 1e6).round() / 1e3;
    let status = response.status().as_u16();
    span.in_scope(|| match route.as_str() {
        "/healthz" | "/readyz" | "/metrics" => tracing::debug!(status, ms, "answered"),
        route if is_endpoint(route) && status < 400 => tracing::debug!(status, ms, "answered"),
        _ => tracing::info!(status, ms, "answered"),
    });
    // A method is any word a client likes; only known ones get a number of their own.
    let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    let counted = if known.contains(&method) { method.as_str() } else { "other" };
    let labels = [("method", counted.to_owned()), ("route", route), ("status", status.to_string())];
    metrics::counter!("kitbag_http_requests_total", &labels).increment(1);
    metrics::histogram!("kitbag_http_request_seconds", &labels[..2]).record(seconds);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
