//! A backup of an installation that is being served, and what is in the way of a move.

use std::time::Duration;

use kitbag_testkit::cluster::OWNER;
use kitbag_testkit::{Gate, Program, Server, TestBucket, TestDatabase};
use serde_json::json;

use crate::kit::{BINARY, Chat, TOOLSETS, import, installation, node};

/// Waits until a backup has looked at the rows, and has nothing to ask the database.
async fn until_it_sends_bytes(database: &TestDatabase) {
    const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE usename = 'kitbag_owner' AND datname = current_database() AND state = 'idle in transaction'";
    for _ in 0..1200 {
        if database.count(WAITING).await > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the backup never began");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_taken_beside_a_server_that_writes() {
    let (database, bucket) = installation().await;
    let server = node(&database);
    import(&server).await;
    let chat = Chat::new(&server).await;
    for number in 0..20 {
        chat.put(&format!("notes/{number}.txt"), format!("note {number}")).await.expect(201);
    }
    let call = chat.call("app:write", json!({ "path": "by-tool.txt", "content": "x" })).await;
    let doomed = Chat::new(&server).await;
    doomed.put("a.txt", "soon gone").await.expect(201);
    // Somebody who is a member of nothing is a person, too.
    database.change("INSERT INTO users (id, email, created_at) VALUES ('lonely', 'lonely@example.org', now())").await;
    // A call that runs when the backup is taken, and of which that knows no end.
    database
        .change(
            "UPDATE tool_calls SET status = 'running', result = NULL, finished_at = NULL, node_id = (SELECT id FROM nodes)",
        )
        .await;

    let gate = Gate::before(&bucket);
    let (beside, through) = (database.beside(), bucket.through(&gate));
    let program = Program::on(BINARY, &beside)
        .env("KITBAG_BLOBS", &through.url())
        .env("KITBAG_OWNER_DATABASE", database.url(OWNER).expose());
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("backup");
    gate.shut();
    let mut child = program.start(&["admin", "backup", kept.to_str().unwrap()]);
    until_it_sends_bytes(&database).await;
    // Whatever it holds, nobody waits for it.
    chat.put("while.txt", "it was taken").await.expect(201);
    chat.call("app:write", json!({ "path": "by-tool.txt", "content": "y" })).await;
    server.delete(doomed.path("").trim_end_matches('/')).await.expect(204);
    server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
    import(&server).await;
    gate.open();
    assert!(child.wait().unwrap().success(), "the backup ends");

    let look = folder.path().join("another");
    let look = program.run(&["--json", "admin", "backup", look.to_str().unwrap(), "--dry-run"]).json();
    assert_eq!((&look["chats"], &look["toolsets"], &look["inTheWay"]), (&json!(1), &json!(1), &json!([])), "{look}");
    chat.put("after.txt", "the look").await.expect(201);

    // What they write would be left behind by a move.
    let (owner, blobs) = (database.url(OWNER).expose().to_owned(), bucket.url());
    let to = folder.path().join("moved");
    let away = ["admin", "move", "--from", &owner, "--from-blobs", &blobs, "--to", to.to_str().unwrap()];
    let refused = program.run(&away);
    assert!(refused.code == Some(1) && refused.stderr.contains(&server.url), "{refused:?}");
    let look = program.run(&[&["--json"], &away[..], &["--dry-run"]].concat()).json();
    assert!(look["inTheWay"][0].as_str().unwrap().contains(&server.url), "{look}");

    let restored = TestDatabase::sqlite();
    let program = TestBucket::variables()
        .iter()
        .fold(Program::on(BINARY, &restored), |program, (name, value)| program.env(name, value));
    program.run(&["--json", "admin", "restore", kept.to_str().unwrap()]).json();
    assert_eq!(restored.people().await, 1);
    let back = Server::start(BINARY, &restored, &[]);
    let there = chat.at(&back);
    there.is_whole().await;
    assert_eq!(there.text("notes/7.txt").await, "note 7");
    let ended = back.get(&there.path(&format!("tool-calls/{}", call["id"].as_str().unwrap()))).await.expect(200);
    assert_eq!(ended["error"]["code"], "INTERRUPTED", "nobody runs it any more: {ended}");
    there.call("app:write", json!({ "path": "by-tool.txt", "content": "z" })).await;
}
