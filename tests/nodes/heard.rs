//! What happens at one node is heard at the others.

use std::time::Duration;

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{CHATS, Installation, ask_nobody, begin, command, new_chat, nodes, output};

/// Somebody who listens to events.
pub(crate) struct Listener(reqwest::Response, String);

impl Listener {
    pub(crate) async fn new(server: &Server, token: &str) -> Self {
        let request = server.anonymous(Method::GET, "/v1/orgs/local/events").bearer_auth(token);
        let mut listener = Self(request.send().await.unwrap().error_for_status().unwrap(), String::new());
        listener.until(|name, _| name == "ready").await;
        listener
    }

    /// The next event; none when there are no more.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.1.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.1 = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let (Some(name), Some(data)) = (field("event:"), field("data:")) {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            let piece =
                tokio::time::timeout(Duration::from_secs(60), self.0.chunk()).await.expect("something is heard");
            self.1.push_str(std::str::from_utf8(&piece.ok()??).unwrap());
        }
    }

    pub(crate) async fn until(&mut self, fits: impl Fn(&str, &Value) -> bool) -> Value {
        loop {
            let (name, data) = self.next().await.expect("an event");
            if fits(&name, &data) {
                return data;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_the_listeners_of_every_node() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let token = json!({ "name": "a listener", "scopes": ["use"] });
    let token = first.post("/v1/orgs/local/tokens", &token).await.expect(201);
    let mut heard = Listener::new(&second, token["secret"].as_str().unwrap()).await;

    let chat = new_chat(&first).await;
    heard.until(|name, data| name == "chat_changed" && data["chatId"] == *chat).await;
    output(command(&first, &chat, "echo something >file").await);
    let call = heard.until(|name, data| name == "tool_call" && data["status"] == "success").await;
    assert_eq!(call["toolId"], "run_command");
    // The change of the files comes before the end of the call, or after it.
    output(command(&first, &chat, "echo other >file").await);
    let change = heard.until(|name, _| name == "workspace_changed").await;
    assert_eq!(change["changedPaths"], json!(["file"]));
    begin(&first, &chat, "for n in 1 2 3; do echo line $n; sleep 0.2; done").await;
    heard.until(|name, data| name == "tool_call" && data["status"] == "success").await;
    ask_nobody(&first).await;
    let tools = heard.until(|name, _| name == "tools_changed").await;
    assert_eq!(tools["reason"], "override");

    // Whose rights end at one node hears nothing at another that came after.
    let id = token["id"].as_str().unwrap();
    first.delete(&format!("/v1/orgs/local/tokens/{id}")).await.expect(204);
    let after = new_chat(&first).await;
    while let Some((_, data)) = heard.next().await {
        assert_ne!(data["chatId"], *after);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_hold_at_once_and_quotas_for_all_nodes_together() {
    let (_installation, servers) = nodes::<2>().await;
    let [first, second] = &servers;
    let chats = [new_chat(first).await, new_chat(second).await];
    // They are remembered.
    output(command(second, &chats[1], "true").await);
    let mut heard = Listener::new(second, &second.token).await;
    let limit = json!({ "quotas": { "callsPerMinute": 3 } });
    Answer::of(first.request(Method::PUT, "/v1/orgs/local/settings").json(&limit)).await.expect(200);
    // What is heard after them was told after them.
    let after = new_chat(first).await;
    heard.until(|name, data| name == "chat_changed" && data["chatId"] == *after).await;
    let mut made = 0;
    let refused = loop {
        let node = made % 2;
        let answer = command(&servers[node], &chats[node], "true").await;
        if answer.status != 200 {
            break answer;
        }
        made += 1;
    };
    refused.expect_error(429, "QUOTA_EXCEEDED");
    assert!(refused.headers.contains_key("retry-after"));
    // One may have come back meanwhile. If each node counted for itself, there would be six.
    assert!((3..=4).contains(&made), "{made} calls were made");
}

/// Puts a file of so many bytes into a chat's workspace.
async fn put(server: &Server, chat: &str, name: &str, bytes: usize) -> Answer {
    let path = format!("{CHATS}/{chat}/workspace/files/{name}");
    Answer::of(server.request(Method::PUT, &path).body(name.repeat(bytes / name.len()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_workspaces_take_is_counted_over_all_nodes() {
    let installation = Installation::in_bucket(2).await;
    let [first, second] = [0, 1].map(|node| installation.start(node, &[]));
    let mut heard = Listener::new(&second, &second.token).await;
    let limit = json!({ "quotas": { "workspaceBytes": 1_000_000 } });
    Answer::of(first.request(Method::PUT, "/v1/orgs/local/settings").json(&limit)).await.expect(200);
    let chats = [new_chat(&first).await, new_chat(&second).await];
    heard.until(|name, data| name == "chat_changed" && data["chatId"] == *chats[0]).await;
    // Both know the quota, and count from here on.
    for (server, chat) in [&first, &second].into_iter().zip(&chats) {
        put(server, chat, "small", 100).await.expect(201);
    }
    put(&first, &chats[0], "first", 600_000).await.expect(201);
    let is_it = |name: &str, data: &Value| name == "workspace_changed" && data["changedPaths"] == json!(["first"]);
    heard.until(is_it).await;
    put(&second, &chats[1], "second", 600_000).await.expect_error(429, "QUOTA_EXCEEDED");
    put(&second, &chats[1], "third", 300_000).await.expect(201);
}
