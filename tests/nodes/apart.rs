//! Nodes whose ways to their database can be cut, each by itself.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use kitbag_testkit::cluster::{APP, SUPERUSER, try_run};
use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::kit::{CHATS, Installation, ask_nobody, calls, command, new_chat, output, until};

/// What is done with what is said on a way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    Open,
    /// It stays where it is, and nobody is told.
    Silent,
    Cut,
}

/// A way to the database that can be cut.
pub(crate) struct Way {
    folder: tempfile::TempDir,
    state: watch::Sender<State>,
}

impl Way {
    pub(crate) fn to(socket: PathBuf) -> Arc<Self> {
        let way = Arc::new(Self { folder: tempfile::tempdir().unwrap(), state: watch::Sender::new(State::Open) });
        let listener = UnixListener::bind(way.folder.path().join(".s.PGSQL.5432")).unwrap();
        let state = way.state.clone();
        tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let (socket, mut state) = (socket.clone(), state.subscribe());
                tokio::spawn(async move {
                    if *state.borrow_and_update() == State::Cut {
                        return;
                    }
                    let mut outer = UnixStream::connect(&socket).await.unwrap();
                    let mut passing = pin!(tokio::io::copy_bidirectional(&mut inner, &mut outer));
                    loop {
                        let now = *state.borrow_and_update();
                        tokio::select! {
                            _ = &mut passing, if now == State::Open => return,
                            _ = state.changed(), if now != State::Cut => {}
                            else => return,
                        }
                    }
                });
            }
        });
        way
    }

    /// From now on.
    pub(crate) fn is(&self, state: State) {
        self.state.send_replace(state);
    }

    pub(crate) fn url(&self, url: &str) -> String {
        let (before, rest) = url.split_once('@').unwrap();
        let (_, name) = rest.split_once('/').unwrap();
        format!("{before}@{}/{name}", self.folder.path().to_str().unwrap().replace('/', "%2F"))
    }
}

pub(crate) fn socket_of(url: &str) -> PathBuf {
    let host = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
    Path::new(&host.replace("%2F", "/")).join(".s.PGSQL.5432")
}

/// Two nodes, each with a way to the database that can be cut, and a chat with a file at each.
pub(crate) struct Apart {
    pub(crate) installation: Installation,
    pub(crate) ways: [Arc<Way>; 2],
    pub(crate) servers: [Server; 2],
    pub(crate) chats: [String; 2],
}

impl Apart {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// The same with more arguments.
    pub(crate) async fn with(more: &[&str]) -> Self {
        let installation = Installation::in_bucket(2).await;
        let url = installation.database.url(APP);
        let ways = [0, 1].map(|_| Way::to(socket_of(url.expose())));
        let servers = [0, 1].map(|node| installation.start_on(node, &ways[node].url(url.expose()), more));
        ask_nobody(&servers[0]).await;
        let chats = [new_chat(&servers[0]).await, new_chat(&servers[1]).await];
        for (server, chat) in servers.iter().zip(&chats) {
            output(command(server, chat, "echo before >file").await);
        }
        Self { installation, ways, servers, chats }
    }

    /// The folder in which a node works for a chat.
    pub(crate) fn workspace(&self, node: usize, chat: &str) -> PathBuf {
        self.installation.folder(node).join("chats").join(chat).join("workspace")
    }
}

/// For all ways from now on.
pub(crate) fn all_are(ways: &[Arc<Way>], state: State) {
    ways.iter().for_each(|way| way.is(state));
}

/// Waits until servers say that they have no database.
pub(crate) async fn all_say_so(servers: &[Server]) {
    for server in servers {
        until("it is not ready", async || (server.get("/readyz").await.status == 503).then_some(())).await;
        come_again(&server.get(CHATS).await);
    }
}

pub(crate) async fn all_are_ready(servers: &[Server]) {
    for server in servers {
        until("it is ready", async || (server.get("/readyz").await.status == 200).then_some(())).await;
    }
}

/// Waits until so many nodes are there, and none is dead.
pub(crate) async fn are_there(installation: &Installation, nodes: u64) {
    let mut superuser = installation.database.connect(SUPERUSER).await;
    let (dead, there) =
        ("SELECT id FROM nodes WHERE dead", "SELECT id FROM nodes WHERE expires_at > clock_timestamp()");
    until(&format!("there are {nodes} nodes"), async || {
        let dead = try_run(&mut superuser, dead).await.unwrap();
        let there = try_run(&mut superuser, there).await.unwrap();
        (dead == 0 && there == nodes).then_some(())
    })
    .await;
}

/// Waits until a node knows that it was thought dead.
pub(crate) async fn knows(server: &Server) {
    until("it knows that it was thought dead", async || server.log().contains("took this one for dead").then_some(()))
        .await;
}

/// Whoever asked was told to come again, and when.
#[track_caller]
pub(crate) fn come_again(answer: &Answer) {
    answer.expect_error(503, "UNAVAILABLE");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

/// Makes a call that waits for a file, which is to be made when the database is away. Its id, and what whoever made it hears.
pub(crate) async fn until_told(server: &Server, chat: &str, body: Value) -> (String, tokio::task::JoinHandle<Answer>) {
    let request = server.request(Method::POST, &calls(chat)).json(&body);
    let waiting = tokio::spawn(Answer::of(request));
    let id = until("the call is there", async || {
        let all = server.get(&calls(chat)).await;
        let running = all.body["items"].as_array()?.iter().find(|call| call["status"] == "running")?.clone();
        Some(running["id"].as_str()?.to_owned())
    });
    (id.await, waiting)
}
