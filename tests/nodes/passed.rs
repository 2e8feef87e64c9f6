//! Calls that are asked for at one node and run at another: how they are counted, and how they are ended.

use std::path::PathBuf;

use kitbag_testkit::endpoint::Client;
use kitbag_testkit::{Answer, Behind, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{
    CHATS, Installation, ask_nobody, begin, calls, command, new_chat, nodes, output, over, until, until_there,
};
use crate::servers::SERVERS;

/// A file that a call makes in a chat's workspace at the first node.
fn made(installation: &Installation, chat: &str, name: &str) -> PathBuf {
    installation.folder(0).join("chats").join(chat).join("workspace").join(name)
}

/// The one call of a chat that runs.
async fn running(server: &Server, chat: &str) -> String {
    let all = server.get(&calls(chat)).await.expect(200);
    let call = all["items"].as_array().unwrap().iter().find(|call| call["status"] == "running").unwrap();
    format!("{}/{}", calls(chat), call["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_handed_over_counts_once() {
    let (installation, [first, second]) = nodes::<2>().await;
    let settings = first.request(Method::PUT, "/v1/orgs/local/settings");
    Answer::of(settings.json(&json!({ "quotas": { "concurrentCalls": 2 } }))).await.expect(200);
    // The first has the chat; the call is asked for at the second.
    let chat = new_chat(&first).await;
    output(command(&first, &chat, "true").await);
    let (other, third) = (new_chat(&second).await, new_chat(&second).await);
    let asking = Client::new(&second, &format!("/mcp?chat={chat}"));
    let asked = asking.call("run_command", json!({ "command": "touch begun; sleep 600" }));
    let beside = async {
        until_there(&made(&installation, &chat, "begun")).await;
        let begun = begin(&second, &other, "sleep 600").await;
        for server in [&first, &second] {
            command(server, &third, "true").await.expect_error(429, "QUOTA_EXCEEDED");
        }
        for path in [running(&second, &chat).await, begun] {
            second.post(&format!("{path}/cancel"), &json!({})).await.expect(200);
        }
    };
    tokio::join!(asked, beside);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_with_the_node_that_asked_for_it_was_cancelled_by_nobody() {
    let installation = Installation::new(2).await;
    let (first, second) = (installation.start(0, &[]), installation.start(1, &["--drain-seconds", "1"]));
    ask_nobody(&first).await;
    let chat = new_chat(&first).await;
    output(command(&first, &chat, "true").await);
    let asking = Client::new(&second, &format!("/mcp?chat={chat}"));
    let asked = asking.call("run_command", json!({ "command": "touch begun; sleep 600" }));
    let beside = async {
        until_there(&made(&installation, &chat, "begun")).await;
        let path = running(&first, &chat).await;
        second.signal(Signal::TERM);
        let ended = over(&first, &path).await;
        assert_eq!(ended["error"]["code"], "INTERRUPTED", "{ended}");
        assert_eq!(ended["error"]["message"], "the server stopped while it ran", "{ended}");
        let audit = first.get("/v1/orgs/local/audit?action=tool_call.cancelled").await.expect(200);
        assert_eq!(audit["items"], json!([]), "nobody did: {audit}");
    };
    tokio::join!(asked, beside);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_at_a_node_that_cannot_be_asked_is_worth_another_try_to_cancel() {
    let installation = Installation::new(2).await;
    let (first, second) = (installation.start(0, &[]), installation.start(1, &["--drain-seconds", "600"]));
    let behind = Behind::start(true).await;
    let launch = json!({
        "id": "behind", "serverType": "streamable-http", "url": behind.url(), "requiresConfirmation": false,
    });
    second.post(SERVERS, &launch).await.expect(201);
    until("its tools are known", async || {
        let shown = second.get(&format!("{SERVERS}/behind")).await.expect(200);
        (shown["status"] == "connected" && !shown["toolsSeenAt"].is_null()).then_some(())
    })
    .await;
    let chat = new_chat(&second).await;
    let body = json!({ "toolId": "mcp:behind~behind:echo", "args": { "seconds": 600 } });
    let request = second.request(Method::POST, &calls(&chat)).header("prefer", "respond-async").json(&body);
    let call: Value = Answer::of(request).await.expect(202);
    let path = format!("{CHATS}/{chat}/tool-calls/{}", call["id"].as_str().unwrap());
    second.signal(Signal::TERM);
    // It waits for the call, and nobody new comes in.
    until("it is not there for anybody new", async || {
        second.request(Method::GET, "/readyz").send().await.is_err().then_some(())
    })
    .await;
    let refused = first.post(&format!("{path}/cancel"), &json!({})).await;
    refused.expect_error(503, "UNAVAILABLE");
    assert_eq!(first.get(&path).await.expect(200)["status"], "running");
}
