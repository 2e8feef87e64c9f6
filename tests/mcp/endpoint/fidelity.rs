//! What need not be changed travels as it is: a client cannot tell that there is somebody in between.

use kitbag_testkit::TestDatabase;
use serde_json::{Value, json};

use super::Client;
use crate::kit::{CHATS, connect, node, twin};
use crate::serve;

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_own_tools_are_listed_and_called_as_they_are() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "every", node("server-everything", &["stdio"])).await;
    let plain = Client::new(&server, "/v1/orgs/local/mcp-servers/every~every/mcp");
    let everything = Client::new(&server, "/mcp").with("X-Mcp-Toolsets", "every");
    let (direct, named) = (plain.ask("tools/list", json!({})).await, everything.ask("tools/list", json!({})).await);
    let tool = |heard: &super::Heard, name: &str| -> Value {
        let tools = heard.result()["tools"].as_array().unwrap().clone();
        tools.into_iter().find(|tool| tool["name"] == name).unwrap()
    };
    let (own, ours) = (tool(&direct, "get-structured-content"), tool(&named, "mcp__every__get-structured-content"));
    assert!(own["outputSchema"]["properties"]["temperature"].is_object() && own["title"].is_string());
    for field in ["inputSchema", "outputSchema", "title", "description", "annotations"] {
        assert_eq!(own.get(field), ours.get(field), "{field}");
    }
    let called = everything.call("mcp__every__get-structured-content", json!({ "location": "New York" })).await;
    assert!(called.result()["structuredContent"]["temperature"].is_number());
    assert_eq!(called.result()["resultType"], "complete");
    let image = plain.call("get-tiny-image", json!({})).await;
    let kinds: Vec<&Value> = image.result()["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert!(kinds.contains(&&json!("image")), "{kinds:?}");
    // A resource that a result points to can be read under the name that it has there.
    let linked = everything.call("mcp__every__get-resource-links", json!({ "count": 1 })).await;
    let link = linked.result()["content"].as_array().unwrap().iter().find(|block| block["type"] == "resource_link");
    let uri = link.unwrap()["uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("kitbag-mcp:every~every/"), "{uri}");
    let read = everything.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read.result()["contents"][0]["uri"], uri);
    assert_eq!(read.result()["cacheScope"], "private");
    // Calls are recorded, in a chat of the token's own.
    let chats = server.get(CHATS).await.expect(200);
    let chat = chats["items"][0]["id"].as_str().unwrap().to_owned();
    let calls = server.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
    assert_eq!(calls["items"].as_array().unwrap().len(), 3);
    assert!(calls["items"].as_array().unwrap().iter().all(|call| call["status"] == "success"), "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_fails_with_comes_back_as_it_was_said() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "twin", twin(&[])).await;
    let mut client = Client::new(&server, "/v1/orgs/local/toolsets/twin/mcp");
    let missing = client.call("no-such-tool", json!({})).await;
    assert_eq!(missing.error()["code"], -32602);
    client.begin().await;
    let echoed = client.request(1, "tools/call", json!({ "name": "echo", "arguments": { "text": "é" } })).await;
    assert!(echoed.text().contains('é'));
    assert_eq!(echoed.result().get("resultType"), None, "what older clients do not know is not there");
}
