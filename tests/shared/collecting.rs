//! Collecting what nobody needs, of a chat that goes from one server to another.

use std::time::Duration;

use kitbag_testkit::{Server, TestDatabase};
use serde_json::{Value, json};

use crate::kit::{Chat, installation, node};

/// Puts files into a state that is then taken back, so that nothing names what they have.
async fn leave(chat: &Chat<'_>, database: &TestDatabase, names: &[&str]) {
    for name in names {
        chat.put(name, format!("left in {name}")).await.expect(201);
    }
    database.change("UPDATE chats SET active_manifest_id = NULL").await;
    database.change("UPDATE messages SET manifest_id = NULL").await;
    database.change("DELETE FROM workspace_manifests").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_collected_is_brought_again_and_what_is_needed_stays() {
    let (database, bucket) = installation().await;
    let beside = database.beside();
    let (one, other) = (node(&database), node(&beside));
    let here = Chat::new(&one).await;
    let folder = bucket.open().folder(&format!("orgs/local/chats/{}", here.id));
    leave(&here.at(&other), &database, &["a.txt", "b.txt", "c.txt"]).await;
    assert_eq!(folder.list().await.unwrap().len(), 3);
    // The chat goes to the one, which has none of that in its folder.
    stop(other);
    let done = here.collect().await;
    assert_eq!(done["blobs"], 3, "{done}");
    assert_eq!(folder.list().await.unwrap().len(), 0);
    // Whoever writes the same again brings it again.
    for name in ["a.txt", "b.txt", "c.txt"] {
        here.put(name, format!("left in {name}")).await.expect(201);
    }
    assert_eq!(folder.list().await.unwrap().len(), 3);
    here.is_whole().await;
    // What is needed stays, again and again, whoever asks; a request at a server that does not hold the chat is passed on.
    let other = node(&beside);
    let there = here.at(&other);
    for _ in 0..3 {
        assert_eq!(there.collect().await["blobs"], 0);
        there.is_whole().await;
    }
    assert_eq!(there.text("c.txt").await, "left in c.txt");
}

/// What a folder was at when its chat went elsewhere may be gone when the chat comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_comes_back_to_a_folder_whose_state_was_collected() {
    let (database, bucket) = installation().await;
    let beside = database.beside();
    let (one, other) = (node(&database), node(&beside));
    let here = Chat::new(&one).await;
    let folder = bucket.open().folder(&format!("orgs/local/chats/{}", here.id));
    leave(&here.at(&other), &database, &["a.txt", "b.txt", "c.txt"]).await;
    stop(other);
    assert_eq!(here.collect().await["blobs"], 3);
    here.put("d.txt", "made meanwhile").await.expect(201);
    let id = here.id;
    stop(one);
    let other = node(&beside);
    let there = Chat { server: &other, id: id.clone() };
    // The first that it is asked for: nothing of its folder was looked at yet.
    assert_eq!(there.collect().await["blobs"], 0);
    assert_eq!(there.read("a.txt").await, Err(404), "nothing names it");
    // It wrote the same before, and remembers it; it must bring it again.
    put_again(&there).await;
    assert_eq!(there.text("d.txt").await, "made meanwhile");
    assert_eq!(folder.list().await.unwrap().len(), 4);
    is_at_a_third(&id, &database, other).await;
}

/// The same without a start in between, which a server that only slept does not need.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_comes_back_to_a_server_that_slept_while_its_state_was_collected() {
    let (database, _bucket) = installation().await;
    let beside = database.beside();
    let (one, other) = (node(&database), node(&beside));
    let here = Chat::new(&one).await;
    let there = here.at(&other);
    leave(&there, &database, &["a.txt", "b.txt", "c.txt"]).await;
    other.signal(rustix::process::Signal::STOP);
    assert_eq!(collected(&here).await["blobs"], 3);
    let id = here.id.clone();
    stop(one);
    other.signal(rustix::process::Signal::CONT);
    let there = Chat { server: &other, id: id.clone() };
    assert_eq!(collected(&there).await["blobs"], 0);
    put_again(&there).await;
    is_at_a_third(&id, &database, other).await;
}

/// Collects as soon as somebody may hold the chat.
async fn collected(chat: &Chat<'_>) -> Value {
    for _ in 0..600 {
        let answer = chat.server.post(&chat.path("workspace/gc"), &json!({ "graceSeconds": 0 })).await;
        if answer.status != 503 {
            return answer.expect(200);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody may hold the chat");
}

/// Puts the files of [`leave`].
async fn put_again(chat: &Chat<'_>) {
    for name in ["a.txt", "b.txt", "c.txt"] {
        chat.put(name, format!("left in {name}")).await.expect(201);
    }
}

/// A server without copies has what another one kept. Nobody looked after it before: that would mend it from the folder of who wrote it.
async fn is_at_a_third(id: &str, database: &TestDatabase, holder: Server) {
    let elsewhere = database.beside();
    let third = node(&elsewhere);
    stop(holder);
    let there = Chat { server: &third, id: id.to_owned() };
    for name in ["a.txt", "b.txt", "c.txt"] {
        assert_eq!(there.text(name).await, format!("left in {name}"));
    }
    there.is_whole().await;
}

/// Has a server stop in good order, so that another one may hold what it held.
fn stop(mut server: Server) {
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
}
