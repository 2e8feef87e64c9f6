//! A bucket that goes away: whoever needs it is told so, nothing is half kept, and everything goes on when it is back.

use kitbag_testkit::{Gate, TestBucket, TestDatabase};
use serde_json::json;

use crate::kit::{Chat, import, node};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_half_kept() {
    let bucket = TestBucket::new();
    let gate = Gate::before(&bucket);
    let database = TestDatabase::postgres().await.in_bucket(&bucket.through(&gate));
    let server = node(&database);
    let chat = Chat::new(&server).await;
    chat.put("kept.txt", "kept").await.expect(201);
    let before = chat.manifest().await;
    // In the middle of what is sent, and before anything is.
    gate.shut_after(9_000_000);
    let large: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let refused = chat.put("large.bin", large.clone()).await;
    refused.expect_error(503, "UNAVAILABLE");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    chat.put("other.txt", "other").await.expect_error(503, "UNAVAILABLE");
    assert_eq!(chat.text("kept.txt").await, "kept", "copies are here");
    assert_eq!(chat.manifest().await["files"], before["files"]);
    // Another server has no copies, and asks the one that holds the chat.
    let beside = database.beside();
    gate.open();
    let other = node(&beside);
    gate.shut();
    assert_eq!(chat.at(&other).text("kept.txt").await, "kept");
    gate.open();
    chat.put("large.bin", large.clone()).await.expect(201);
    assert!(chat.at(&other).read("large.bin").await.unwrap() == large);
    chat.is_whole().await;
    // A toolset is not installed without its files.
    gate.shut();
    let toolsets = server.get("/v1/orgs/local/toolsets").await.expect(200);
    let tools = server.post("/v1/orgs/local/toolsets", &json!({ "name": "x", "files": { "a.txt": "a" } })).await;
    assert!(!tools.status.is_success(), "{tools:?}");
    assert_eq!(server.get("/v1/orgs/local/toolsets").await.expect(200), toolsets);
    gate.open();
    import(&server).await;
    // What a call left cannot be kept either, and its record says why. It is not lost: the next change keeps it.
    chat.call("app:write", json!({ "path": "early.txt", "content": "early" })).await;
    gate.shut();
    let body = json!({ "toolId": "app:write", "args": { "path": "late.txt", "content": "late" } });
    let ended = server.post(&chat.path("tool-calls"), &body).await.body;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("UNAVAILABLE")), "{ended}");
    gate.open();
    assert!(chat.manifest().await["files"].get("late.txt").is_none());
    chat.call("app:write", json!({ "path": "later.txt", "content": "later" })).await;
    let files = chat.manifest().await["files"].clone();
    assert!(["early.txt", "late.txt", "later.txt"].iter().all(|name| files.get(name).is_some()), "{files}");
    chat.is_whole().await;
}
