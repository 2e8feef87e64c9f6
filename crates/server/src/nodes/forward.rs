//! A request that only another node can answer is passed on to it, and its answer comes back as it is. It is passed on once: who gets it
//! from a node answers it.
//!
//! What needs a chat's holder is known by its address. If nobody holds the chat, this node does from now on; if its holder went away before
//! it heard anything of the request, it is waited for until somebody may hold the chat. A body that is too large to be kept in memory for that
//! is kept in a file.

use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kitbag_model::{ChatId, OrgId, RunId, Scope};
use tokio::time::{Instant, sleep};
use tokio_stream::{Stream, StreamExt};

use super::channel::{self, Proof, SEAL};
use super::remote::CANCEL;
use super::{HeldChat, Nodes, NotHeld};
use crate::access::caller::authenticate;
use crate::access::client::Peer;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::edge::drain;
use crate::ops::numbers;
use crate::transfer::{Staged, TransferError, stream_kept};

/// A body of so many bytes is kept in memory until it was heard, so that it can be sent again. A larger one is kept in a file.
const KEPT: usize = 1 << 20;

/// How long is waited before it is looked again who holds a chat.
const PAUSE: Duration = Duration::from_millis(100);

/// So long what a node said last may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Says that a node did nothing about a request: it is about to stop, or the request was for another that was at its address before.
pub(super) const UNDONE: HeaderName = HeaderName::from_static("x-kitbag-undone");

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Concern one connection alone.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Who must answer a request.
enum Wanted {
    /// The chat's holder, whoever that is from now on.
    Holder(OrgId, ChatId),
    /// The chat's holder, if there is one.
    HolderIfAny(OrgId, ChatId),
    /// This node, which has the session.
    Node(String),
}

/// What became of a request.
pub(crate) enum Passed {
    /// It is to be answered here. What comes with it is kept until it was.
    Here(Request, Kept),
    Answered(Response),
}

/// What is kept while a request is answered here.
#[derive(Default)]
pub(crate) struct Kept {
    /// It is not given back meanwhile.
    chat: Option<Arc<HeldChat>>,
    proof: Option<Proof>,
}

impl Kept {
    /// The answer as whoever asked is told it.
    pub(crate) fn told(self, mut answer: Response) -> Response {
        drop(self.chat);
        if let Some(proof) = self.proof {
            proof.mark(answer.headers_mut());
        }
        answer
    }
}

/// Has another node answer a request, if it must.
pub(crate) async fn pass_on(app: &App, mut request: Request) -> Passed {
    if request.headers().contains_key(SEAL) {
        return match channel::open(app, &mut request).await {
            // What runs here still can be ended.
            Ok(()) if app.is_draining() && request.uri().path() != CANCEL => {
                leave_undone(app, request, ApiError::new(Code::Unavailable, "the server is stopping; try again")).await
            }
            Ok(()) => take_over(app, request).await,
            Err(error) => Passed::Answered(undone(error)),
        };
    }
    if !app.nodes().has_peers() {
        return Passed::Here(request, Kept::default());
    }
    let Some(wanted) = wanted(app, &mut request).await else { return Passed::Here(request, Kept::default()) };
    let (parts, body) = request.into_parts();
    match Passing::new(app, parts, body).await {
        Ok(passing) => passing.to(wanted).await,
        Err(error) => Passed::Answered(error.into_response()),
    }
}

/// Says that nothing was done about what another node passed on. Its body is taken first: a node that is still sending would see that the
/// connection ends, and not the answer.
async fn leave_undone(app: &App, request: Request, why: ApiError) -> Passed {
    drain(request.into_body(), app.settings().max_upload_bytes).await;
    Passed::Answered(undone(why))
}

/// What another node passed on is answered here if this node has what that takes. It may have given back the chat meanwhile, or lost it: then
/// nothing was done, and the next holder is asked.
async fn take_over(app: &App, mut request: Request) -> Passed {
    let proof = request.extensions_mut().remove::<Proof>();
    let kept = |chat| Kept { chat, proof };
    let Some(Wanted::Holder(org, chat)) = wanted(app, &mut request).await else {
        return Passed::Here(request, kept(None));
    };
    match app.nodes().hold(&org, chat).await {
        Ok(held) => Passed::Here(request, kept(held)),
        Err(NotHeld::NoChat) => Passed::Here(request, kept(None)),
        Err(error @ NotHeld::Elsewhere(_)) => {
            leave_undone(app, request, ApiError::new(Code::Unavailable, format!("{error}; try again"))).await
        }
        Err(NotHeld::Store(error)) => Passed::Answered(ApiError::from(error).into_response()),
    }
}

/// Has one node answer a request whose body came whole. What comes back is to be answered here.
pub(crate) async fn pass_to(app: &App, parts: Parts, body: Bytes, node: String) -> Result<Response, Request> {
    let until = Instant::now() + 3 * app.nodes().0.settings.lease;
    let passing = Passing { app, parts, body: Sent::Whole(body), until };
    match passing.to(Wanted::Node(node)).await {
        Passed::Here(request, _) => Err(request),
        Passed::Answered(response) => Ok(response),
    }
}

/// The same for a request of the stage, by the mark in its label.
pub(crate) async fn pass_to_stage(app: &App, mark: &str, request: Request) -> Passed {
    let Some(node) = app.nodes().marked(mark) else { return Passed::Here(request, Kept::default()) };
    let (parts, body) = request.into_parts();
    match Passing::new(app, parts, body).await {
        Ok(passing) => passing.to(Wanted::Node(node)).await,
        Err(error) => Passed::Answered(error.into_response()),
    }
}

/// Says that nothing was done.
pub(super) fn undone(why: ApiError) -> Response {
    let mut response = why.into_response();
    response.headers_mut().insert(UNDONE, HeaderValue::from_static("1"));
    response
}

/// Who must answer a request. Before anything is looked up for it, whoever asks has shown who they are.
async fn wanted(app: &App, request: &mut Request) -> Option<Wanted> {
    let route = request.extensions().get::<MatchedPath>()?.as_str();
    if route.ends_with("/mcp") || route == "/messages" {
        return session_of(request).map(Wanted::Node);
    }
    if let Some(tail) = route.strip_prefix("/v1/orgs/{org}/agent-runs/{run}") {
        return if ["/apply", "/workspace"].contains(&tail) { of_run(app, request).await } else { None };
    }
    if route == "/v1/orgs/{org}/mcp-servers/{serverKey}" && *request.method() == Method::PUT {
        return of_server(app, request).await;
    }
    let tail = route.strip_prefix("/v1/orgs/{org}/chats/{chat}")?;
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if tail.is_empty() && request.method() != Method::DELETE {
        return None;
    }
    let if_any = looks && !tail.starts_with("/workspace");
    let mut parts = request.uri().path().split('/').skip(3);
    let (org, chat) = (parts.next()?.to_owned(), parts.nth(1)?.parse().ok()?);
    let org = shown(app, request, &org).await?;
    Some(if if_any { Wanted::HolderIfAny(org, chat) } else { Wanted::Holder(org, chat) })
}

/// What concerns the workspace that a run left is its chat's.
async fn of_run(app: &App, request: &mut Request) -> Option<Wanted> {
    let mut parts = request.uri().path().split('/').skip(3);
    let (org, run): (String, RunId) = (parts.next()?.to_owned(), parts.nth(1)?.parse().ok()?);
    let org = shown(app, request, &org).await?;
    let run = app.store().read_beside(&org).await.ok()?.run(run).await.ok()??;
    Some(Wanted::Holder(org, run.chat_id))
}

/// A server is changed where its process is: the folder that it keeps is there, and goes along when it gets another name.
async fn of_server(app: &App, request: &mut Request) -> Option<Wanted> {
    let mut parts = request.uri().path().split('/').skip(3);
    let (org, named) = (parts.next()?.to_owned(), parts.nth(1)?.to_owned());
    let org = shown(app, request, &org).await?;
    let held = app.nodes().servers_elsewhere(&org).await.ok()?;
    let mut fit = held.into_iter().filter(|(key, _)| key.to_string() == named || key.server.as_str() == named);
    match (fit.next(), fit.next()) {
        (Some((_, node)), None) => Some(Wanted::Node(node)),
        // Nobody has it, or it is not known which is meant; whoever answers says so.
        _ => None,
    }
}

/// The organisation of somebody who has shown that they may use it. The handler need not ask again.
async fn shown(app: &App, request: &mut Request, org: &str) -> Option<OrgId> {
    let proven = authenticate(app, request.method(), request.headers()).await.ok()?;
    let principal = proven.of(app, org).await.ok().filter(|who| who.scopes.contains(Scope::Use))?;
    let org = principal.org.clone();
    request.extensions_mut().insert(principal);
    Some(org)
}

/// The node that a session's name says has it.
fn session_of(request: &Request) -> Option<String> {
    let named = request.headers().get(SESSION).and_then(|name| name.to_str().ok());
    let asked = || request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    named.or_else(asked)?.split_once('.').map(|(_, node)| node.to_owned())
}

impl Nodes {
    /// The end of the name of a session that begins here.
    pub(crate) fn mark(&self) -> Option<String> {
        self.0.store.as_ref().map(|_| self.id().to_string())
    }

    /// The end of a label of the stage, which has few letters to spare.
    pub(crate) fn short_mark(&self) -> Option<String> {
        self.mark().map(|id| short(&id).to_owned())
    }

    /// The other node whose labels end like this.
    fn marked(&self, mark: &str) -> Option<String> {
        let me = self.id();
        let peers = self.peers();
        let found = peers.iter().find(|node| *node.id != *me && !node.is_dead && short(&node.id) == mark);
        found.map(|node| node.id.clone())
    }
}

/// The random end of an id.
fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or_default()
}

/// A request on its way.
struct Passing<'a> {
    app: &'a App,
    parts: Parts,
    body: Sent,
    until: Instant,
}

enum Sent {
    /// It can be sent again.
    Whole(Bytes),
    /// It did not come yet.
    Coming(Body),
    /// It came whole, and can be sent again from a file.
    Kept(Staged),
}

/// Why there is no answer.
enum Unanswered {
    /// Nobody heard of it.
    Unheard,
    /// Somebody may have.
    Heard,
}

impl<'a> Passing<'a> {
    async fn new(app: &'a App, parts: Parts, body: Body) -> Result<Self, ApiError> {
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let none = length.is_none() && !parts.headers.contains_key(header::TRANSFER_ENCODING);
        let body = match length {
            Some(length) if length <= KEPT => {
                let bytes = axum::body::to_bytes(body, KEPT).await;
                Sent::Whole(bytes.map_err(|_| ApiError::new(Code::BadRequest, "the body did not come whole"))?)
            }
            None if none => Sent::Whole(Bytes::new()),
            _ => Sent::Coming(body),
        };
        Ok(Self { app, parts, body, until: Instant::now() + 3 * app.nodes().0.settings.lease })
    }

    fn here(self, chat: Option<Arc<HeldChat>>) -> Passed {
        let body = match self.body {
            Sent::Whole(bytes) => Body::from(bytes),
            Sent::Coming(body) => body,
            Sent::Kept(staged) => match stream_kept(&staged) {
                Ok(body) => body,
                Err(error) => return Passed::Answered(ApiError::from(error).into_response()),
            },
        };
        Passed::Here(Request::from_parts(self.parts, body), Kept { chat, proof: None })
    }

    /// Waits until the body came, so that it can be sent to one node after the other.
    async fn receive(&mut self) -> Result<(), TransferError> {
        let Sent::Coming(body) = &mut self.body else { return Ok(()) };
        let body = std::mem::replace(body, Body::empty()).into_data_stream();
        let settings = self.app.settings();
        let staged = self.app.inbox().receive(body, settings.max_upload_bytes, settings.request_timeout, None).await?;
        self.body = Sent::Kept(staged);
        // That may have taken a while, and was not what is waited for.
        self.until = Instant::now() + self.app.nodes().patience();
        Ok(())
    }

    async fn to(mut self, wanted: Wanted) -> Passed {
        let nodes = self.app.nodes();
        loop {
            let target = match &wanted {
                Wanted::Node(node) if **node == *nodes.id() => return self.here(None),
                Wanted::Node(node) => node.clone(),
                Wanted::Holder(org, chat) => match nodes.hold(org, *chat).await {
                    Err(NotHeld::Elsewhere(node)) => node,
                    Ok(held) => return self.here(held),
                    Err(NotHeld::NoChat) => return self.here(None),
                    Err(NotHeld::Store(error)) => return Passed::Answered(ApiError::from(error).into_response()),
                },
                Wanted::HolderIfAny(org, chat) => match nodes.holder_elsewhere(org, *chat).await {
                    Ok(Some(node)) => node,
                    Ok(None) => return self.here(None),
                    Err(error) => return Passed::Answered(ApiError::from(error).into_response()),
                },
            };
            let Some(peer) = nodes.peer(&target) else {
                // It is gone, or it came just now.
                let found = nodes.look_around().await.is_ok() && nodes.peer(&target).is_some();
                match &wanted {
                    // Whoever has no session here is told so, and opens another.
                    Wanted::Node(_) if !found => return self.here(None),
                    _ if found => continue,
                    _ if Instant::now() > self.until => return Passed::Answered(unreachable()),
                    _ => sleep(PAUSE).await,
                }
                continue;
            };
            let Some(address) = peer.address else {
                tracing::warn!(node = target, "a node that others cannot reach (--advertise) works for this chat");
                return Passed::Answered(unreachable());
            };
            if let Err(error) = self.receive().await {
                return Passed::Answered(ApiError::from(error).into_response());
            }
            let asked = self.ask(&target, &address).await;
            let again = Instant::now() < self.until;
            match asked {
                Ok(response) if response.headers().contains_key(UNDONE) && again => {}
                Ok(response) => {
                    numbers::passed_on("answered", 1);
                    return Passed::Answered(response);
                }
                Err(Unanswered::Unheard) if again => {}
                Err(Unanswered::Heard) if again && self.parts.method.is_safe() => {}
                Err(_) => {
                    numbers::passed_on("unreachable", 1);
                    return Passed::Answered(unreachable());
                }
            }
            numbers::passed_on("tried_again", 1);
            sleep(PAUSE).await;
        }
    }

    /// Sends it to one node. A body that did not come yet is nothing that two may look at, hence `mut`.
    async fn ask(&mut self, target: &str, address: &str) -> Result<Response, Unanswered> {
        let path = self.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let client = self.parts.extensions.get::<Peer>().map(|peer| peer.0);
        let vault = self.app.servers().vault().await.map_err(|_| Unanswered::Unheard)?;
        let seal = channel::seal(&vault, self.app.nodes(), target, &self.parts.method, path, client);
        let seal = seal.map_err(|_| Unanswered::Unheard)?;
        let mut headers = self.parts.headers.clone();
        headers.remove(header::CONTENT_LENGTH);
        let upgrade = self.parts.extensions.get::<OnUpgrade>().cloned().filter(|_| wants_websocket(&headers));
        without_connection(&mut headers);
        headers.insert(SEAL, seal);
        // The hop is a part of the trace: what is done there belongs to what was asked here.
        headers.extend(channel::trace());
        if upgrade.is_some() {
            speak_websocket(&mut headers);
        }
        let request = self.app.nodes().client(target).map_err(|error| {
            tracing::error!(%error, "no other node can be asked");
            Unanswered::Unheard
        })?;
        let request = request.request(self.parts.method.clone(), format!("{address}{path}")).headers(headers);
        let request = match &self.body {
            Sent::Whole(bytes) if bytes.is_empty() => request,
            Sent::Whole(bytes) => request.body(bytes.clone()),
            Sent::Kept(staged) => {
                let body = stream_kept(staged).map_err(|error| {
                    tracing::error!(%error, "a request cannot be passed on");
                    Unanswered::Unheard
                })?;
                request.body(reqwest::Body::wrap_stream(body.into_data_stream()))
            }
            Sent::Coming(_) => return Err(Unanswered::Unheard),
        };
        let nodes = self.app.nodes();
        let response = tokio::select! {
            response = request.send() => response,
            // It may hang for ever, and is dead by now.
            () = nodes.gone(target) => return Err(Unanswered::Heard),
        };
        let response = response.map_err(|error| {
            tracing::warn!(%error, node = target, "a node could not be asked");
            if error.is_connect() { Unanswered::Unheard } else { Unanswered::Heard }
        })?;
        let (status, mut headers) = (response.status(), response.headers().clone());
        without_connection(&mut headers);
        if let (Some(down), StatusCode::SWITCHING_PROTOCOLS) = (upgrade, status) {
            speak_websocket(&mut headers);
            let lost = nodes.lost(target);
            tokio::spawn(async move {
                if let (Ok(down), Ok(mut up)) = (down.await, response.upgrade().await) {
                    let mut down = TokioIo::new(down);
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut down, &mut up) => {}
                        () = lost => {}
                    }
                }
            });
            let mut answer = Response::new(Body::empty());
            (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
            return Ok(answer);
        }
        let mut answer = Response::new(Body::from_stream(until_lost(response.bytes_stream(), nodes.lost(target))));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

impl Nodes {
    /// Waits until a node is dead or gone.
    pub(super) async fn gone(&self, id: &str) {
        let mut peers = self.0.peers.subscribe();
        let _ = peers.wait_for(|all| !all.iter().any(|node| node.id == id && !node.is_dead)).await;
    }

    /// Waits until nothing more comes from a node: it is dead, or it is gone and what it said last has arrived.
    fn lost(&self, id: &str) -> impl Future<Output = ()> + Send + 'static {
        let (nodes, id) = (self.clone(), id.to_owned());
        async move {
            nodes.gone(&id).await;
            sleep(LAST_WORDS).await;
        }
    }

    /// What asks another node. Their addresses are the operator's.
    pub(super) fn client(&self, node: &str) -> reqwest::Result<reqwest::Client> {
        // One that is about to stop closes connections at which nothing happens, and of a request that is sent in that very moment nobody
        // can say whether it was heard. A connection of its own is there for it, or refused.
        let is_stopping = self.peer(node).is_some_and(|peer| peer.draining);
        let (known, make): (_, fn() -> _) = match is_stopping {
            true => (&self.0.fresh_client, kitbag_guard::dial::fresh_peer_client),
            false => (&self.0.client, kitbag_guard::dial::peer_client),
        };
        if let Some(client) = known.get() {
            return Ok(client.clone());
        }
        let client = make()?;
        Ok(known.get_or_init(|| client).clone())
    }
}

/// What comes from a node until that is dead. A paused one closes nothing, and whoever reads would wait for as long as it sleeps; what ends
/// like this has not come whole, and that is told.
fn until_lost<E: Into<BoxError>>(
    parts: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    lost: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
    let begun = (Box::pin(parts), Box::pin(lost));
    futures_util::stream::unfold(begun, async |(mut parts, mut lost)| {
        let part = tokio::select! {
            biased;
            part = parts.next() => part?.map_err(Into::into),
            () = &mut lost => Err("the node that answered is dead".into()),
        };
        Some((part, (parts, lost)))
    })
}

/// What only one connection is concerned with stays on it.
fn without_connection(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

fn wants_websocket(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn speak_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

fn unreachable() -> Response {
    let message = "the server that works for this chat or session cannot be reached; try again";
    let mut response = ApiError::new(Code::Unavailable, message).retry_after(2).into_response();
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}
