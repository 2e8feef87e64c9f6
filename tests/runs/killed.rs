//! A server that is killed between the end of a run and what follows from it.

use std::collections::BTreeMap;
use std::time::Duration;

use kitbag_model::ContentHash;
use kitbag_model::run::wire::{FileRef, FromExecutor};
use kitbag_testkit::cluster::{SUPERUSER, try_run};
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{Paired, ask, config, events, pair, serve, succeeded, until};

const CHATS: &str = "/v1/orgs/local/chats";

async fn read(server: &Server, chat: &str) -> String {
    let path = format!("{CHATS}/{chat}/workspace/files/notes.txt");
    server.request(Method::GET, &path).send().await.unwrap().text().await.unwrap()
}

async fn write(server: &Server, chat: &str, content: &str) {
    let path = format!("{CHATS}/{chat}/workspace/files/notes.txt");
    let status = Answer::of(server.request(Method::PUT, &path).body(content.to_owned())).await.status;
    assert!([200, 201].contains(&status.as_u16()));
}

/// Brings what a run left.
async fn left(
    server: &Server,
    paired: &Paired,
    id: kitbag_model::run::wire::AttemptId,
    content: &'static str,
) -> FromExecutor {
    let hash = ContentHash::of(content.as_bytes());
    let put = paired.request(server, Method::PUT, id, &format!("blobs/{hash}")).body(content);
    Answer::of(put).await.expect(204);
    let file = FileRef { sha256: hash, size: content.len() as u64, executable: false };
    let files = BTreeMap::from([("notes.txt".parse().unwrap(), file)]);
    FromExecutor::Result { id, outcome: succeeded("done"), files: Some(files) }
}

/// What became of a run's files, told in its events.
async fn warnings(server: &Server, run: kitbag_model::RunId) -> Vec<Value> {
    let all = events(server, run, "").await;
    all.into_iter().filter(|(_, name, _)| name == "log").map(|(.., data)| data["message"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_left_is_brought_in_though_the_server_was_killed_when_its_end_was_recorded() {
    let database = TestDatabase::postgres().await;
    let mut server = serve(&database);
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    write(&server, &chat, "beans").await;
    let paired = pair(&server, &json!({})).await;
    let mut executor = paired.connect(1, &[]).await;
    let body = json!({ "config": config("gateway.codex.v2"), "workspace": { "chatId": chat, "apply": true } });
    let run = ask(&server, &body).await;
    let id = executor.given().await.id;
    let result = left(&server, &paired, id, "peas").await;
    // Bringing it in takes long.
    database
        .change(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(25); RETURN NEW; END $$;
             CREATE TRIGGER slowly BEFORE INSERT ON workspace_manifests
             FOR EACH ROW WHEN (NEW.source = 'edit') EXECUTE FUNCTION slowly()",
        )
        .await;
    executor.say(&result).await;
    let mut superuser = database.connect(SUPERUSER).await;
    let brings = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while try_run(&mut superuser, brings).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("it is about to be brought in");
    server.signal(Signal::KILL);
    server.wait();
    drop(executor);
    database
        .change(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event = 'PgSleep';
             DROP TRIGGER slowly ON workspace_manifests",
        )
        .await;
    let server = serve(&database);
    assert_eq!(until(&server, run, "succeeded").await["output"], "done");
    assert_eq!(read(&server, &chat).await, "beans");
    let paired = paired.moved_to(&server);
    let mut executor = paired.connect(1, &[id]).await;
    executor.acknowledged(id).await;
    assert_eq!(read(&server, &chat).await, "peas");

    // However often it is told, also when the chat went on: nobody is told that something is in the way.
    write(&server, &chat, "carrots").await;
    executor.say(&result).await;
    executor.acknowledged(id).await;
    assert_eq!(read(&server, &chat).await, "carrots");
    assert_eq!(warnings(&server, run).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn that_it_could_not_be_brought_in_is_said_once() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    write(&server, &chat, "beans").await;
    let paired = pair(&server, &json!({})).await;
    let mut executor = paired.connect(1, &[]).await;
    let body = json!({ "config": config("gateway.codex.v2"), "workspace": { "chatId": chat, "apply": true } });
    let run = ask(&server, &body).await;
    let id = executor.given().await.id;
    let result = left(&server, &paired, id, "peas").await;
    write(&server, &chat, "carrots").await;
    for _ in 0..2 {
        executor.say(&result).await;
        executor.acknowledged(id).await;
    }
    assert_eq!(read(&server, &chat).await, "carrots");
    let told = warnings(&server, run).await;
    assert!(told.len() == 1 && told[0].as_str().unwrap().contains("changed while it ran"), "{told:?}");
}
