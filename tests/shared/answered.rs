//! A bucket that is away for a moment when a tool has answered: what it did is done, so its answer is kept when the bucket is back.

use std::time::Duration;

use kitbag_testkit::{Answer, Behind, Gate, Server, TestBucket, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{BINARY, Chat, import};

const SERVERS: &str = "/v1/orgs/local/mcp-servers";

/// More than a record holds by itself.
const LARGE: usize = 600_000;

/// Waits until something is so.
async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    for _ in 0..1200 {
        if look().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came to this: {what}");
}

/// Makes a call while the bucket is away, which comes back when the call's end could not be kept. How the call ended.
async fn call(server: &Server, gate: &Gate, chat: &Chat<'_>, body: Value) -> Value {
    let failures = || server.log().matches("could not be recorded; trying again").count();
    let before = failures();
    gate.shut();
    let told = tokio::spawn(Answer::of(server.request(Method::POST, &chat.path("tool-calls")).json(&body)));
    until("its end could not be kept, or it is over", async || failures() > before || told.is_finished()).await;
    gate.open();
    let ended = told.await.unwrap().expect(200);
    assert_eq!(ended["status"], "success", "{ended}");
    let path = chat.path(&format!("tool-calls/{}/result", ended["id"].as_str().unwrap()));
    server.get(&path).await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_came_while_the_bucket_was_away_is_kept() {
    let bucket = TestBucket::new();
    let gate = Gate::before(&bucket);
    let database = TestDatabase::sqlite().in_bucket(&bucket.through(&gate));
    let server = Server::start(BINARY, &database, &[]);
    import(&server).await;
    let chat = Chat::new(&server).await;
    chat.call("app:write", json!({ "path": "a.txt", "content": "the files of the toolset are here" })).await;
    let result = call(&server, &gate, &chat, json!({ "toolId": "app:large", "args": { "count": LARGE } })).await;
    assert_eq!(result["text"].as_str().unwrap().len(), LARGE);

    let behind = Behind::start(true).await;
    let launch = json!({
        "id": "behind", "serverType": "streamable-http", "url": behind.url(), "requiresConfirmation": false,
    });
    server.post(SERVERS, &launch).await.expect(201);
    until("its tools are known", async || {
        let shown = server.get(&format!("{SERVERS}/behind")).await.expect(200);
        shown["status"] == "connected" && !shown["toolsSeenAt"].is_null()
    })
    .await;
    let args = json!({ "text": "x".repeat(LARGE) });
    let result = call(&server, &gate, &chat, json!({ "toolId": "mcp:behind~behind:echo", "args": args })).await;
    assert!(result.to_string().len() > LARGE);
    assert_eq!(behind.calls().len(), 1, "it did it once");
}
