//! A backup into a folder, and out of it into a fresh PostgreSQL and bucket: looked at first, and then done.

use kitbag_testkit::cluster::OWNER;
use kitbag_testkit::{Program, TestDatabase};
use serde_json::json;

use crate::kit::{BINARY, Chat, installation, node, stop};
use crate::moving::{fill, picture};

/// The program on a database, with what its owner may.
fn owners(database: &TestDatabase) -> Program {
    Program::on(BINARY, database).env("KITBAG_OWNER_DATABASE", database.url(OWNER).expose())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_looked_at_and_restored_into_a_fresh_bucket() {
    let (first, _) = installation().await;
    let server = node(&first);
    let chats = fill(&server).await;
    let before = picture(&server, &chats).await;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("backup");
    let folder_name = folder.to_str().unwrap();
    let look = owners(&first).run(&["--json", "admin", "backup", folder_name, "--dry-run"]).json();
    assert_eq!((&look["chats"], &look["sent"], &look["dryRun"]), (&json!(2), &json!(0), &json!(true)), "{look}");
    assert!(!folder.join("kitbag.db").exists() && !folder.join("chats").exists(), "a look changes nothing");
    let kept = owners(&first).run(&["--json", "admin", "backup", folder_name]).json();
    assert_eq!((&look["rows"], &look["blobs"]), (&kept["rows"], &kept["blobs"]));
    stop(server);

    let (second, bucket) = installation().await;
    let look = owners(&second).run(&["--json", "admin", "restore", folder_name, "--dry-run"]).json();
    assert_eq!((&look["rows"], &look["blobs"], &look["chats"]), (&kept["rows"], &kept["blobs"], &json!(2)), "{look}");
    assert_eq!((&look["sent"], &look["dryRun"]), (&json!(0), &json!(true)), "{look}");
    for top in ["orgs", "gallery"] {
        assert!(bucket.open().folder(top).list().await.unwrap().is_empty(), "a look sends nothing");
    }
    for rows in ["SELECT count(*) FROM chats", "SELECT count(*) FROM toolsets", "SELECT count(*) FROM messages"] {
        assert_eq!(second.count(rows).await, 0, "a look writes nothing: {rows}");
    }
    let done = owners(&second).run(&["--json", "admin", "restore", folder_name]).json();
    assert_eq!((&done["rows"], &done["sent"]), (&look["rows"], &look["blobs"]), "{done}");
    let server = node(&second);
    assert_eq!(picture(&server, &chats).await, before);
    Chat { server: &server, id: chats[0].clone() }
        .call("app:write", json!({ "path": "last.txt", "content": "z" }))
        .await;
    // Not a second time: it is an installation now.
    stop(server);
    let refused = owners(&second).run(&["admin", "restore", folder_name]);
    assert!(refused.code == Some(1) && refused.stderr.contains("has rows already"), "{refused:?}");
}
