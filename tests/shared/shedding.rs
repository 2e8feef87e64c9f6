//! Workspaces that are laid out though nobody uses them go when they take too much, and come again.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use kitbag_testkit::{Server, TestDatabase};
use serde_json::json;

use crate::kit::{Chat, import, installation, node, program, start, stop, until};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A server that keeps no more laid out than so many bytes.
fn node_with_room(database: &TestDatabase, bytes: &str) -> Server {
    start(database, program(database).env("KITBAG_WORKSPACE_CACHE_BYTES", bytes))
}

/// What is laid out of a chat, hidden or not.
fn laid_out(database: &TestDatabase, chat: &str) -> (PathBuf, Vec<PathBuf>) {
    let folder = database.data().join("chats").join(chat).join("workspace");
    let paths = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    (folder.clone(), paths(&folder))
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_that_nobody_uses_are_cleared_and_laid_out_again() {
    let (database, _bucket) = installation().await;
    let server = node_with_room(&database, "1000000");
    import(&server).await;
    let (old, new) = (Chat::new(&server).await, Chat::new(&server).await);
    for chat in [&old, &new] {
        // Together more than there may be, each alone less than what is left then.
        chat.put("notes/large.bin", "x".repeat(600_000)).await.expect(201);
        chat.put(".kitbagignore", "built").await.expect(201);
    }
    let (old, new) = (old.id.clone(), new.id.clone());
    stop(server);
    // A server that stops writes down what it knows of all of them in the same moment.
    for mark in ["index", "origin"] {
        let path = database.data().join("chats").join(&old).join(mark);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(UNIX_EPOCH + DAY).unwrap();
    }
    // Somebody changes something by hand, and a program leaves what is in no state.
    let (folder, _) = laid_out(&database, &old);
    std::fs::write(folder.join("notes/by-hand.txt"), "kept").unwrap();
    std::fs::create_dir(folder.join("built")).unwrap();
    std::fs::write(folder.join("built/cache"), "x".repeat(1000)).unwrap();

    let server = node_with_room(&database, "1000000");
    until("the one that was used longest ago is cleared", async || {
        laid_out(&database, &old).1.is_empty().then_some(())
    })
    .await;
    assert_eq!(laid_out(&database, &new).1.len(), 2, "there is room for it");

    let chat = Chat { server: &server, id: old.clone() };
    assert_eq!(chat.text("notes/by-hand.txt").await, "kept");
    chat.call("app:write", json!({ "path": "notes/next.txt", "content": "next" })).await;
    let manifest = chat.manifest().await;
    let names: Vec<&str> = manifest["files"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, [".kitbagignore", "notes/by-hand.txt", "notes/large.bin", "notes/next.txt"]);
    assert_eq!(std::fs::metadata(folder.join("notes/large.bin")).unwrap().len(), 600_000, "it is laid out again");
    chat.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_holds_is_cleared_and_not_touched() {
    let (database, _bucket) = installation().await;
    let beside = database.beside();
    let server = node(&database);
    let chat = Chat::new(&server).await;
    chat.put("a.txt", "first").await.expect(201);
    let id = chat.id.clone();
    stop(server);
    let other = node(&beside);
    let there = Chat { server: &other, id: id.clone() };
    there.put("a.txt", "second").await.expect(200);

    let server = node_with_room(&database, "0");
    until("what is behind is cleared", async || laid_out(&database, &id).1.is_empty().then_some(())).await;
    assert_eq!(laid_out(&beside, &id).1.len(), 1, "it is in use there");
    assert_eq!(Chat { server: &server, id: id.clone() }.text("a.txt").await, "second");
    stop(other);
    let chat = Chat { server: &server, id };
    chat.put("b.txt", "third").await.expect(201);
    assert_eq!(chat.text("a.txt").await, "second");
    chat.is_whole().await;
}
