//! Clients of the MCP endpoint, whose requests go to any node.

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::kit::{CHATS, Installation, ask_nobody, begin, command, new_chat, nodes, output, until, until_there};

const REVISION: &str = "2025-06-18";

async fn say(server: &Server, token: &str, session: Option<&str>, chat: &str, message: &Value) -> Answer {
    let mut request = server
        .anonymous(Method::POST, &format!("/mcp?chat={chat}"))
        .bearer_auth(token)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", REVISION);
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    Answer::of(request.json(message)).await
}

/// Opens a session. Its name.
async fn open(server: &Server, token: &str, chat: &str) -> String {
    let client = json!({ "name": "a test", "version": "1" });
    let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = say(server, token, None, chat, &message).await;
    let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
    answer.expect(200);
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    say(server, token, Some(&session), chat, &told).await.expect(202);
    session
}

fn call(command: &str) -> Value {
    let params = json!({ "name": "run_command", "arguments": { "command": command } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

/// The result of a call, which may come as an event.
fn result(answer: Answer) -> String {
    match answer.expect(200) {
        Value::String(events) => events,
        body => body.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_found_from_every_node_and_its_calls_run_where_the_chat_is() {
    let (_installation, [first, mut second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    // The first has the chat, the second the session.
    output(command(&first, &chat, "echo kept >file").await);
    let token = second.token.clone();
    let session = open(&second, &token, &chat).await;
    for server in [&second, &first] {
        let said = result(say(server, &token, Some(&session), &chat, &call("cat file")).await);
        assert!(said.contains("kept") && !said.contains("\"isError\":true"), "{said}");
    }
    let calls = first.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
    let all = calls["items"].as_array().unwrap();
    assert!(all.len() == 3 && all.iter().all(|call| call["status"] == "success"), "{calls}");

    // A call that the session's node had asked for goes on where it runs, and is over when somebody ends it.
    let begun = begin(&second, &chat, "sleep 600").await;
    second.signal(Signal::KILL);
    second.wait();
    let ended = first.post(&format!("{begun}/cancel"), &json!({})).await.expect(200);
    assert_eq!(ended["error"]["code"], "CANCELLED");
    // The one answer after which clients open another session.
    until("the session is gone", async || {
        (say(&first, &token, Some(&session), &chat, &call("true")).await.status == 404).then_some(())
    })
    .await;
    let session = open(&first, &token, &chat).await;
    assert!(result(say(&first, &token, Some(&session), &chat, &call("cat file")).await).contains("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_chat_is_elsewhere_may_take_longer_than_a_request_and_than_a_lease() {
    let installation = Installation::new(2).await;
    let [first, second] = [0, 1].map(|node| installation.start(node, &["--request-timeout-seconds", "1"]));
    ask_nobody(&first).await;
    let chat = new_chat(&first).await;
    output(command(&first, &chat, "true").await);
    let session = open(&second, &second.token, &chat).await;
    // Longer than it is waited for somebody who may hold the chat, too.
    let long = call("sleep 8; echo done >>file; cat file");
    let said = result(say(&second, &second.token, Some(&session), &chat, &long).await);
    assert!(said.contains("done") && !said.contains("\"isError\":true"), "{said}");
    let calls = second.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
    let all = calls["items"].as_array().unwrap();
    assert!(all.len() == 2 && all.iter().all(|call| call["status"] == "success"), "{calls}");
    assert_eq!(output(command(&second, &chat, "cat file").await), "done", "it ran once");
}

#[tokio::test(flavor = "multi_thread")]
async fn that_a_chat_has_too_many_calls_where_it_is_held_is_told() {
    let installation = Installation::new(2).await;
    let (first, second) = (installation.start(0, &["--max-queue-per-chat", "1"]), installation.start(1, &[]));
    ask_nobody(&first).await;
    let chat = new_chat(&first).await;
    let session = open(&second, &second.token, &chat).await;
    let begun = begin(&first, &chat, "touch begun; sleep 600").await;
    until_there(&installation.folder(0).join("chats").join(&chat).join("workspace/begun")).await;
    let said = result(say(&second, &second.token, Some(&session), &chat, &call("true")).await);
    assert!(said.contains("QUOTA_EXCEEDED") && said.contains("1 calls of this chat run or wait"), "{said}");
    second.post(&format!("{begun}/cancel"), &json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_says_at_the_address_of_a_node_that_is_gone_ends_no_call() {
    let (_installation, [mut first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    output(command(&first, &chat, "true").await);
    let session = open(&second, &second.token, &chat).await;
    first.signal(Signal::KILL);
    first.wait();
    let listener = TcpListener::bind(first.url.trim_start_matches("http://")).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.read(&mut [0; 4096]).await;
            let said = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\nconnection: close\r\n\r\ngo off";
            let _ = client.write_all(said).await;
        }
    });
    let said = result(say(&second, &second.token, Some(&session), &chat, &call("echo ran >>file; cat file")).await);
    assert!(said.contains("ran") && !said.contains("\"isError\":true"), "{said}");
    assert_eq!(output(command(&second, &chat, "cat file").await), "ran", "it ran once");
}
