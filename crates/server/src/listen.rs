//! Accepts connections until it is told to stop, then lets the running requests finish.

use std::future::{Future, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::Either;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::access::client::Peer;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::impatient::Impatient;
use crate::router::router;
use crate::unstirred::Unstirred;

/// More connections than this are told that they are too many.
const MOST_CONNECTIONS: u64 = 4096;

/// So many are told at a time; the rest waits in the kernel. Whoever asks how the server is gets an answer also then: a server that is full
/// is not one that hangs.
const CROWD: usize = 32;

/// How long one of those may take to say what it wants.
const CROWD_TIMEOUT: Duration = Duration::from_secs(5);

/// File descriptors that connections leave for everything else: databases, files, children.
const RESERVED: u64 = 128;

/// How long a client may leave an answer lying before its connection is cut.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to send a request's head. A client that dribbles it holds no connection for longer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// So often it is looked for workers that nobody has used for long, and for calls that were asked for when the database went away.
const TIDY: Duration = Duration::from_secs(10);

/// How long a call of an MCP server may keep its process from being another node's. Whoever calls it meanwhile waits.
const HANDING_OVER: Duration = Duration::from_secs(10);

/// After so many seconds there may be room for another connection.
const AGAIN: u32 = 5;

/// How long clients may take to hear the last answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until `stop` is done; then refuses new connections and waits at most `drain` for the running requests.
/// Whether all of them finished in time.
pub async fn serve(listener: TcpListener, app: App, stop: impl Future<Output = ()>, drain: Duration) -> bool {
    let workspaces = app.workspaces().clone();
    tokio::spawn(async move { workspaces.finish_deletions().await });
    let (workers, containers, calls) = (app.workers().clone(), app.containers().clone(), app.calls().clone());
    let tidying = tokio::spawn(async move {
        containers.look_for_open().await;
        loop {
            sleep(TIDY).await;
            workers.tidy().await;
            containers.end_idle().await;
            calls.settle_doubts().await;
        }
    });
    let (told, mut ended) = (app.clone(), app.workers().ended());
    let telling = tokio::spawn(async move {
        loop {
            match ended.recv().await {
                Ok((org, chat)) => told.calls().tell_processes(&org, chat).await,
                // Whoever was too slow for some of them hears of the next.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            }
        }
    });
    let servers = app.clone();
    tokio::spawn(async move { servers.start_servers().await });
    let keeper = app.clone();
    let retaining = tokio::spawn(async move { keeper.retain_for_ever().await });
    let shedder = app.clone();
    let shedding = tokio::spawn(async move { shedder.shed_for_ever().await });
    let runs = app.runs().clone();
    let leasing = tokio::spawn(async move { runs.look_after_leases().await });
    app.stage().open();
    let service = TowerToHyperService::new(router(app.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let (stopping, asked_to_stop) = watch::channel(());
    let mut crowded = http1::Builder::new();
    crowded.timer(TokioTimer::new()).header_read_timeout(CROWD_TIMEOUT).keep_alive(false);
    let permits = Permits { all: Arc::new(Semaphore::new(most_connections())), crowd: Arc::new(Semaphore::new(CROWD)) };
    let mut stop = pin!(async {
        stop.await;
        app.will_stop();
        app.nodes().drain(app.workers(), app.containers()).await;
        app.hand_over(drain.min(HANDING_OVER)).await;
        sleep(app.settings().nodes.linger).await;
    });
    let take = |(stream, peer, permit, is_crowded): Accepted| {
        let stream = TokioIo::new(Impatient::new(stream, STALL_TIMEOUT));
        // With upgrades: frames may have WebSockets.
        let service = service.clone();
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            if is_crowded && !asks_how_it_is(request.uri().path()) {
                return Either::Right(ready(Ok(too_many())));
            }
            request.extensions_mut().insert(Peer(peer));
            Either::Left(service.call(request))
        });
        let http = if is_crowded { &crowded } else { &http };
        let connection = http.serve_connection(stream, service).with_upgrades();
        let mut asked_to_stop = asked_to_stop.clone();
        tokio::spawn(async move {
            let mut connection = Unstirred::new(connection);
            let ended = tokio::select! {
                biased;
                ended = &mut connection => ended,
                _ = asked_to_stop.changed() => {
                    connection.inner().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            drop((permit, asked_to_stop));
        });
    };
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &permits) => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly too many open files: others will close some.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_secs(1)).await;
                    continue;
                }
            },
        };
        take(accepted);
    }
    // Who was let in by the kernel does not know that nobody looks any more, and may have sent all of a request.
    while let Some(Ok(accepted)) = accept(&listener, &permits).now_or_never() {
        take(accepted);
    }
    drop(listener);
    tidying.abort();
    retaining.abort();
    shedding.abort();
    leasing.abort();
    telling.abort();
    app.start_draining();
    drop(asked_to_stop);
    stopping.send_replace(());
    // Nobody new comes here for the chats that are at rest by now; others wait for them.
    app.nodes().drain(app.workers(), app.containers()).await;
    let in_time = timeout(drain, async {
        // It is closed when the last connection has let go of its end.
        stopping.closed().await;
        app.calls().close();
        app.calls().idle().await;
    });
    if in_time.await.is_ok() {
        return true;
    }
    // Those who wait for a call still hear how it ended.
    app.calls().interrupt().await;
    timeout(LAST_WORDS, stopping.closed()).await.is_ok()
}

/// How many connections there are at the same time.
pub(crate) fn most_connections() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = limit.map_or(MOST_CONNECTIONS, |limit| limit.saturating_sub(RESERVED).clamp(16, MOST_CONNECTIONS));
    usize::try_from(most).unwrap_or(16)
}

/// What is looked at from outside to see how the server is.
fn asks_how_it_is(path: &str) -> bool {
    ["/healthz", "/readyz", "/metrics"].contains(&path)
}

/// What is told to whoever comes when all connections are taken.
fn too_many() -> Response {
    let message = "there are too many connections to this server; try again";
    ApiError::new(Code::Unavailable, message).retry_after(AGAIN).into_response()
}

/// Places for connections.
struct Permits {
    all: Arc<Semaphore>,
    /// For those who are told that there are too many.
    crowd: Arc<Semaphore>,
}

/// A connection, whose it is, its place, and whether that is one of those who are too many.
type Accepted = (TcpStream, SocketAddr, OwnedSemaphorePermit, bool);

async fn accept(listener: &TcpListener, permits: &Permits) -> io::Result<Accepted> {
    let all = || Arc::clone(&permits.all);
    let (mut permit, mut is_crowded) = tokio::select! {
        biased;
        permit = all().acquire_owned() => (permit, false),
        permit = Arc::clone(&permits.crowd).acquire_owned() => (permit, true),
    };
    let (stream, peer) = listener.accept().await?;
    // It may have waited for somebody to come while others went.
    if is_crowded && let Ok(freed) = all().try_acquire_owned() {
        (permit, is_crowded) = (Ok(freed), false);
    }
    let permit = permit.map_err(io::Error::other)?;
    // Answers are small and whole; waiting to fill a packet only costs time.
    stream.set_nodelay(true)?;
    Ok((stream, peer, permit, is_crowded))
}
