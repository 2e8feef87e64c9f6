//! The older way over HTTP: a stream, and an address to post to.

use kitbag_mcp::endpoint::Endpoint;
use kitbag_model::RemoteKind;
use kitbag_testkit::{Server, TestDatabase};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::{call, names, open, text};
use crate::endpoint::token;
use crate::kit::{add, connect, connected, node, twin, with};
use crate::serve;

fn endpoint(server: &Server, query: &str) -> Endpoint {
    let url = format!("{}/sse{query}", server.url).parse().unwrap();
    let headers = vec![("Authorization".to_owned(), format!("Bearer {}", server.token))];
    Endpoint::Remote { kind: RemoteKind::Sse, url, headers }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_client_over_the_older_way() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "everything", node("server-everything", &["stdio"])).await;
    let (connection, mut notices) = open(&endpoint(&server, "")).await;
    assert!(!connection.is_stateless());
    assert!(names(&connection).await.contains(&"read_file".to_owned()));
    let said = text(&connection, "mcp__everything__echo", json!({ "message": "hello" })).await;
    assert!(said.contains("hello"), "{said}");
    let (sender, mut progress) = unbounded_channel();
    let long = "mcp__everything__trigger-long-running-operation";
    let (mut working, _stop) = call(long, json!({ "duration": 1, "steps": 4 }));
    working.progress = Some(sender);
    connection.call(working).await.unwrap();
    assert!(std::iter::from_fn(|| progress.try_recv().ok()).count() >= 3);
    connect(&server, "twin", twin(&[])).await;
    while notices.recv().await.unwrap() != kitbag_mcp::connection::Notice::ToolsChanged {}
    connection.close().await;

    let (connection, _notices) =
        open(&endpoint(&server, "?toolsets=everything&disabled_tools=mcp:everything~everything:echo")).await;
    let names = names(&connection).await;
    assert!(names.iter().all(|name| name.starts_with("mcp__everything__") && !name.ends_with("__echo")), "{names:?}");
    connection.close().await;
}

/// A stream that is read by hand.
struct Line {
    response: Response,
    heard: String,
    post: String,
}

impl Line {
    async fn open(server: &Server, token: &str, path: &str) -> Self {
        let response = server.anonymous(Method::GET, path).bearer_auth(token).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let mut line = Self { response, heard: String::new(), post: String::new() };
        let (event, data) = line.next().await;
        assert_eq!(event, "endpoint");
        line.post = data;
        line
    }

    async fn next(&mut self) -> (String, String) {
        loop {
            while let Some((block, rest)) = self.heard.split_once("\n\n") {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let event = field("event: ").zip(field("data: "));
                self.heard = rest.to_owned();
                if let Some(event) = event {
                    return event;
                }
            }
            let part = self.response.chunk().await.unwrap().expect("the stream goes on");
            self.heard.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (event, data) = self.next().await;
            assert_eq!(event, "message");
            let message: Value = serde_json::from_str(&data).unwrap();
            if fits(&message) {
                return message;
            }
        }
    }
}

async fn say(server: &Server, token: &str, post: &str, mut message: Value) -> u16 {
    message["jsonrpc"] = json!("2.0");
    let request = server.anonymous(Method::POST, post).bearer_auth(token).json(&message);
    request.send().await.unwrap().status().as_u16()
}

fn greeting() -> Value {
    let params = json!({
        "protocolVersion": "2024-11-05", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "id": 0, "method": "initialize", "params": params })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_its_owners_and_lasts_as_long_as_its_stream() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    add(&server, "twin", with(twin(&[]), json!({ "requiresConfirmation": true }))).await;
    connected(&server, "twin").await;
    let (mine, other) = (token(&server, "mine", &["use"]).await, token(&server, "another", &["use"]).await);
    assert_eq!(server.anonymous(Method::GET, "/sse").send().await.unwrap().status(), 401);
    let bad = server.anonymous(Method::GET, "/sse?toolsets=nothing").bearer_auth(&mine).send().await.unwrap();
    assert_eq!(bad.status(), 400);
    assert!(bad.text().await.unwrap().contains("Unknown toolset: nothing"));

    let mut line = Line::open(&server, &mine, "/sse?toolsets=twin").await;
    let post = line.post.clone();
    assert!(post.starts_with("/messages?sessionId="), "{post}");
    // Before it has begun there is a pulse, and nothing else.
    assert_eq!(say(&server, &mine, &post, json!({ "id": 8, "method": "ping" })).await, 202);
    assert_eq!(line.until(|message| message["id"] == 8).await["result"], json!({}));
    assert_eq!(say(&server, &mine, &post, json!({ "id": 9, "method": "tools/list" })).await, 202);
    assert!(line.until(|message| message["id"] == 9).await["error"].is_object());
    assert_eq!(say(&server, &mine, &post, greeting()).await, 202);
    let hello = line.until(|message| message["id"] == 0).await;
    assert_eq!(hello["result"]["protocolVersion"], "2024-11-05", "{hello}");
    assert_eq!(say(&server, &mine, &post, json!({ "method": "notifications/initialized" })).await, 202);
    assert_eq!(say(&server, &mine, &post, greeting()).await, 202);
    assert!(line.until(|message| message["id"] == 0).await["error"].is_object());

    // Another's is not there, and one that never was is the same.
    for (token, post) in [(&other, post.as_str()), (&mine, "/messages?sessionId=0"), (&mine, "/messages")] {
        assert_eq!(say(&server, token, post, json!({ "id": 1, "method": "tools/list" })).await, 404, "{post}");
    }
    let request = server.anonymous(Method::POST, &post).bearer_auth(&mine).header("content-type", "application/json");
    assert_eq!(request.body("nonsense").send().await.unwrap().status(), 400);

    // Its person is asked on the same stream.
    let params = json!({ "name": "mcp__twin__echo", "arguments": { "text": "please" } });
    say(&server, &mine, &post, json!({ "id": 2, "method": "tools/call", "params": params })).await;
    let question = line.until(|message| message["method"] == "elicitation/create").await;
    let yes = json!({ "id": question["id"], "result": { "action": "accept", "content": {} } });
    assert_eq!(say(&server, &mine, &post, yes).await, 202);
    let done = line.until(|message| message["id"] == 2 && message.get("method").is_none()).await;
    assert_eq!(done["result"]["content"][0]["text"], "please", "{done}");

    // It ends with its stream.
    drop(line);
    for _ in 0..1200 {
        if say(&server, &mine, &post, json!({ "id": 3, "method": "ping" })).await == 404 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it never ended");
}
