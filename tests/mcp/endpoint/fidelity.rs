//! What need not be changed travels as it is: a client cannot tell that there is somebody in between.

use kitbag_testkit::TestDatabase;
use serde_json::{Value, json};

use super::Client;
use crate::kit::{CHATS, connect, node, rich, twin};
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_structured_and_no_object_costs_older_clients_nothing() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "loose", rich(&["--loose"])).await;
    for (path, name) in [
        ("/v1/orgs/local/mcp-servers/loose~loose/mcp", "numbers"),
        ("/v1/orgs/local/toolsets/loose/mcp", "numbers"),
        ("/mcp", "mcp__loose__numbers"),
    ] {
        let mut client = Client::new(&server, path);
        client.begin().await;
        let call = json!({ "name": name, "arguments": {} });
        let listed = [client.ask("tools/list", json!({})).await, client.request(1, "tools/list", json!({})).await];
        let called = [client.ask("tools/call", call.clone()).await, client.request(2, "tools/call", call).await];
        let schema = |heard: &super::Heard| {
            let tools = heard.result()["tools"].as_array().unwrap().clone();
            let tool = tools.into_iter().find(|tool| tool["name"] == name).unwrap();
            tool.get("outputSchema").cloned()
        };
        assert_eq!(schema(&listed[0]), Some(json!({ "type": "array", "items": { "type": "integer" } })), "{path}");
        assert_eq!(schema(&listed[1]), None, "{path}");
        assert_eq!(called[0].result()["structuredContent"], json!([1, 2]), "{path}");
        assert_eq!(called[1].result().get("structuredContent"), None, "{path}");
        assert!(called.iter().all(|heard| heard.text() == "[1, 2]"), "{path}");
        // Those that are objects are for all.
        let link = json!({ "name": name.replace("numbers", "link"), "arguments": {} });
        assert!(client.request(3, "tools/call", link).await.result()["structuredContent"].is_object(), "{path}");
    }
    let chats = server.get(CHATS).await.expect(200);
    let chat = chats["items"][0]["id"].as_str().unwrap().to_owned();
    let calls = server.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
    for call in calls["items"].as_array().unwrap() {
        assert_eq!(call["warnings"], json!([]), "it is what its server declares: {call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_its_server_runs_as_a_task_alone_is_called_like_any_other() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "every", node("server-everything", &["stdio"])).await;
    let name = "mcp__every__simulate-research-query";
    let mut client = Client::new(&server, "/mcp").offering(json!({ "elicitation": {} }));
    client.begin().await;
    for listed in [client.ask("tools/list", json!({})).await, client.request(1, "tools/list", json!({})).await] {
        let tools = listed.result()["tools"].as_array().unwrap().clone();
        let tool = tools.into_iter().find(|tool| tool["name"] == name).unwrap();
        assert_eq!(tool.get("execution"), None, "a client would ask for a task, which it cannot have here: {tool}");
    }
    let arguments = json!({ "topic": "tides", "ambiguous": false });
    let newest = client.call(name, arguments.clone()).await;
    assert!(newest.text().contains("# Research Report: tides"), "{:?}", newest.messages);
    assert_eq!(newest.result().get("_meta"), None, "nothing is said of a task that nobody here knows");
    // It asks its client something while its result is waited for.
    let arguments = json!({ "topic": "python", "ambiguous": true });
    let yes = json!({ "action": "accept", "content": { "interpretation": "snake" } });
    let (question, result) = client.answering(2, name, arguments, yes).await;
    assert_eq!(question["method"], "elicitation/create");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("# Research Report: python (snake)"), "{result}");
}

/// What was said over the pipes, line by line, without the numbers of the messages.
async fn straight(launch: &Value, requests: &[(&'static str, Value)]) -> Vec<String> {
    use std::io::{BufRead, BufReader, Write};
    let (launch, requests) = (launch.clone(), requests.to_vec());
    let talk = move || {
        #[allow(clippy::disallowed_methods, reason = "it is spoken with around the program")]
        let mut child = std::process::Command::new(launch["command"].as_str().unwrap())
            .args(launch["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let first = [("initialize", hello)];
        let said = first.iter().chain(&requests).map(|(method, params)| {
            writeln!(to, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).unwrap();
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            result_of(&line)
        });
        let said: Vec<String> = said.collect();
        child.kill().unwrap();
        child.wait().unwrap();
        said[1..].to_vec()
    };
    tokio::task::spawn_blocking(talk).await.unwrap()
}

/// The very text of a message's result.
fn result_of(message: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Message<'m> {
        #[serde(borrow)]
        result: &'m serde_json::value::RawValue,
    }
    let message: Message<'_> = serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {message}"));
    message.result.get().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_comes_through_its_own_endpoint_byte_by_byte() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let launch = rich(&[]);
    connect(&server, "rich", launch.clone()).await;
    let requests = [
        ("tools/call", json!({ "name": "link", "arguments": {} })),
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "thing://one" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "say" })),
    ];
    let direct = straight(&launch, &requests).await;
    let mut client = Client::new(&server, "/v1/orgs/local/mcp-servers/rich~rich/mcp");
    client.begin().await;
    for ((method, params), direct) in requests.iter().zip(&direct) {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = client.in_session(&body).send().await.unwrap().text().await.unwrap();
        let answer =
            answer.lines().find_map(|line| line.strip_prefix("data: {")).map_or(answer.clone(), |it| format!("{{{it}"));
        assert_eq!(result_of(&answer), *direct, "{method}");
    }
    // A definition is put together anew, and has everything that its server said, in its words.
    let listed = straight(&launch, &[("tools/list", json!({}))]).await;
    let (listed, ours): (Value, Value) =
        (serde_json::from_str(&listed[0]).unwrap(), client.request(2, "tools/list", json!({})).await.result().clone());
    assert_eq!(ours, listed);
}
