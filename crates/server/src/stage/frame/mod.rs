//! Shows what a process of the chat serves: a proxy to a port of the chat's own network, for HTTP/1.1 and WebSockets.
//!
//! Bodies pass through in parts, both ways, however long they take. Which ports there are is known to the connector; this
//! room asks for one and says what came of it.

mod headers;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version, header};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Stage;
use super::grants::Grant;
use crate::fair::Share;

/// After so many seconds somebody who was one too many may try again: pages load in less.
const AGAIN: &str = "5";

/// How long a port may take to answer a knock.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may think before it begins to answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);

/// Held while something goes through: a place among the connections, and the grant, which lasts as long.
type Hold = Arc<(Share, Arc<Grant>)>;

pub(super) async fn answer(stage: &Stage, grant: &Arc<Grant>, port: u16, request: Request) -> Response<Body> {
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        return stage.plain(StatusCode::METHOD_NOT_ALLOWED, "This method is not passed on.");
    }
    let Some(share) = stage.place_for_a_frame(grant) else {
        let mut response = stage.plain(StatusCode::TOO_MANY_REQUESTS, "Too many frames are busy. Try again.");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(AGAIN));
        return response;
    };
    let hold: Hold = Arc::new((share, Arc::clone(grant)));
    let connecting = stage.connector().connect(&grant.org, grant.chat, port);
    let stream = match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return stage.plain(
                StatusCode::BAD_GATEWAY,
                &format!(
                    "Nothing listens on port {port} in this chat. If its server is just starting, reload; if it has \
                     ended, call the tool again."
                ),
            );
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, port, "a port of a chat cannot be reached");
            return stage.plain(StatusCode::BAD_GATEWAY, &format!("Port {port} of this chat cannot be reached."));
        }
        Err(_) => {
            return stage.plain(StatusCode::GATEWAY_TIMEOUT, &format!("Port {port} of this chat does not answer."));
        }
    };
    match timeout(HEAD_TIMEOUT, pass_on(stream, port, request, &hold)).await {
        Ok(Ok(mut response)) => {
            headers::of_answer(response.headers_mut(), port, stage.ancestors());
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                speak_websocket(response.headers_mut());
            }
            response
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, port, "a server in a chat gave no answer");
            let text = format!("The server on port {port} of this chat gave no answer that could be read: {error}.");
            stage.plain(StatusCode::BAD_GATEWAY, &text)
        }
        Err(_) => {
            let text =
                format!("The server on port {port} of this chat did not answer in {} s.", HEAD_TIMEOUT.as_secs());
            stage.plain(StatusCode::GATEWAY_TIMEOUT, &text)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("it switched to another protocol without being asked")]
    Switched,
}

async fn pass_on(stream: TcpStream, port: u16, mut request: Request, hold: &Hold) -> Result<Response<Body>, PassError> {
    let upgrade = wanted_upgrade(&mut request);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let held = Arc::clone(hold);
    tokio::spawn(async move {
        // It ends when the answer has been passed on, or either side goes away; whoever reads the answer is told.
        tokio::select! {
            ended = connection.with_upgrades() => if let Err(error) = ended {
                tracing::debug!(%error, "a connection to a port of a chat broke");
            },
            () = held.1.over() => {}
        }
        drop(held);
    });
    let (mut parts, body) = request.into_parts();
    parts.uri = parts.uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()));
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    headers::of_request(&mut parts.headers, port);
    if upgrade.is_some() {
        speak_websocket(&mut parts.headers);
    }
    let mut response = sender.send_request(Request::from_parts(parts, body)).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(Body::new));
    }
    let Some(down) = upgrade else { return Err(PassError::Switched) };
    let up = hyper::upgrade::on(&mut response);
    tokio::spawn(join(down, up, Arc::clone(hold)));
    Ok(response.map(|_| Body::empty()))
}

/// The other end of a request for a WebSocket. Other protocols are not offered on.
fn wanted_upgrade(request: &mut Request) -> Option<OnUpgrade> {
    let headers = request.headers();
    let websocket =
        headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let asked = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asked = asked.flat_map(|names| names.split(',')).any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    (websocket && asked).then(|| hyper::upgrade::on(request))
}

fn speak_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Passes on what both sides say until one of them is done.
async fn join(down: OnUpgrade, up: OnUpgrade, hold: Hold) {
    let joined = async {
        let (down, up) = tokio::try_join!(down, up).map_err(io::Error::other)?;
        tokio::io::copy_bidirectional(&mut TokioIo::new(down), &mut TokioIo::new(up)).await
    };
    tokio::select! {
        joined = joined => if let Err(error) = joined {
            tracing::debug!(%error, "a WebSocket of a frame ended early");
        },
        () = hold.1.over() => {}
    }
    drop(hold);
}
