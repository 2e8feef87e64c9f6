//! A whole installation from SQLite and files to PostgreSQL and a bucket, back again, into a backup and out of it. It may be killed on the way.

use std::path::Path;

use kitbag_testkit::cluster::OWNER;
use kitbag_testkit::{Program, Server, TestBucket, TestDatabase};
use serde_json::{Value, json};

use crate::kit::{BINARY, Chat, TOOLSETS, import};

/// A program with the bucket's credentials.
fn program(data: &Path) -> Program {
    let program = Program::new(BINARY, data);
    TestBucket::variables().iter().fold(program, |program, (name, value)| program.env(name, value))
}

/// What is to be the same everywhere.
async fn picture(server: &Server, chat: &str) -> Value {
    let chat = Chat { server, id: chat.to_owned() };
    chat.is_whole().await;
    let call = server.get(&chat.path("tool-calls")).await.expect(200);
    let large = call["items"].as_array().unwrap().iter().find(|call| call["toolId"] == "app:large").unwrap();
    let result = chat.path(&format!("tool-calls/{}/result", large["id"].as_str().unwrap()));
    json!({
        "files": chat.manifest().await["files"],
        "text": chat.text("notes/7.txt").await,
        "calls": call,
        "result": server.get(&result).await.expect(200)["text"].as_str().unwrap().len(),
        "toolset": server.get(&format!("{TOOLSETS}/app")).await.expect(200),
        "messages": server.get(&chat.path("messages")).await.expect(200),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn there_and_back_and_into_a_backup() {
    let first = TestDatabase::sqlite();
    let server = Server::start(BINARY, &first, &[]);
    import(&server).await;
    let chat = Chat::new(&server).await;
    for number in 0..40 {
        chat.put(&format!("notes/{number}.txt"), format!("note {number}")).await.expect(201);
    }
    chat.put("large.bin", vec![5; 700_000]).await.expect(201);
    chat.call("app:write", json!({ "path": "by-tool.txt", "content": "x" })).await;
    chat.call("app:large", json!({ "count": 500_000 })).await;
    let (before, id) = (picture(&server, &chat.id).await, chat.id.clone());
    let from = first.data().to_str().unwrap().to_owned();
    let refused = program(first.data()).run(&["admin", "backup", "/nowhere"]);
    assert_eq!(refused.code, Some(2), "a server has it: {refused:?}");
    drop(server);

    let bucket = TestBucket::new();
    let second = TestDatabase::postgres().await.in_bucket(&bucket);
    let (owner, blobs) = (second.url(OWNER).expose().to_owned(), bucket.url());
    let away = ["admin", "move", "--from", &from, "--to", &owner, "--to-blobs", &blobs];
    let look = program(first.data()).run(&[&["--json"], &away[..], &["--dry-run"]].concat()).json();
    assert_eq!((&look["chats"], &look["toolsets"], &look["sent"]), (&json!(1), &json!(1), &json!(0)), "{look}");
    assert!(bucket.open().folder("orgs").list().await.unwrap().is_empty(), "a look changes nothing");
    // Killed when some of it is there.
    let mut child = program(first.data()).start(&away);
    let chats = bucket.open().folder("orgs/local/chats");
    while chats.list().await.unwrap().is_empty() && child.try_wait().unwrap().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = program(first.data()).run(&[&["--json"], &away[..]].concat()).json();
    assert_eq!(done["rows"], look["rows"], "{done}");
    let again = program(first.data()).run(&[&["--json"], &away[..]].concat()).json();
    assert_eq!(again["sent"], 0, "it is all there: {again}");
    let server = Server::start(BINARY, &second, &[]);
    assert_eq!(picture(&server, &id).await, before);
    let moved = Chat { server: &server, id: id.clone() };
    moved.call("app:write", json!({ "path": "more.txt", "content": "more" })).await;
    let after = picture(&server, &id).await;
    drop(server);
    // What has rows of its own is not written over.
    let refused = program(first.data()).run(&away);
    assert!(refused.code == Some(1) && refused.stderr.contains("has rows already"), "{refused:?}");

    let third = TestDatabase::sqlite();
    let backup = tempfile::tempdir().unwrap();
    let folder = backup.path().join("backup");
    let at_second = Program::on(BINARY, &second).env("KITBAG_OWNER_DATABASE", &owner);
    let kept = at_second.run(&["--json", "admin", "backup", folder.to_str().unwrap()]).json();
    let look = at_second.run(&["--json", "admin", "backup", folder.to_str().unwrap(), "--dry-run"]).json();
    assert_eq!((&look["rows"], &look["blobs"]), (&kept["rows"], &kept["blobs"]));
    program(third.data()).run(&["--json", "admin", "restore", folder.to_str().unwrap()]).json();
    let server = Server::start(BINARY, &third, &[]);
    assert_eq!(picture(&server, &id).await, after);
    Chat { server: &server, id }.call("app:write", json!({ "path": "last.txt", "content": "z" })).await;
}
