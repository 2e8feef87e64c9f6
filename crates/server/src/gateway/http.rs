//! The endpoints over HTTP.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_mcp::serve::{self, Events, Front, Heard, Reply, Visit};
use tokio_stream::StreamExt;

use super::door::{Guest, Named, Wishes, door};
use super::view::View;
use crate::access::stay::Stay;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::fair::Share;
use crate::nodes::{FromNode, pass_to};

/// In so many seconds there may be room again for a session, a stream or a request that waits: that often it is looked after those that nobody
/// uses.
const ROOM: &str = "60";

/// A message of a client.
pub(crate) async fn post(
    State(app): State<App>,
    named: Path<Named>,
    query: RawQuery,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let org = named.org.clone();
    let guest = Guest::new(&app, &parts, named).await?;
    let (owner, place) = (guest.owner(), parts.uri.path().to_owned());
    let Some(body) = incoming(&app, &owner, &parts, body).await? else { return Ok(no_json()) };
    let (mut parts, mut body) = (parts, body);
    if app.nodes().has_peers()
        && parts.extensions.get::<FromNode>().is_none()
        && let Some(node) = Box::pin(super::carried::node_of(&app, &guest.org, &body)).await
    {
        match Box::pin(pass_to(&app, parts, body, node)).await {
            Ok(response) => return Ok(response),
            Err(here) => {
                let (again, bytes) = here.into_parts();
                parts = again;
                body = axum::body::to_bytes(bytes, app.settings().max_body_bytes).await.unwrap_or_default();
            }
        }
    }
    let visit = Visit { owner: &owner, place: &place, headers: &parts.headers };
    let reply = app.gateway().front.post(&visit, &body, || served(&app, guest, &owner, &parts.headers, &query));
    Ok(answered(reply.await, || staying(&app, org, &parts)))
}

/// A client wants to hear what is said by itself.
pub(crate) async fn get(
    State(app): State<App>,
    named: Path<Named>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    of_session(&app, named, request, Front::get, Opens::Stream).await
}

/// A client ends its session.
pub(crate) async fn delete(
    State(app): State<App>,
    named: Path<Named>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    of_session(&app, named, request, Front::delete, Opens::Nothing).await
}

/// Whether a request may open a stream.
#[derive(Eq, PartialEq)]
enum Opens {
    Stream,
    Nothing,
}

/// Something about a session, without a message.
async fn of_session(
    app: &App,
    named: Path<Named>,
    request: Request<Body>,
    wanted: fn(&Front, &Visit<'_>) -> Reply,
    opens: Opens,
) -> Result<Response, ApiError> {
    let (parts, _) = request.into_parts();
    let org = named.org.clone();
    let guest = Guest::new(app, &parts, named).await?;
    let owner = guest.owner();
    let share = (opens == Opens::Stream).then(|| app.fair().streams.take(&guest.org, &guest.who)).transpose()?;
    let visit = Visit { owner: &owner, place: parts.uri.path(), headers: &parts.headers };
    Ok(answered(wanted(&app.gateway().front, &visit), || Held { share, ..staying(app, org, &parts) }))
}

/// A client of the older way opens its stream.
pub(crate) async fn open_sse(
    State(app): State<App>,
    named: Path<Named>,
    query: RawQuery,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let (parts, _) = request.into_parts();
    let org = named.org.clone();
    let guest = Guest::new(&app, &parts, named).await?;
    let owner = guest.owner();
    let share = app.fair().streams.take(&guest.org, &guest.who)?;
    let visit = Visit { owner: &owner, place: parts.uri.path(), headers: &parts.headers };
    let reply =
        app.gateway().front.open_sse(&visit, "/messages", || served(&app, guest, &owner, &parts.headers, &query));
    Ok(answered(reply.await, || Held { share: Some(share), ..staying(&app, org, &parts) }))
}

/// A message of a client of the older way.
pub(crate) async fn message(
    State(app): State<App>,
    named: Path<Named>,
    query: RawQuery,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let guest = Guest::new(&app, &parts, named).await?;
    let owner = guest.owner();
    let Some(body) = incoming(&app, &owner, &parts, body).await? else { return Ok(no_json()) };
    let visit = Visit { owner: &owner, place: parts.uri.path(), headers: &parts.headers };
    let asked = query.0.unwrap_or_default();
    let line = url::form_urlencoded::parse(asked.as_bytes()).find(|(name, _)| name == serve::LINE);
    let line = line.map(|(_, line)| line.into_owned()).unwrap_or_default();
    Ok(plain(app.gateway().front.message(&visit, &line, &body)))
}

/// What a guest is served, with the wishes of its request.
async fn served(
    app: &App,
    guest: Guest,
    owner: &str,
    headers: &HeaderMap,
    query: &RawQuery,
) -> Result<Arc<dyn serve::Service>, serve::Fault> {
    let wishes = Wishes::read(app, headers, query)?;
    Ok(View::open(app, guest, owner.to_owned(), wishes).await?)
}

fn is_json(parts: &Parts) -> bool {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn no_json() -> Response {
    let fault = serve::Fault::new(-32000, "a message is `application/json`").with_status(415);
    plain(Reply::fault(None, fault))
}

/// The bytes of a message that may come in; none if it is not even said to be JSON.
async fn incoming(app: &App, owner: &str, parts: &Parts, body: Body) -> Result<Option<Bytes>, ApiError> {
    if !is_json(parts) {
        return Ok(None);
    }
    let most = app.settings().max_body_bytes;
    let body = axum::body::to_bytes(body, most)
        .await
        .map_err(|_| ApiError::new(Code::PayloadTooLarge, format!("a message has at most {most} bytes")))?;
    let rate = app.settings().mcp_rate;
    if !app.gateway().pace.allows(owner, rate) {
        let message = format!("more than {rate} requests a second; come back in a second");
        return Err(ApiError::new(Code::RateLimited, message));
    }
    Ok(Some(body))
}

/// What a stream has for as long as it is open.
#[derive(Default)]
struct Held {
    /// Whoever stays for what is said later.
    stay: Option<Stay>,
    /// Its place among the streams of its organisation. One that ends with the answer to a message has none.
    share: Option<Share>,
}

fn staying(app: &App, org: Option<String>, parts: &Parts) -> Held {
    Held { stay: Some(Stay::new(app, door(parts), org, parts)), share: None }
}

/// What goes back at once.
fn plain(reply: Reply) -> Response {
    answered(reply, Held::default)
}

/// What goes back. A stream ends when whoever reads it may no longer be here.
fn answered(reply: Reply, held: impl FnOnce() -> Held) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match reply.body {
        serve::Body::Empty => status.into_response(),
        serve::Body::Json(text) => {
            let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            (status, [json], text).into_response()
        }
        serve::Body::Events(events) => streamed(status, Stream::Events(events), held()),
        serve::Body::Line(heard) => streamed(status, Stream::Line(heard), held()),
    };
    if let Some(session) = reply.session.and_then(|session| HeaderValue::from_str(&session).ok()) {
        response.headers_mut().insert("mcp-session-id", session);
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(ROOM));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

/// What goes on and on.
enum Stream {
    Events(Events),
    Line(Heard),
}

impl Stream {
    async fn next(&mut self) -> Option<String> {
        match self {
            Self::Events(events) => events.next().await,
            Self::Line(heard) => heard.next().await,
        }
    }
}

fn streamed(status: StatusCode, stream: Stream, held: Held) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (status, headers, Body::from_stream(pieces(stream, held))).into_response()
}

fn pieces(mut stream: Stream, held: Held) -> impl tokio_stream::Stream<Item = Result<String, Infallible>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let Held { stay, share: _share } = held;
        let mut out = pin!(async move {
            match stay {
                Some(stay) => stay.over().await,
                None => std::future::pending().await,
            }
        });
        loop {
            let next = tokio::select! {
                biased;
                // Who hung up hears nothing any more, and who may no longer be here neither: it is looked at first, since what is taken
                // from the stream is taken from others who may listen.
                () = sender.closed() => return,
                () = &mut out => return,
                next = stream.next() => next,
            };
            match next {
                Some(piece) => {
                    let sent = tokio::select! {
                        sent = sender.send(piece) => sent,
                        // A reader that takes nothing must not be let stay by that.
                        () = &mut out => return,
                    };
                    if sent.is_err() {
                        return;
                    }
                }
                None => return,
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver).map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_too_much_open_is_told_when_to_come_back() {
        for (status, after) in [(429, Some(ROOM)), (404, None)] {
            let fault = serve::Fault::new(-32000, "there are 64 streams of this client already").with_status(status);
            let response = plain(Reply::fault(None, fault));
            let said = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            assert_eq!((response.status().as_u16(), said), (status, after));
        }
    }
}
