//! What is damaged where an installation comes from, or where it goes: the move says where, and leaves nothing that could be served.

use std::fs;
use std::path::{Path, PathBuf};

use kitbag_testkit::cluster::OWNER;
use kitbag_testkit::{Finished, Server, TestBucket, TestDatabase, sha256};
use serde_json::Value;

use crate::kit::{BINARY, Chat, import};
use crate::moving::program;

/// Rows that a server would serve.
const ROWS: [&str; 5] = [
    "SELECT count(*) FROM chats",
    "SELECT count(*) FROM messages",
    "SELECT count(*) FROM workspace_manifests",
    "SELECT count(*) FROM workspace_nodes",
    "SELECT count(*) FROM toolsets",
];

/// A chat on SQLite and in a folder with one file that has a blob of its own, and an empty place to go to.
struct Scene {
    source: TestDatabase,
    chat: String,
    target: TestDatabase,
    bucket: TestBucket,
}

/// What is in the file.
fn content() -> Vec<u8> {
    vec![7; 500_000]
}

impl Scene {
    async fn new() -> Self {
        let source = TestDatabase::sqlite();
        let server = Server::start(BINARY, &source, &[]);
        import(&server).await;
        let healthy = Chat::new(&server).await;
        healthy.put("a.txt", "well").await.expect(201);
        let chat = Chat::new(&server).await;
        chat.put("large.bin", content()).await.expect(201);
        let chat = chat.id;
        drop(server);
        let bucket = TestBucket::new();
        let target = TestDatabase::postgres().await.in_bucket(&bucket);
        Self { source, chat, target, bucket }
    }

    fn blob(&self) -> PathBuf {
        let hash = sha256(&content());
        self.source.data().join("chats").join(&self.chat).join("blobs").join(&hash[..2]).join(hash)
    }

    fn moved(&self) -> Finished {
        let (owner, blobs) = (self.target.url(OWNER).expose().to_owned(), self.bucket.url());
        let from = self.source.data();
        let args = ["--json", "admin", "move", "--from", from.to_str().unwrap(), "--to", &owner, "--to-blobs", &blobs];
        program(from).run(&args)
    }

    /// It ended as one that failed, for this reason, and nobody can serve what came of it.
    async fn refused(&self, words: &[&str]) {
        let refused = self.moved();
        assert_eq!(refused.code, Some(1), "{refused:?}");
        for word in words {
            assert!(refused.stderr.contains(word), "{word} is not in {refused:?}");
        }
        for rows in ROWS {
            assert_eq!(self.target.count(rows).await, 0, "{rows}");
        }
    }

    /// It is all there, and whole.
    async fn arrived(&self) -> Value {
        let done = self.moved().json();
        let server = Server::start(BINARY, &self.target, &[]);
        let chat = Chat { server: &server, id: self.chat.clone() };
        chat.is_whole().await;
        assert!(chat.read("large.bin").await.unwrap() == content());
        done
    }
}

/// Exchanges a file, whatever may be written to.
fn exchange(file: &Path, bytes: &[u8]) {
    fs::remove_file(file).unwrap();
    fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_blob_does_not_go_along() {
    let scene = Scene::new().await;
    let blob = scene.blob();
    for damage in [vec![8; 500_000], content()[1..].to_vec(), Vec::new()] {
        exchange(&blob, &damage);
        scene.refused(&[&scene.chat, &sha256(&content())]).await;
    }
    exchange(&blob, &content());
    let done = scene.arrived().await;
    assert_eq!(done["chats"], 2);
}

/// The place was tried before, and what came of that was damaged since: it counts as there, and is not what it is called.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_where_it_goes_is_found_before_anybody_serves_it() {
    let scene = Scene::new().await;
    let hash = sha256(&content());
    let there = scene.bucket.open().folder(&format!("orgs/local/chats/{}", scene.chat));
    let key = format!("g0/blobs/{hash}");
    there.put_bytes(&key, vec![8; 500_000].into()).await.unwrap();
    scene.refused(&[&scene.chat, &hash]).await;
    there.remove_keys(vec![key]).await.unwrap();
    scene.arrived().await;
}
