//! Clients of the MCP endpoint, whose requests go to any node.

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{CHATS, begin, command, new_chat, nodes, output, until};

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
