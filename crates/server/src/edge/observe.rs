//! Gives each request an id, a deadline, a line in the log and a place in the metrics.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use kitbag_trace::{Context, Kind, Span};
use metrics::{Counter, Histogram};
use tracing::Instrument;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::transfer::takes_files;

/// Whether a route waits for a tool, a server, or for what a toolset needs: those have deadlines of their own.
fn takes_its_time(method: &Method, route: &str) -> bool {
    // What one node asks another has the deadlines of what it is asked for, and the ways between them have none.
    if is_endpoint(route) || route.starts_with("/internal/nodes/") {
        return true;
    }
    let route = route.strip_prefix("/v1/orgs/{org}").unwrap_or_default();
    let calls = ["/chats/{chat}/tool-calls", "/chats/{chat}/tool-calls/{callId}/decision"];
    let others = ["/chats/{chat}/tool-calls/{callId}/cancel", "/toolsets/{id}/prepare"];
    let servers = ["/mcp-servers/{serverKey}/reconnect", "/mcp-servers/{serverKey}/test"];
    let gallery = ["/toolsets/{id}/publish", "/toolset-gallery/{slug}/adopt"];
    // A model is asked, and asked again if need be.
    let asks_a_model = route.starts_with("/toolsets/builder/sessions");
    let lists = [&calls, &others, &servers, &gallery];
    *method == Method::POST && (asks_a_model || lists.iter().any(|routes| routes.contains(&route)))
}

/// Whether a route is our own MCP endpoint. What is asked there has a line of its own in the log, and there is much of it.
fn is_endpoint(route: &str) -> bool {
    route.ends_with("/mcp") || ["/sse", "/messages"].contains(&route)
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Who asks for what, how, and what comes of it, with what is counted of it. It is looked up by words once for each kind.
type Kinds = HashMap<(&'static str, u16), (Counter, Histogram)>;

/// What is counted, by route.
#[derive(Default)]
pub(crate) struct Counted(Mutex<HashMap<String, Kinds>>);

impl Counted {
    fn count(&self, method: &'static str, route: &str, status: u16, seconds: f64) {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), Kinds::new());
        }
        let Some(kinds) = routes.get_mut(route) else { return };
        let (counter, histogram) = kinds.entry((method, status)).or_insert_with(|| {
            let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
            let counter = metrics::counter!("kitbag_http_requests_total", &labels);
            (counter, metrics::histogram!("kitbag_http_request_seconds", &labels[..2]))
        });
        counter.increment(1);
        histogram.record(seconds);
    }
}

/// A method is any word a client likes; only known ones get a number of their own.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// Begins a span for a request, where anything is traced. What only asks how the server is would fill any store of traces.
fn traced(headers: &HeaderMap, method: &Method, route: &str, id: &str) -> Span {
    if !kitbag_trace::is_on() || ["/healthz", "/readyz", "/metrics"].contains(&route) {
        return Span::none();
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let parent = text("traceparent").and_then(|parent| Context::parse(parent, text("tracestate")));
    let mut span = Span::of(parent, None, Kind::Server, || format!("{} {route}", known(method)));
    span.set("http.request.method", known(method));
    span.set("http.route", route);
    // The log has the same.
    span.set("kitbag.request.id", id);
    span
}

/// Has a request answered by `answer`.
pub(super) async fn observe<F>(app: &App, request: Request, answer: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let began = Instant::now();
    // Always our own: an id that a client chose could forge lines in the log.
    let mut id = [0; Hyphenated::LENGTH];
    let id: &str = Uuid::now_v7().as_hyphenated().encode_lower(&mut id);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("(none)", MatchedPath::as_str);
    // The query stays out of the log: it may hold the token.
    let span = tracing::info_span!("request", id, %method, path = request.uri().path());

    // A large file takes as long as it takes; whoever receives it sees to it that it gets on.
    let has_deadline = !takes_files(&method, route) && !takes_its_time(&method, route);
    let deadline = app.settings().request_timeout;
    let mut traced = traced(request.headers(), &method, route, id);
    let answering = pin!(answer(request).instrument(span.clone()));
    let answering = kitbag_trace::within(traced.context(), answering);
    let mut response = match has_deadline {
        true => tokio::time::timeout(deadline, answering).await.unwrap_or_else(|_| {
            let message = format!("the request took longer than {} seconds", deadline.as_secs());
            ApiError::new(Code::Timeout, message).into_response()
        }),
        false => answering.await,
    };

    let seconds = began.elapsed().as_secs_f64();
    let ms = (seconds * 1e6).round() / 1e3;
    let status = response.status().as_u16();
    traced.count("http.response.status_code", status.into());
    if status >= 500 {
        traced.fail("server_error");
    }
    drop(traced);
    span.in_scope(|| match route {
        "/healthz" | "/readyz" | "/metrics" => tracing::debug!(status, ms, "answered"),
        route if is_endpoint(route) && status < 400 => tracing::debug!(status, ms, "answered"),
        _ => tracing::info!(status, ms, "answered"),
    });
    app.counted().count(known(&method), route, status, seconds);
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
