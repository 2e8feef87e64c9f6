//! Nodes that do not hear the others any more, or not all of what they say, and find out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kitbag_testkit::cluster::APP;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::heard::Listener;
use crate::kit::{Installation, new_chat, nodes};

/// It comes long before this, or with whatever is told next, which is never.
const PATIENCE: Duration = Duration::from_secs(30);

/// A way to the database on which what is sent around can be kept back, without a word. All else goes on.
struct Way {
    folder: tempfile::TempDir,
    /// How often.
    silences: watch::Sender<u32>,
}

impl Way {
    fn to(socket: PathBuf) -> Arc<Self> {
        let way = Arc::new(Self { folder: tempfile::tempdir().unwrap(), silences: watch::Sender::new(0) });
        let listener = UnixListener::bind(way.folder.path().join(".s.PGSQL.5432")).unwrap();
        let silences = way.silences.clone();
        tokio::spawn(async move {
            while let Ok((inner, _)) = listener.accept().await {
                let outer = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(pass(inner, outer, silences.subscribe()));
            }
        });
        way
    }

    fn url(&self, url: &str) -> String {
        let (before, rest) = url.split_once('@').unwrap();
        let (_, name) = rest.split_once('/').unwrap();
        format!("{before}@{}/{name}", self.folder.path().to_str().unwrap().replace('/', "%2F"))
    }
}

/// One connection. If it listens, nothing passes any more after the next silence, and neither end is told.
async fn pass(mut inner: UnixStream, mut outer: UnixStream, mut silences: watch::Receiver<u32>) {
    let (came, mut listens) = (*silences.borrow(), false);
    let (mut asks, mut answers) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        if listens && *silences.borrow_and_update() > came {
            std::future::pending::<()>().await;
        }
        tokio::select! {
            asked = inner.read(&mut asks) => match asked {
                Ok(length @ 1..) => {
                    listens |= asks[..length].windows(6).any(|word| word == b"LISTEN");
                    outer.write_all(&asks[..length]).await.unwrap();
                }
                _ => return,
            },
            answered = outer.read(&mut answers) => match answered {
                Ok(length @ 1..) if inner.write_all(&answers[..length]).await.is_ok() => {}
                _ => return,
            },
            changed = silences.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

fn socket_of(url: &str) -> PathBuf {
    let host = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
    Path::new(&host.replace("%2F", "/")).join(".s.PGSQL.5432")
}

async fn heard_of(listener: &mut Listener, chat: &str) {
    let fits = |name: &str, data: &Value| name == "chat_changed" && data["chatId"] == *chat;
    timeout(PATIENCE, listener.until(fits)).await.expect("what happens is heard");
}

/// Waits until whoever listens is told that something was missed.
async fn told_of_a_gap(listener: &mut Listener) {
    let told = listener.until(|name, _| name == "lagged");
    timeout(PATIENCE, told).await.expect("it is told that something was missed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hears_nothing_any_more_finds_out_and_says_so() {
    let installation = Installation::new(2).await;
    let url = installation.database.url(APP);
    let way = Way::to(socket_of(url.expose()));
    let first = installation.start(0, &[]);
    let second = installation.start_on(1, &way.url(url.expose()), &[]);
    let mut listener = Listener::new(&second, &second.token).await;
    heard_of(&mut listener, &new_chat(&first).await).await;
    for _ in 0..2 {
        way.silences.send_modify(|times| *times += 1);
        new_chat(&first).await;
        told_of_a_gap(&mut listener).await;
        heard_of(&mut listener, &new_chat(&first).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_removed_before_it_was_read_is_told_to_be_missing() {
    let (installation, [first, second]) = nodes::<2>().await;
    let mut listener = Listener::new(&second, &second.token).await;
    heard_of(&mut listener, &new_chat(&first).await).await;
    // As if it were read a minute late.
    installation
        .database
        .change(
            "CREATE FUNCTION remove() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN DELETE FROM node_lines WHERE id = NEW.id; RETURN NULL; END $$;
             CREATE TRIGGER remove AFTER INSERT ON node_lines
             FOR EACH ROW WHEN (NEW.line LIKE '%chat_changed%') EXECUTE FUNCTION remove()",
        )
        .await;
    new_chat(&first).await;
    told_of_a_gap(&mut listener).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_told_is_told_to_be_missing_though_nothing_else_happens() {
    let (installation, [first, second]) = nodes::<2>().await;
    let mut listener = Listener::new(&second, &second.token).await;
    heard_of(&mut listener, &new_chat(&first).await).await;
    installation
        .database
        .change(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON node_lines
             FOR EACH ROW WHEN (NEW.line LIKE '%chat_changed%') EXECUTE FUNCTION refuse()",
        )
        .await;
    new_chat(&first).await;
    told_of_a_gap(&mut listener).await;
}
