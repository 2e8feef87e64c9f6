//! Which node has the process of an MCP server. The node that needs one nobody has takes it; the others are led to it, over a way of their own
//! that carries the protocol's messages. Who cannot be reached by others takes none: it has processes of its own, unless another node has one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kitbag_mcp::connection::{Boxed, Hold, Wire};
use kitbag_mcp::manager::{Lease, Leases, NotLent, Place, Sought};
use kitbag_model::{OrgId, ServerKey};
use kitbag_store::{Fence, ServerClaim, StoreError};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::channel::{self, SEAL};
use super::remote::{Answer, address_of, node_of};
use super::{Nodes, forward};
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::servers::{Servers, StoreKeeper};

/// Leads to the connection of a server.
pub(crate) const LEND: &str = "/internal/nodes/server";
pub(crate) const RECONNECT: &str = "/internal/nodes/reconnect-server";
pub(crate) const RELEASE: &str = "/internal/nodes/release-server";
/// How the servers of an organisation are.
pub(crate) const SHOW: &str = "/internal/nodes/servers";

/// What is spoken on the way.
const PROTOCOL: HeaderValue = HeaderValue::from_static("kitbag-mcp");

/// How long is waited before it is looked again who has a server, the first time and at the most.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(1500);

/// So many look at once who has a server. When a node dies, all that it had are looked for.
const LOOKING: usize = 16;

/// How long the database may take to hear that a server is given back.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// How long another node may take to say how its servers are.
const SHOWING: Duration = Duration::from_secs(2);

/// Which server.
#[derive(Deserialize)]
pub(crate) struct Named {
    org: OrgId,
    server: ServerKey,
    #[serde(default)]
    mark: String,
    /// Whether it is to be started if it is not there.
    #[serde(default)]
    wanted: bool,
}

/// Whose servers.
#[derive(Deserialize)]
pub(crate) struct Whose {
    org: OrgId,
}

/// Finds the node that has a server.
pub(crate) struct ServerLeases {
    nodes: Nodes,
    keeper: Arc<StoreKeeper>,
    looking: Semaphore,
}

/// Where a server is, as far as is known.
enum Found {
    Place(Place),
    At(String),
    /// This node was thought dead, and is there again.
    Later,
}

/// What came of claiming a server.
enum Claimed {
    Held(Taken),
    Elsewhere(String),
    Dead,
}

/// A server that was claimed, for whoever wanted it. If nobody takes it, it is given back.
struct Taken(Option<Arc<HeldServer>>);

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            tokio::spawn(async move { held.give_back().await });
        }
    }
}

/// Why another node did not lead to a server.
enum NotLed {
    /// It does not have it, or cannot be reached: somebody else may have it soon.
    Again(&'static str),
    /// The server cannot be used there.
    Refused(String),
}

impl ServerLeases {
    pub(crate) fn new(nodes: Nodes, keeper: Arc<StoreKeeper>) -> Self {
        Self { nodes, keeper, looking: Semaphore::new(LOOKING) }
    }

    async fn look_for(&self, server: Sought<'_>, wanted: &AtomicBool) -> Result<Place, String> {
        let until = Instant::now() + self.nodes.patience();
        let mut pause = PAUSE;
        // Before anything is looked at: what is said meanwhile is heard.
        let mut news = self.nodes.0.peers.subscribe();
        loop {
            news.mark_unchanged();
            let wants = wanted.load(Ordering::SeqCst);
            let found = {
                let _turn = self.looking.acquire().await;
                self.find_once(server, wants).await
            };
            let why = match found {
                Ok(Found::Place(place)) => return Ok(place),
                Ok(Found::At(node)) => match self.lead(&node, server, wants).await {
                    Ok(wire) => return Ok(Place::There(wire)),
                    Err(NotLed::Refused(why)) => return Err(why),
                    Err(NotLed::Again(why)) => why.to_owned(),
                },
                Ok(Found::Later) => {
                    self.nodes.come_back().await;
                    "this server was thought dead a moment ago".to_owned()
                }
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                return Err(why);
            }
            // Who is there and who is not is news; that a node gave something back is not.
            tokio::select! {
                () = sleep(jittered(pause)) => pause = LONGEST_PAUSE.min(2 * pause),
                Ok(()) = news.changed() => pause = PAUSE,
            }
        }
    }

    async fn find_once(&self, server: Sought<'_>, wanted: bool) -> Result<Found, StoreError> {
        let nodes = &self.nodes;
        let Some(store) = &nodes.0.store else { return Ok(Found::Place(Place::Own)) };
        let (org, key, me) = (server.org, server.key, nodes.id());
        let successor = nodes.successor().filter(|_| nodes.0.draining.load(Ordering::SeqCst));
        if !wanted || !nodes.is_reached() || successor.is_some() {
            let holder = store.server_holder(org, key).await?.filter(|holder| **holder != *me);
            return Ok(match (holder, successor) {
                (Some(holder), _) => Found::At(holder),
                (None, _) if !wanted => Found::Place(Place::Nowhere),
                (None, Some(other)) => Found::At(other.id),
                (None, None) => Found::Place(Place::Own),
            });
        }
        nodes.join().await?;
        let (store, nodes, org, key) = (store.clone(), nodes.clone(), org.clone(), key.clone());
        // What is claimed is held also if nobody waits for it any more, and is given back then.
        let claiming = tokio::spawn(async move {
            Ok::<_, StoreError>(match store.claim_server(&org, &key, &me).await? {
                ServerClaim::Held(fence) => Claimed::Held(Taken(Some(Arc::new(HeldServer { nodes, org, key, fence })))),
                ServerClaim::Elsewhere(node) => Claimed::Elsewhere(node),
                ServerClaim::Dead => Claimed::Dead,
            })
        });
        Ok(match claiming.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))? {
            Claimed::Held(mut taken) => match taken.0.take() {
                Some(held) => Found::Place(Place::Here(held)),
                None => Found::Later,
            },
            Claimed::Elsewhere(node) => Found::At(node),
            Claimed::Dead => Found::Later,
        })
    }

    /// Asks a node to lead to a server.
    async fn lead(&self, node: &str, server: Sought<'_>, wanted: bool) -> Result<Wire, NotLed> {
        let nodes = &self.nodes;
        let Some(peer) = nodes.peer(node) else {
            // It is gone, or it came just now.
            let _ = nodes.look_around().await;
            return Err(NotLed::Again("the server that had it is gone"));
        };
        let Some(address) = peer.address else {
            return Err(NotLed::Again("the server that has it cannot be reached by others (--advertise)"));
        };
        let (key, wanted) = (server.key.to_string(), wanted.to_string());
        let named = [("org", server.org.as_str()), ("server", &*key), ("mark", server.mark), ("wanted", &*wanted)];
        let path = address_of(LEND, &named);
        let unled = |_| NotLed::Again("the server that has it cannot be asked");
        let vault = self.keeper.vault().await.map_err(|error| NotLed::Refused(error.to_string()))?;
        let seal = channel::seal(&vault, nodes, node, &Method::GET, &path, None);
        let seal = seal.map_err(|_| NotLed::Again("the server that has it cannot be asked"))?;
        let asking = nodes
            .client(node)
            .map_err(unled)?
            .get(format!("{address}{path}"))
            .header(SEAL, seal)
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, PROTOCOL)
            .headers(channel::trace())
            .send();
        let answered = tokio::select! {
            answered = asking => answered.map_err(unled)?,
            () = nodes.gone(node) => return Err(NotLed::Again("the server that had it is dead")),
            () = sleep(nodes.patience()) => return Err(NotLed::Again("the server that has it does not answer")),
        };
        match answered.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                let way = answered.upgrade().await.map_err(unled)?;
                let (nodes, node) = (nodes.clone(), node.to_owned());
                Ok(Box::new(Led { way, gone: Box::pin(async move { nodes.gone(&node).await }), is_gone: false }))
            }
            StatusCode::FAILED_DEPENDENCY => {
                Err(NotLed::Refused(answered.text().await.unwrap_or_else(|error| error.to_string())))
            }
            _ => Err(NotLed::Again("the server that has it is about to start or stop")),
        }
    }
}

/// Between half of a pause and all of it, so that not all who began to wait at one moment look at one moment.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0; 1];
    // If the system has no randomness to give, all of it is as good.
    let part = getrandom::fill(&mut byte).map_or(1.0, |()| 0.5 + f64::from(byte[0]) / 510.0);
    pause.mul_f64(part)
}

impl Leases for ServerLeases {
    fn shares(&self) -> bool {
        self.nodes.is_reached()
    }

    fn find<'a>(&'a self, server: Sought<'a>, wanted: &'a AtomicBool) -> Boxed<'a, Result<Place, String>> {
        Box::pin(self.look_for(server, wanted))
    }

    fn give_up<'a>(&'a self, org: &'a OrgId, key: &'a ServerKey) -> Boxed<'a, ()> {
        Box::pin(async move {
            let Some(store) = &self.nodes.0.store else { return };
            let me = self.nodes.id();
            if !matches!(timeout(GIVING_BACK, store.give_up_server(org, key, &me)).await, Ok(Ok(()))) {
                tracing::warn!(server = %key, "it could not be given back; it is free when this node is gone");
            }
        })
    }
}

/// A server that this node holds.
struct HeldServer {
    nodes: Nodes,
    org: OrgId,
    key: ServerKey,
    fence: Fence,
}

impl Hold for HeldServer {
    fn is_sure(&self) -> bool {
        self.nodes.is_alive_as(&self.fence.node)
    }

    fn sure(&self) -> Boxed<'_, ()> {
        Box::pin(self.nodes.alive_as(&self.fence.node))
    }
}

impl Lease for HeldServer {
    fn give_back(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            let Some(store) = &self.nodes.0.store else { return };
            let given = timeout(GIVING_BACK, store.give_back_server(&self.org, &self.key, &self.fence)).await;
            if !matches!(given, Ok(Ok(()))) {
                tracing::warn!(server = %self.key, "it could not be given back; it is free when this node is gone");
            }
        })
    }
}

impl Nodes {
    /// Whether other nodes reach this one.
    pub(super) fn is_reached(&self) -> bool {
        self.0.store.is_some() && self.0.settings.advertise.is_some()
    }

    /// Whether this node is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// Whether nobody can have said that this node is dead, while it was called this.
    fn is_alive_as(&self, id: &str) -> bool {
        Instant::now() < *self.0.alive_until.borrow() && *self.id() == *id
    }

    /// The same for whoever may be the only node, or one of a database for one process alone.
    pub(crate) fn is_surely(&self, id: &str) -> bool {
        !self.are_several() || self.is_alive_as(id)
    }

    /// Waits until it is known whether this node is alive, and says whether it still is as what it was called.
    pub(crate) async fn is_alive_yet(&self, id: &str) -> bool {
        let mut alive = self.0.alive_until.subscribe();
        let _ = alive.wait_for(|until| Instant::now() < *until).await;
        *self.id() == *id
    }

    async fn alive_as(&self, id: &str) {
        let mut alive = self.0.alive_until.subscribe();
        // What is looked at is what the watch has locked: to look at it a second time would wait for whoever waits to change it.
        if alive.wait_for(|until| Instant::now() < *until && *self.id() == *id).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Another node that holds a server.
    pub(crate) async fn server_elsewhere(&self, org: &OrgId, key: &ServerKey) -> Result<Option<String>, StoreError> {
        let Some(store) = self.0.store.as_ref().filter(|_| self.has_peers()) else { return Ok(None) };
        let me = self.id();
        Ok(store.server_holder(org, key).await?.filter(|holder| **holder != *me))
    }

    /// The servers of an organisation that other nodes hold.
    pub(crate) async fn servers_elsewhere(&self, org: &OrgId) -> Result<Vec<(ServerKey, String)>, StoreError> {
        let Some(store) = self.0.store.as_ref().filter(|_| self.has_peers()) else { return Ok(Vec::new()) };
        let me = self.id();
        let mut all = store.server_holders(org).await?;
        all.retain(|(_, holder)| **holder != *me);
        Ok(all)
    }

    /// Forgets who held servers that are gone.
    pub(crate) async fn forget_servers(&self, org: &OrgId, there: &[String]) -> Result<(), StoreError> {
        match &self.0.store {
            Some(store) => store.forget_servers(org, there).await,
            None => Ok(()),
        }
    }

    /// Asks another node to do something about a server that it holds, and waits until it did.
    pub(crate) async fn ask_about(
        &self,
        servers: &Servers,
        node: &str,
        what: &str,
        org: &OrgId,
        key: &ServerKey,
    ) -> Answer {
        let named = [("org", org.as_str()), ("server", &*key.to_string())];
        self.asked(servers, node, address_of(what, &named)).await
    }

    /// How another node says that its servers are, as it wrote it.
    pub(crate) async fn ask_how(&self, servers: &Servers, node: &str, org: &OrgId) -> Option<String> {
        let asked = self.asked(servers, node, address_of(SHOW, &[("org", org.as_str())]));
        match timeout(SHOWING, asked).await {
            Ok(Answer::Done(said)) => Some(said),
            _ => None,
        }
    }
}

/// Leads another node to a server that this one has.
pub(crate) async fn lend_here(
    State(app): State<App>,
    Query(named): Query<Named>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let from = node_of(&request)?;
    let nodes = app.nodes().clone();
    if nodes.peer(&from).is_none() {
        // It came just now, or is dead, and then nobody hears what its calls bring.
        nodes.look_around().await?;
        if nodes.peer(&from).is_none() {
            return Err(ApiError::new(Code::Conflict, "this node was thought dead"));
        }
    }
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| ApiError::new(Code::BadRequest, "this is a way, and not a request"))?;
    let lent = match app.servers().lend(&named.org, &named.server, &named.mark, named.wanted).await {
        Ok(lent) => lent,
        Err(NotLent::Manager(error)) => return Ok((StatusCode::FAILED_DEPENDENCY, error.to_string()).into_response()),
        Err(error) => return Ok(forward::undone(ApiError::new(Code::Conflict, error.to_string()))),
    };
    tokio::spawn(async move {
        match upgrade.await {
            // What is left of what it asked is given up with it.
            Ok(way) => tokio::select! {
                () = lent.serve(Box::new(TokioIo::new(way))) => {}
                () = nodes.gone(&from) => tracing::debug!(from, "a node that was led to a server is dead"),
            },
            Err(error) => tracing::debug!(%error, "another node went away before it was led to a server"),
        }
    });
    let headers = [(header::CONNECTION, HeaderValue::from_static("Upgrade")), (header::UPGRADE, PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Connects a server anew that this node holds.
pub(crate) async fn reconnect_here(
    State(app): State<App>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Response, ApiError> {
    node_of(&request)?;
    let done = app.servers().reconnect_here(&named.org, &named.server).await;
    done.map_err(|error| ApiError::new(Code::McpServerNotConnected, error.to_string()))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Ends what this node has of a server, and waits until it has ended.
pub(crate) async fn release_here(
    State(app): State<App>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Response, ApiError> {
    node_of(&request)?;
    app.servers().manager(&named.org).release(&named.org, &named.server, Duration::ZERO).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// How the servers of an organisation are here.
pub(crate) async fn show_here(
    State(app): State<App>,
    Query(whose): Query<Whose>,
    request: Request,
) -> Result<String, ApiError> {
    node_of(&request)?;
    serde_json::to_string(&app.servers().shown_here(&whose.org)).map_err(ApiError::internal)
}

/// The way to another node, which ends when that node is dead: what it says from then on does not count.
struct Led {
    way: reqwest::Upgraded,
    gone: Boxed<'static, ()>,
    is_gone: bool,
}

impl Led {
    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        self.is_gone = self.is_gone || self.gone.as_mut().poll(context).is_ready();
        self.is_gone
    }
}

impl AsyncRead for Led {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.is_gone(context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.way).poll_read(context, buffer)
    }
}

impl AsyncWrite for Led {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        if self.is_gone {
            return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.way).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.way).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.way).poll_shutdown(context)
    }
}
