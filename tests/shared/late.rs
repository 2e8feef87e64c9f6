//! A collection that comes late. The server that began it stands still for so long that others say it is dead and take the chat; then it goes on,
//! between the bytes of a state that the new holder takes and the row that names them. Nothing that was acknowledged may go by that.

use std::fs;
use std::time::Duration;

use kitbag_testkit::{Gate, Program, Server, sha256};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::kit::{BINARY, Chat, MASTER_KEY, import, installation, node, stop};

/// The folder through which a server is told where to wait.
struct Held(TempDir);

impl Held {
    fn at(step: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan"), format!("hold {step}")).unwrap();
        Self(folder)
    }

    async fn reached(&self) {
        until("the step is reached", async || self.0.path().join("held").exists()).await;
    }

    fn let_go(&self) {
        fs::remove_file(self.0.path().join("plan")).unwrap();
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came to this: {what}");
}

/// Who brings the state in between.
#[derive(Clone, Copy, Eq, PartialEq)]
enum By {
    /// Somebody who can do it again.
    Put,
    /// A tool, which cannot.
    Call,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_that_a_late_collection_took_away() {
    a_collection_comes_late(By::Put).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_left_is_brought_again_after_a_late_collection() {
    a_collection_comes_late(By::Call).await;
}

async fn a_collection_comes_late(by: By) {
    let (database, bucket) = installation().await;
    let held = Held::at("collecting");
    let program = Program::on(BINARY, &database)
        .env("KITBAG_MASTER_KEY", MASTER_KEY)
        .env("KITBAG_ADVERTISE", "http://127.0.0.1:0")
        .env("KITBAG_NODE_LEASE_SECONDS", "2")
        .env("TEST_KITBAG_FAULT", held.0.path().to_str().unwrap());
    let slow = Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    let gate = Gate::before(&bucket);
    let beside = database.beside().in_bucket(&bucket.through(&gate));
    let quick = node(&beside);
    import(&quick).await;
    let there = Chat::new(&slow).await;
    there.put("first.txt", "kept before").await.expect(201);

    // One begins to collect, and stands still before it has asked the database anything.
    let gc = there.path("workspace/gc");
    let collecting = slow.request(reqwest::Method::POST, &gc).json(&json!({ "graceSeconds": 0 }));
    let collecting = tokio::spawn(kitbag_testkit::Answer::of(collecting));
    held.reached().await;
    slow.signal(Signal::STOP);
    // The other one takes the chat, and changes it.
    let here = there.at(&quick);
    until("the chat is taken", async || here.put("second.txt", "kept meanwhile").await.status.is_success()).await;

    // It brings the bytes of the next state, and is not told yet that they are there.
    let content = "9".repeat(400_000);
    let folder = bucket.open().folder(&format!("orgs/local/chats/{}", here.id));
    let is_there = async || {
        let objects = folder.list().await.unwrap();
        objects.iter().any(|object| object.key.ends_with(&sha256(content.as_bytes())))
    };
    gate.leave_unanswered_after(300_000);
    let (id, sent) = (here.id.clone(), content.clone());
    let generation = "SELECT blob_generation FROM chats";
    let put = async {
        let chat = Chat { server: &quick, id: id.clone() };
        let args = json!({ "path": "third.bin", "content": sent });
        match by {
            By::Put => chat.put("third.bin", sent).await,
            By::Call => quick.post(&chat.path("tool-calls"), &json!({ "toolId": "app:write", "args": args })).await,
        }
    };
    let meanwhile = async {
        until("the bytes are in the bucket", is_there).await;
        assert_eq!(database.count(generation).await, 0);
        held.let_go();
        slow.signal(Signal::CONT);
        let collected = collecting.await.unwrap().expect(200);
        assert_eq!(database.count(generation).await, 1);
        assert!(collected["blobs"].as_u64() >= Some(1) && !is_there().await, "it took nothing away: {collected}");
        gate.open();
    };
    let (answer, ()) = tokio::join!(put, meanwhile);

    // What relied on that is not kept. The client is told, and sends it again; of a call it is taken again.
    match by {
        By::Put => {
            answer.expect_error(409, "CONFLICT");
            assert!(here.manifest().await["files"].get("third.bin").is_none());
            here.put("third.bin", content.clone()).await.expect(201);
        }
        By::Call => {
            let call = answer.expect(200);
            assert_eq!((&call["status"], &call["warnings"]), (&json!("success"), &json!([])), "{call}");
            assert_eq!(here.manifest().await["id"], call["postManifestId"]);
        }
    }
    assert!(is_there().await);
    here.is_whole().await;
    drop(there);
    // Whoever has no copies has all of it.
    stop(quick);
    drop(slow);
    let elsewhere = database.beside();
    let third = node(&elsewhere);
    let anew = Chat { server: &third, id };
    assert_eq!(anew.text("first.txt").await, "kept before");
    assert_eq!(anew.text("second.txt").await, "kept meanwhile");
    assert!(anew.read("third.bin").await.unwrap() == content.as_bytes());
    anew.is_whole().await;
}
