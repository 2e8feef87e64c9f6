//! The way from one node to another. What a node sends carries a seal, made with the installation's master key for this very node, method and
//! address, a moment ago; so nobody else can speak as a node, and what was overheard is good for nothing else.
//!
//! The answer carries one, too, for this very request: whoever else is at the address of a node that is gone cannot say what became of it.
//!
//! A request that is passed on keeps its own token or cookie, which is looked at again where it is answered: a node lends nobody any rights.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_vault::Vault;

use super::Nodes;
use crate::access::client::Peer;
use crate::api::error::{ApiError, Code};
use crate::app::App;

/// The seal.
pub(crate) const SEAL: HeaderName = HeaderName::from_static("x-kitbag-node");

/// The seal of an answer.
const ANSWERED: HeaderName = HeaderName::from_static("x-kitbag-answered");

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// So old a seal may be, by whichever clock is ahead.
const FRESH: Duration = Duration::from_secs(60);

/// So long who only asks whether a node is there waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Says that a request comes from another node, and so is not passed on again.
#[derive(Clone, Debug)]
pub(crate) struct FromNode(pub(crate) String);

/// What shows that an answer is a node's own.
#[derive(Clone, Debug)]
pub(super) struct Proof(HeaderValue);

impl Proof {
    pub(super) fn mark(self, headers: &mut HeaderMap) {
        headers.insert(ANSWERED, self.0);
    }
}

/// Whether the answer to a request with this seal is the node's that it was for.
pub(super) fn is_answered(vault: &Vault, seal: &HeaderValue, headers: &HeaderMap) -> bool {
    let shown = || {
        let sealed = URL_SAFE_NO_PAD.decode(headers.get(ANSWERED)?).ok()?;
        vault.unseal(&["node answer", seal.to_str().ok()?], &sealed).ok()
    };
    shown().is_some()
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// The seal of a request to `target`, which began with `client`.
pub(super) fn seal(
    vault: &Vault,
    nodes: &Nodes,
    target: &str,
    method: &Method,
    path: &str,
    client: Option<SocketAddr>,
) -> Result<HeaderValue, ApiError> {
    seal_from(vault, &nodes.id(), target, method, path, client)
}

/// The same, from whoever has the master key.
pub(super) fn seal_from(
    vault: &Vault,
    from: &str,
    target: &str,
    method: &Method,
    path: &str,
    client: Option<SocketAddr>,
) -> Result<HeaderValue, ApiError> {
    let client = client.map(|client| client.to_string()).unwrap_or_default();
    let plain = format!("{} {from} {client}", now());
    let sealed = vault.seal(&["node", target, method.as_str(), path], plain.as_bytes());
    HeaderValue::from_str(&URL_SAFE_NO_PAD.encode(sealed)).map_err(ApiError::internal)
}

/// Where in a trace the work of this moment is, as another node is told. None of it if nothing is traced.
pub(super) fn trace() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(context) = kitbag_trace::current() else { return headers };
    headers.extend(HeaderValue::try_from(context.traceparent()).ok().map(|value| (TRACEPARENT, value)));
    let state = context.tracestate().and_then(|state| HeaderValue::try_from(state).ok());
    headers.extend(state.map(|value| (TRACESTATE, value)));
    headers
}

/// Opens the seal of a request, which is then known to come from a node, for a client elsewhere.
pub(super) async fn open<B>(app: &App, request: &mut Request<B>) -> Result<(), ApiError> {
    let forged = || ApiError::new(Code::Forbidden, "only nodes of this installation may speak as one");
    let seal = request.headers_mut().remove(SEAL).ok_or_else(forged)?;
    let sealed = URL_SAFE_NO_PAD.decode(seal.as_bytes()).map_err(|_| forged())?;
    let vault = app.servers().vault().await.map_err(ApiError::internal)?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let opened = vault.unseal(&["node", &app.nodes().id(), request.method().as_str(), path], &sealed);
    let opened = opened.map_err(|error| {
        tracing::warn!(%error, "a request that says it comes from a node does not; have all nodes the same master key?");
        forged()
    })?;
    let text = std::str::from_utf8(&opened).map_err(|_| forged())?;
    let mut parts = text.splitn(3, ' ');
    let at: u128 = parts.next().and_then(|at| at.parse().ok()).ok_or_else(forged)?;
    let from = parts.next().ok_or_else(forged)?.to_owned();
    if at.abs_diff(now()) > FRESH.as_millis() {
        tracing::warn!(from, "a request of another node is too old; are the clocks of all machines right?");
        return Err(forged());
    }
    if let Some(client) = parts.next().and_then(|client| client.parse().ok()) {
        request.extensions_mut().insert(Peer(client));
    }
    let proof = vault.seal(&["node answer", seal.to_str().map_err(|_| forged())?], &[]);
    let proof = HeaderValue::from_str(&URL_SAFE_NO_PAD.encode(proof)).map_err(ApiError::internal)?;
    request.extensions_mut().insert(Proof(proof));
    request.extensions_mut().insert(FromNode(from));
    Ok(())
}
