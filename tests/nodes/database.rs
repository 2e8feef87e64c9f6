//! A database that goes away, or says nothing any more, and comes back.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use kitbag_testkit::cluster::{APP, SUPERUSER, try_run};
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::Method;
use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::kit::{
    BINARY, CHATS, Installation, ask_nobody, begin, calls, command, new_chat, output, over, until, until_there,
};
use crate::servers::{Notes, SERVERS, connected};

/// What is done with what is said on a way.
#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
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

    pub(crate) fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    pub(crate) fn mend(&self) {
        self.state.send_replace(State::Open);
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

/// Two nodes with a way to their database that can be cut, and a chat with a file at each.
struct Apart {
    installation: Installation,
    way: Arc<Way>,
    servers: [Server; 2],
    chats: [String; 2],
}

impl Apart {
    async fn new() -> Self {
        let installation = Installation::new(2).await;
        let url = installation.database.url(APP);
        let way = Way::to(socket_of(url.expose()));
        let servers = [0, 1].map(|node| installation.start_on(node, &way.url(url.expose()), &[]));
        ask_nobody(&servers[0]).await;
        let chats = [new_chat(&servers[0]).await, new_chat(&servers[1]).await];
        for (server, chat) in servers.iter().zip(&chats) {
            output(command(server, chat, "echo before >file").await);
        }
        Self { installation, way, servers, chats }
    }
}

pub(crate) async fn all_say_so(servers: &[Server]) {
    for server in servers {
        until("it is not ready", async || (server.get("/readyz").await.status == 503).then_some(())).await;
        let refused = server.get(CHATS).await;
        refused.expect_error(503, "UNAVAILABLE");
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    }
}

pub(crate) async fn all_are_ready(servers: &[Server]) {
    for server in servers {
        until("it is ready", async || (server.get("/readyz").await.status == 200).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_their_database_say_so_and_recover() {
    let Apart { installation, way, servers, chats } = Apart::new().await;
    let begun = begin(&servers[0], &chats[0], "touch begun; sleep 3; echo during >file").await;
    until_there(&installation.folder(0).join("chats").join(&chats[0]).join("workspace/begun")).await;

    // Longer than a node may be silent.
    way.state.send_replace(State::Cut);
    all_say_so(&servers).await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    way.state.send_replace(State::Open);
    all_are_ready(&servers).await;
    // Nobody was taken for dead, for all were away: what ran goes on to its end.
    let ended = over(&servers[1], &begun).await;
    assert_eq!(ended["status"], "success", "{ended}");
    for (server, chat) in servers.iter().rev().zip(&chats) {
        assert!(["during", "before"].contains(&&*output(command(server, chat, "cat file").await)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_database_says_nothing_say_so_and_recover() {
    let Apart { installation, way, servers, chats } = Apart::new().await;
    let begun = begin(&servers[0], &chats[0], "touch begun; sleep 0.5; echo during >file").await;
    until_there(&installation.folder(0).join("chats").join(&chats[0]).join("workspace/begun")).await;
    // Nothing is closed, and nothing comes back: longer than a connection is waited for, and than a node may be silent.
    way.state.send_replace(State::Silent);
    all_say_so(&servers).await;
    way.state.send_replace(State::Open);
    all_are_ready(&servers).await;
    for (server, chat) in servers.iter().rev().zip(&chats) {
        let file = until("the chat can be used", async || {
            let answer = command(server, chat, "cat file").await;
            (answer.status == 200).then_some(answer)
        });
        assert_eq!(output(file.await), if *chat == chats[0] { "during" } else { "before" });
        let path = format!("{CHATS}/{chat}/workspace/fsck");
        let checked = server.post(&path, &serde_json::json!({})).await.expect(200);
        assert_eq!(checked["problems"], serde_json::json!([]), "{checked}");
    }
    // What ran while nobody could be told of it was kept as soon as somebody could.
    assert_eq!(over(&servers[1], &begun).await["status"], "success");
    for server in &servers {
        assert!(!server.log().contains("took this one for dead"), "all were away: {}", server.log());
    }
}

/// Makes a call that waits for a file, which is to be made when the database is away. Its id, and what whoever made it hears.
pub(crate) async fn until_told(
    server: &Server,
    chat: &str,
    body: serde_json::Value,
) -> (String, tokio::task::JoinHandle<Answer>) {
    let request = server.request(Method::POST, &calls(chat)).json(&body);
    let waiting = tokio::spawn(Answer::of(request));
    let id = until("the call is there", async || {
        let all = server.get(&calls(chat)).await;
        let running = all.body["items"].as_array()?.iter().find(|call| call["status"] == "running")?.clone();
        Some(running["id"].as_str()?.to_owned())
    });
    (id.await, waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_the_database_was_away_for_longer_than_anybody_waits_is_recorded_when_it_is_back() {
    let Apart { installation, way, servers, chats } = Apart::new().await;
    let notes = Notes::new();
    let mut launch = notes.launch();
    launch["strictRecords"] = json!(true);
    servers[0].post(SERVERS, &launch).await.expect(201);
    connected(&servers[0]).await;
    let script = "until test -e go; do sleep 0.05; done; echo during >file";
    let body = json!({ "toolId": "run_command", "args": { "command": script } });
    let (in_workspace, hears_of_it) = until_told(&servers[0], &chats[0], body).await;
    let mark = notes.mark("mark");
    let body = json!({ "toolId": "mcp:keeps~keeps:wait", "args": { "seconds": 1.0, "mark": mark } });
    let (of_server, hears_of_that) = until_told(&servers[0], &chats[1], body).await;
    until_there(&mark).await;

    way.state.send_replace(State::Cut);
    all_say_so(&servers).await;
    std::fs::write(installation.folder(0).join("chats").join(&chats[0]).join("workspace/go"), "").unwrap();
    // Nobody waits for as long as that, and nobody is told that it failed.
    for waiting in [hears_of_it, hears_of_that] {
        waiting.await.unwrap().expect_error(503, "UNAVAILABLE");
    }
    way.state.send_replace(State::Open);
    all_are_ready(&servers).await;
    for (chat, id) in [(&chats[0], &in_workspace), (&chats[1], &of_server)] {
        let ended = over(&servers[1], &format!("{}/{id}", calls(chat))).await;
        assert_eq!(ended["status"], "success", "{ended}");
    }
    assert_eq!(output(command(&servers[1], &chats[0], "cat file").await), "during");
}

/// What is written in that moment was kept, or was not, and nobody is told which.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_asked_for_when_the_database_went_away_does_not_stay_running() {
    let Apart { installation, way, servers, chats } = Apart::new().await;
    // What is recorded of a call takes its time to be kept, and is kept whoever waits for that.
    installation
        .database
        .change(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON tool_calls DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION slowly()",
        )
        .await;
    let body = json!({ "toolId": "run_command", "args": { "command": "touch ran" } });
    let asking = tokio::spawn(Answer::of(servers[0].request(Method::POST, &calls(&chats[0])).json(&body)));
    let mut superuser = installation.database.connect(SUPERUSER).await;
    let kept = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND wait_event = 'PgSleep'";
    until("it is about to be kept", async || (try_run(&mut superuser, kept).await.unwrap() > 0).then_some(())).await;
    way.state.send_replace(State::Cut);
    asking.await.unwrap().expect_error(503, "UNAVAILABLE");
    until("it is kept", async || (try_run(&mut superuser, kept).await.unwrap() == 0).then_some(())).await;
    way.state.send_replace(State::Open);
    all_are_ready(&servers).await;
    let all = servers[1].get(&calls(&chats[0])).await.expect(200);
    let newest = all["items"].as_array().unwrap().iter().find(|call| call["args"]["command"] == "touch ran");
    let id = newest.unwrap_or_else(|| panic!("it was not kept: {all}"))["id"].as_str().unwrap();
    let ended = over(&servers[1], &format!("{}/{id}", calls(&chats[0]))).await;
    assert_eq!(ended["error"]["code"], "INTERRUPTED", "{ended}");
    let workspace = installation.folder(0).join("chats").join(&chats[0]).join("workspace");
    assert!(!workspace.join("ran").exists(), "nobody was told that it runs");
}

/// Another program that writes for long is all that can keep SQLite from a single server.
#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_sqlite_was_locked_is_recorded_when_it_is_free() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &["--node-lease-seconds", "2"]);
    ask_nobody(&server).await;
    let chat = new_chat(&server).await;
    let body = json!({ "toolId": "run_command", "args": { "command": "until test -e go; do sleep 0.05; done; echo it >file" } });
    let (id, waiting) = until_told(&server, &chat, body).await;
    let workspace = database.data().join("chats").join(&chat).join("workspace");
    until("the workspace is there", async || workspace.exists().then_some(())).await;
    let locked = database.locked().await;
    std::fs::write(workspace.join("go"), "").unwrap();
    waiting.await.unwrap().expect_error(503, "UNAVAILABLE");
    drop(locked);
    let ended = over(&server, &format!("{}/{id}", calls(&chat))).await;
    assert_eq!(ended["status"], "success", "{ended}");
    assert_eq!(output(command(&server, &chat, "cat file").await), "it");
}
