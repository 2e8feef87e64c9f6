//! What goes on to the servers behind, what does not, and what Kitbag has beside them: nobody's token, no tasks that nobody could ask for, and
//! the files of the chat.

use kitbag_testkit::{Behind, Server, TestDatabase};
use serde_json::{Value, json};

use super::tasks::Stream;
use super::{Client, token};
use crate::kit::{CHATS, add, bundle, connected, import, new_chat};
use crate::serve;

async fn connect(server: &Server, id: &str, behind: &Behind) {
    add(server, id, json!({ "serverType": "streamable-http", "url": behind.url() })).await;
    connected(server, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_token_stays_here() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let agent = token(&server, "an agent", &["use"]).await;
    for (id, is_newest) in [("newest", true), ("session", false)] {
        let behind = Behind::start(is_newest).await;
        connect(&server, id, &behind).await;
        let own = format!("/v1/orgs/local/mcp-servers/{id}~{id}/mcp");
        for (path, name) in [(own.as_str(), "echo".to_owned()), ("/mcp", format!("mcp__{id}__echo"))] {
            let mut client = Client::new(&server, path)
                .with_token(&agent)
                .with("X-Mcp-Disabled-Tools", "")
                .with("Cookie", "kitbag=c00kie")
                .with("X-Api-Key", "k3y-of-the-client");
            client.begin().await;
            let call = json!({ "name": name, "arguments": { "text": "hi" } });
            assert!(client.ask("tools/call", call.clone()).await.text().contains("hi"));
            assert!(client.request(1, "tools/call", call).await.text().contains("hi"));
            client.ask("x/unknown", json!({})).await;
        }
        let sent = behind.sent();
        assert_eq!(behind.calls().len(), 4);
        for one in &sent {
            let all = format!("{:?} {}", one.headers, one.message);
            for secret in [agent.as_str(), server.token.as_str(), "c00kie", "k3y-of-the-client"] {
                assert!(!all.contains(secret), "{all}");
            }
            for name in ["authorization", "cookie", "x-mcp-disabled-tools"] {
                assert!(!one.headers.contains_key(name), "{all}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_no_task_that_it_could_not_ask_for() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let behind = Behind::start(false).await;
    connect(&server, "behind", &behind).await;
    for path in ["/v1/orgs/local/mcp-servers/behind~behind/mcp", "/v1/orgs/local/toolsets/behind/mcp"] {
        let tasks = json!({ "requests": { "elicitation": { "create": {} } } });
        let mut client = Client::new(&server, path).offering(json!({ "elicitation": {}, "tasks": tasks }));
        let hello = client.begin().await;
        let capabilities = &hello.result()["capabilities"];
        assert!(capabilities["tools"].is_object() && capabilities.get("tasks").is_none(), "{capabilities}");
        let call = json!({ "name": "question", "arguments": { "a": 1 }, "task": { "ttl": 1000 } });
        let heard = client.request(1, "tools/call", call).await;
        let got: Value = serde_json::from_str(heard.text()).unwrap();
        assert_eq!((&got["arguments"], got.get("task")), (&json!({ "a": 1 }), None), "{got}");
    }
    let offered = behind.sent().into_iter().filter(|sent| sent.message["method"] == "initialize");
    for one in offered {
        assert!(one.message["params"]["capabilities"].get("tasks").is_none(), "{}", one.message);
    }
}

/// A chat that may use little of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_chats_selectors_hold_for_lists_and_calls_alike() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let code = "def run(workspace) -> str:\n    \"\"\"Says hello.\"\"\"\n    return \"hello\"\n";
    let tools = "tools:\n  - {id: one, entrypoint: \"tools.it:run\"}\n  - {id: two, entrypoint: \"tools.it:run\"}\n";
    import(&server, bundle("app", "1.0.0", tools, &[("tools/it.py", code)])).await;
    let chat = new_chat(&server).await;
    let choose = async |chat: &str, selectors: Value| {
        let request = server.request(reqwest::Method::PATCH, &format!("{CHATS}/{chat}"));
        let changed = request.json(&json!({ "toolSelectors": selectors })).send().await.unwrap();
        assert_eq!(changed.status(), 200);
    };
    choose(&chat, json!(["toolset:app", "-app:two"])).await;
    let available = server.get(&format!("/v1/orgs/local/available-tools?chat={chat}")).await.expect(200);
    assert_eq!(available["items"].as_array().unwrap().len(), 1);
    let mut named = Client::new(&server, "/mcp").with("X-Mcp-Chat", &chat);
    assert_eq!(named.tools().await, ["app__one"]);
    let one = json!({ "name": "app__one", "arguments": {} });
    let two = json!({ "name": "app__two", "arguments": {} });
    assert_eq!(named.ask("tools/call", one.clone()).await.text(), "hello");
    assert_eq!(named.request(2, "tools/call", one.clone()).await.text(), "hello");
    for heard in [named.ask("tools/call", two.clone()).await, named.request(3, "tools/call", two.clone()).await] {
        assert_eq!(heard.error(), &json!({ "code": -32602, "message": "Unknown tool: app__two" }));
    }
    let dynamic = Client::new(&server, "/mcp").with("X-Mcp-Chat", &chat).with("X-Mcp-Dynamic", "yes");
    let listed = dynamic.call("list_tools", json!({ "toolset": "app" })).await;
    assert!(listed.text().contains("app__one") && !listed.text().contains("app__two"), "{}", listed.text());
    assert!(!dynamic.call("search_tools", json!({ "query": "two" })).await.text().contains("app__two"));
    let called = dynamic.call("call_tool", json!({ "tool": "app__two" })).await;
    assert!(called.result()["isError"] == true && called.text().contains("not found"), "{}", called.text());

    // Other chats have all of it, and this one has, too, when it may, which its clients hear of.
    let mut other = Client::new(&server, "/mcp").with("X-Mcp-Toolsets", "app");
    assert_eq!(other.tools().await, ["app__one", "app__two"]);
    assert_eq!(other.ask("tools/call", two.clone()).await.text(), "hello");
    let mut stream = Stream::open(&named, &json!({ "notifications": { "toolsListChanged": true } })).await;
    let mut own_stream = Stream::open(&other, &json!({ "notifications": { "toolsListChanged": true } })).await;
    for stream in [&mut stream, &mut own_stream] {
        assert_eq!(stream.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    choose(&chat, Value::Null).await;
    assert_eq!(stream.next().await["method"], "notifications/tools/list_changed");
    assert!(named.request(4, "tools/list", json!({})).await.names().contains(&"app__two"));
    assert_eq!(named.request(5, "tools/call", two.clone()).await.text(), "hello");

    // The chat that is kept for a token has selectors like any other.
    let chats = server.get(CHATS).await.expect(200);
    let own = chats["items"].as_array().unwrap().iter().find(|found| found["id"] != chat.as_str()).unwrap();
    choose(own["id"].as_str().unwrap(), json!(["app:two"])).await;
    assert_eq!(own_stream.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(other.tools().await, ["app__two"]);
    assert_eq!(other.request(6, "tools/call", one).await.error()["code"], -32602);
    assert_eq!(other.request(7, "tools/call", two).await.text(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_chat_are_resources() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let mut client = Client::new(&server, "/mcp").with("X-Mcp-Chat", &chat);
    client.begin().await;
    let put = async |path: &str, bytes: &[u8]| {
        let request = server.request(reqwest::Method::PUT, &format!("{CHATS}/{chat}/workspace/files/{path}"));
        let answer = request.header("if-none-match", "*").body(bytes.to_vec()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    };
    put("notes/a%20b.md", b"# Hello").await;
    put("picture.png", b"\x89PNG\xff").await;
    let heard = async |method: &str, params: Value| {
        [client.ask(method, params.clone()).await, client.request(1, method, params).await]
    };
    for heard in heard("resources/list", json!({})).await {
        let all = heard.result()["resources"].as_array().unwrap();
        let files: Vec<&Value> =
            all.iter().filter(|one| one["uri"].as_str().unwrap().starts_with("workspace:///")).collect();
        let notes =
            json!({ "uri": "workspace:///notes/a%20b.md", "name": "a b.md", "size": 7, "mimeType": "text/markdown" });
        let picture =
            json!({ "uri": "workspace:///picture.png", "name": "picture.png", "size": 5, "mimeType": "image/png" });
        assert_eq!(files, [&notes, &picture]);
    }
    for heard in heard("resources/templates/list", json!({})).await {
        let all = heard.result()["resourceTemplates"].as_array().unwrap();
        assert!(all.iter().any(|one| one["uriTemplate"] == "workspace:///{+path}"), "{all:?}");
    }
    for heard in heard("resources/read", json!({ "uri": "workspace:///notes/a%20b.md" })).await {
        let content = &heard.result()["contents"][0];
        assert_eq!((&content["text"], &content["mimeType"]), (&json!("# Hello"), &json!("text/markdown")));
    }
    for heard in heard("resources/read", json!({ "uri": "workspace:///picture.png" })).await {
        let content = &heard.result()["contents"][0];
        assert_eq!((&content["blob"], &content["mimeType"]), (&json!("iVBOR/8="), &json!("image/png")));
    }
    for missing in
        ["workspace:///none", "workspace:///notes", "workspace:///../../etc/passwd", "workspace:////etc/passwd"]
    {
        let [newest, session] = heard("resources/read", json!({ "uri": missing })).await;
        assert_eq!((&newest.error()["code"], &session.error()["code"]), (&json!(-32602), &json!(-32002)), "{missing}");
    }
    // Another token's own chat has none of them, and to look makes no chat.
    let stranger = token(&server, "a stranger", &["use"]).await;
    let stranger = Client::new(&server, "/mcp").with_token(&stranger);
    let listed = stranger.ask("resources/list", json!({})).await;
    assert!(!listed.result().to_string().contains("workspace:///"), "{}", listed.result());
    let read = stranger.ask("resources/read", json!({ "uri": "workspace:///picture.png" })).await;
    assert_eq!(read.error()["code"], -32602);
    assert_eq!(server.get(CHATS).await.expect(200)["items"].as_array().unwrap().len(), 1);
}
