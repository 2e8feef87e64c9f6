//! What is kept in its memory is known to whoever asks, at any node.

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

use super::{KEEPS, Notes, add, begin_to_wait, call, connected, nodes, other, pid, said};
use crate::heard::Listener;
use crate::kit::{new_chat, over, until};

/// A request of the protocol at the server's own endpoint. What was answered.
async fn ask(server: &Server, headers: &[(&str, &str)], body: Value) -> (Answer, Value) {
    let mut request = server.request(Method::POST, &format!("{KEEPS}~keeps/mcp"));
    request = request.header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = Answer::of(request.json(&body)).await;
    let message = match &answer.body {
        Value::String(events) => {
            let data = events.lines().rev().find_map(|line| line.strip_prefix("data: "));
            serde_json::from_str(data.unwrap_or("null")).unwrap()
        }
        body => body.clone(),
    };
    (answer, message)
}

/// What is kept, asked for by a client without a session.
async fn get_stateless(server: &Server) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "get", "arguments": {}, "_meta": meta } });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "get")];
    let (_, message) = ask(server, &headers, body).await;
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
}

/// The same in a session.
async fn get_in_session(server: &Server) -> String {
    let version = "2025-11-25";
    let client = json!({ "name": "a test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let (answer, _) = ask(server, &[], body).await;
    let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
    ask(server, &headers, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await.0.expect(202);
    let params = json!({ "name": "get", "arguments": {} });
    let (_, message) =
        ask(server, &headers, json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_have_one_process_of_a_server() {
    let (_installation, servers) = nodes::<3>().await;
    let notes = Notes::new();
    let holder = add(&servers, 1, &notes).await;
    let chat = new_chat(&servers[0]).await;
    for (n, server) in servers.iter().enumerate() {
        let value = format!("what {n} said");
        said(call(server, &chat, "put", json!({ "value": value })).await);
        for asked in &servers {
            assert_eq!(said(call(asked, &chat, "get", json!({})).await), value);
            assert_eq!(get_stateless(asked).await, value);
            assert_eq!(get_in_session(asked).await, value);
        }
    }
    assert_eq!(notes.started().len(), 1, "{:?}", notes.started());
    // How it is, is what its holder says.
    let shown = connected(&servers[holder]).await;
    assert!(shown["stderr"].to_string().contains("it keeps"), "{shown}");
    for server in &servers {
        let same = connected(server).await;
        for field in ["since", "stderr", "protocolVersion", "toolCount", "reason"] {
            assert_eq!(same[field], shown[field], "{field}");
        }
        let listed = server.get(super::SERVERS).await.expect(200);
        assert_eq!(listed["items"][0]["since"], shown["since"]);
    }
    // Each call has one record, made where it was asked for.
    let listed = servers[0].get(&format!("{}?limit=200", crate::kit::calls(&chat))).await.expect(200);
    let all = listed["items"].as_array().unwrap();
    assert!(all.len() == 12 && all.iter().all(|call| call["status"] == "success"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_cancelling_and_changes_of_its_tools_pass_through() {
    let (_installation, servers) = nodes::<3>().await;
    let notes = Notes::new();
    let holder = add(&servers, 0, &notes).await;
    let asks = &servers[other(&servers, holder)];
    let chat = new_chat(asks).await;
    let mut heard = Listener::new(asks, &asks.token).await;
    let begun = begin_to_wait(asks, &chat, &notes, ("cancelled", 600.0)).await;
    let progress = heard.until(|name, _| name == "tool_call_progress").await;
    assert_eq!((&progress["fraction"], &progress["message"]), (&json!(0.5), &json!("half of it")), "{progress}");
    asks.post(&format!("{begun}/cancel"), &json!({})).await.expect(200);
    assert_eq!(over(asks, &begun).await["error"]["code"], "CANCELLED");
    until("the server was told", async || notes.lines().contains(&"cancelled".to_owned()).then_some(())).await;

    said(call(asks, &chat, "add", json!({ "name": "more" })).await);
    for server in &servers {
        until("it is known everywhere", async || {
            let shown = server.get("/v1/orgs/local/tools/mcp:keeps~keeps:more").await;
            (shown.status == 200).then_some(())
        })
        .await;
    }
    assert_eq!(pid(asks, &chat).await, notes.started()[0]);
    assert_eq!(notes.started().len(), 1);
}
