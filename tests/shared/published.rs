//! What is published, in a bucket that is new.

use kitbag_testkit::cluster::{APP, OWNER};
use kitbag_testkit::{Program, Server, TestBucket};
use serde_json::json;

use crate::kit::{BINARY, TOOLSETS, import, installation};

/// A node that had the old bucket has copies of its bundles, and restores into the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_brought_to_a_new_bucket_though_a_copy_of_it_is_here() {
    let (database, _old) = installation().await;
    let server = Server::start(BINARY, &database, &[]);
    import(&server).await;
    server.post(&format!("{TOOLSETS}/app/publish"), &json!({ "publicSlug": "app" })).await.expect(200);
    drop(server);
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    let at_old = Program::on(BINARY, &database).env("KITBAG_OWNER_DATABASE", database.url(OWNER).expose());
    at_old.run(&["--json", "admin", "backup", backup.to_str().unwrap()]).json();

    let (another, new) = installation().await;
    let at_new = Program::new(BINARY, database.data())
        .env("KITBAG_DATABASE", another.url(APP).expose())
        .env("KITBAG_OWNER_DATABASE", another.url(OWNER).expose())
        .env("KITBAG_BLOBS", &new.url());
    let at_new = TestBucket::variables().iter().fold(at_new, |program, (name, value)| program.env(name, value));
    let done = at_new.run(&["--json", "admin", "restore", backup.to_str().unwrap()]).json();
    assert_eq!(done["bundles"], 1, "{done}");
    assert_eq!(new.open().folder("gallery").list().await.unwrap().len(), 1);
}
