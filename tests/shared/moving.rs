//! A whole installation from SQLite and files to PostgreSQL and a bucket, killed on the way, and back again.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use kitbag_testkit::cluster::OWNER;
use kitbag_testkit::{Gate, Program, Server, TestBucket, TestDatabase};
use serde_json::{Value, json};

use crate::kit::{BINARY, Chat, TOOLSETS, import, stop};

/// Files of the second chat, each too large to share a pack.
const LARGE: usize = 40;

/// A program with the bucket's credentials.
pub(crate) fn program(data: &Path) -> Program {
    let program = Program::new(BINARY, data);
    TestBucket::variables().iter().fold(program, |program, (name, value)| program.env(name, value))
}

/// Something to move: a toolset, a chat whose files and results are of every kind, and a chat with much in it. Both chats.
pub(crate) async fn fill(server: &Server) -> [String; 2] {
    import(server).await;
    let chat = Chat::new(server).await;
    for number in 0..40 {
        chat.put(&format!("notes/{number}.txt"), format!("note {number}")).await.expect(201);
    }
    chat.put("large.bin", vec![5; 700_000]).await.expect(201);
    chat.call("app:write", json!({ "path": "by-tool.txt", "content": "x" })).await;
    chat.call("app:large", json!({ "count": 500_000 })).await;
    let much = Chat::new(server).await;
    for number in 0..LARGE {
        much.put(&format!("{number}.bin"), large(number)).await.expect(201);
    }
    [chat.id, much.id]
}

fn large(number: usize) -> Vec<u8> {
    format!("{number} ").into_bytes().into_iter().cycle().take(300_000).collect()
}

/// What is to be the same everywhere.
pub(crate) async fn picture(server: &Server, [one, much]: &[String; 2]) -> Value {
    let chat = Chat { server, id: one.clone() };
    let much = Chat { server, id: much.clone() };
    chat.is_whole().await;
    much.is_whole().await;
    assert!(much.read("7.bin").await.unwrap() == large(7));
    let call = server.get(&chat.path("tool-calls")).await.expect(200);
    let large = call["items"].as_array().unwrap().iter().find(|call| call["toolId"] == "app:large").unwrap();
    let result = chat.path(&format!("tool-calls/{}/result", large["id"].as_str().unwrap()));
    json!({
        "files": chat.manifest().await["files"],
        "much": much.manifest().await["files"],
        "text": chat.text("notes/7.txt").await,
        "calls": call,
        "result": server.get(&result).await.expect(200)["text"].as_str().unwrap().len(),
        "toolset": server.get(&format!("{TOOLSETS}/app")).await.expect(200),
        "messages": server.get(&chat.path("messages")).await.expect(200),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn there_and_back() {
    let first = TestDatabase::sqlite();
    let server = Server::start(BINARY, &first, &[]);
    let chats = fill(&server).await;
    let before = picture(&server, &chats).await;
    let from = first.data().to_str().unwrap().to_owned();
    let refused = program(first.data()).run(&["admin", "backup", "/nowhere"]);
    assert_eq!(refused.code, Some(2), "a server has it: {refused:?}");
    drop(server);

    let bucket = TestBucket::new();
    let second = TestDatabase::postgres().await.in_bucket(&bucket);
    let owner = second.url(OWNER).expose().to_owned();
    let to = |blobs: &str| ["admin", "move", "--from", &from, "--to", &owner, "--to-blobs", blobs].map(str::to_owned);
    let away = |more: &[&str], blobs: &str| {
        let args = to(blobs);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        program(first.data()).run(&args)
    };
    let look = away(&["--json", "--dry-run"], &bucket.url()).json();
    assert_eq!((&look["chats"], &look["toolsets"], &look["sent"]), (&json!(2), &json!(1), &json!(0)), "{look}");
    assert!(bucket.open().folder("orgs").list().await.unwrap().is_empty(), "a look changes nothing");
    // Killed in the middle of the second chat, of which it sends some files at a time: it waits for an answer, and has not come to the end.
    let gate = Gate::before(&bucket);
    gate.leave_unanswered_after(4_000_000);
    let through = to(&bucket.through(&gate).url());
    let mut child = program(first.data()).start(&through.each_ref().map(String::as_str));
    gate.until_unanswered().await;
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.signal(), Some(9), "it had ended by itself: {ended}");
    assert_eq!(second.count("SELECT count(*) FROM chats").await, 0, "rows come last");
    let done = away(&["--json"], &bucket.url()).json();
    assert_eq!((&done["rows"], &done["blobs"]), (&look["rows"], &look["blobs"]), "{done}");
    let (sent, blobs) = (done["sent"].as_u64().unwrap(), done["blobs"].as_u64().unwrap());
    assert!(0 < sent && sent < blobs, "it did not go on where it was killed: {done}");
    let again = away(&["--json"], &bucket.url()).json();
    assert_eq!(again["sent"], 0, "it is all there: {again}");
    let server = Server::start(BINARY, &second, &[]);
    assert_eq!(picture(&server, &chats).await, before);
    let moved = Chat { server: &server, id: chats[0].clone() };
    moved.call("app:write", json!({ "path": "more.txt", "content": "more" })).await;
    let after = picture(&server, &chats).await;
    assert_ne!(after, before);
    stop(server);
    // What has rows of its own is not written over.
    let refused = away(&[], &bucket.url());
    assert!(refused.code == Some(1) && refused.stderr.contains("has rows already"), "{refused:?}");

    // And back, to another folder.
    let third = TestDatabase::sqlite();
    let (folder, blobs) = (third.data().to_str().unwrap(), bucket.url());
    let back = ["--json", "admin", "move", "--from", &owner, "--from-blobs", &blobs, "--to", folder];
    let look = program(first.data()).run(&[&back[..], &["--dry-run"]].concat()).json();
    assert_eq!((&look["chats"], &look["sent"], &look["inTheWay"]), (&json!(2), &json!(0), &json!([])), "{look}");
    assert!(!third.data().join("kitbag.db").exists() && !third.data().join("chats").exists(), "a look changes nothing");
    let done = program(first.data()).run(&back).json();
    assert_eq!(
        (&done["rows"], &done["blobs"], &done["sent"]),
        (&look["rows"], &look["blobs"], &look["blobs"]),
        "{done}"
    );
    // All of it is there: the bucket is not needed any more.
    bucket.open().folder("orgs").clear().await.unwrap();
    let server = Server::start(BINARY, &third, &[]);
    assert_eq!(picture(&server, &chats).await, after);
    Chat { server: &server, id: chats[0].clone() }
        .call("app:write", json!({ "path": "last.txt", "content": "z" }))
        .await;
}
