//! The stream of events.

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Server, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::calls::{at, pending};
use crate::kit::{TOOLSETS, import, manifest, override_path, put, with_manifest};
use crate::{CHATS, new_chat, serve};

pub(crate) const EVENTS: &str = "/v1/orgs/local/events";

/// Somebody who listens.
pub(crate) struct Listener {
    response: reqwest::Response,
    heard: String,
}

impl Listener {
    /// Listens from now on.
    pub(crate) async fn new(server: &Server, query: &str) -> Self {
        let response = server.request(Method::GET, &format!("{EVENTS}{query}")).send().await.unwrap();
        Self::of(response).await
    }

    /// Whoever sends this request listens from now on.
    pub(crate) async fn by(request: reqwest::RequestBuilder) -> Self {
        Self::of(request.send().await.unwrap()).await
    }

    pub(crate) async fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut listener = Self { response, heard: String::new() };
        assert_eq!(listener.next().await, Some(("ready".to_owned(), json!({}))));
        listener
    }

    /// The next event; none when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((block, rest)) = self.heard.split_once("\n\n") {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let event = field("event:").zip(field("data:"));
                let event = event.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap()));
                self.heard = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let part = self.response.chunk().await.unwrap()?;
            self.heard.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    /// The next event of this name; others are passed over.
    pub(crate) async fn of_name(&mut self, wanted: &str) -> Value {
        loop {
            let (name, data) = self.next().await.expect("the stream goes on");
            if name == wanted {
                return data;
            }
        }
    }
}

on_both! {
    async fn chats_that_come_change_and_go_are_told(database: TestDatabase) {
        let server = serve(&database);
        let mut listener = Listener::new(&server, "").await;
        let chat = new_chat(&server).await;
        let path = format!("{CHATS}/{chat}");
        Answer::of(server.request(Method::PATCH, &path).json(&json!({ "title": "Beans" }))).await.expect(200);
        let first = server.post(&format!("{path}/messages"), &json!({ "role": "user", "content": "a" })).await.expect(201);
        server.post(&format!("{path}/active-leaf"), &json!({ "messageId": first["id"] })).await.expect(200);
        server.delete(&path).await.expect(204);
        for reason in ["created", "changed", "message", "branch", "deleted"] {
            assert_eq!(listener.of_name("chat_changed").await, json!({ "chatId": chat, "reason": reason }));
        }
    }


    async fn a_call_is_told_when_it_is_asked_for_and_when_it_is_over(database: TestDatabase) {
        let server = serve(&database);
        let (chat, other) = (new_chat(&server).await, new_chat(&server).await);
        let mut all = Listener::new(&server, "").await;
        let mut one = Listener::new(&server, &format!("?chat={other}")).await;
        let call = pending(&server, &chat).await;
        assert_eq!(all.next().await, Some(("tool_call".to_owned(), call.clone())));
        server.post(&format!("{}/cancel", at(&call)), &json!({})).await.expect(200);
        let over = all.of_name("tool_call").await;
        assert_eq!((&over["id"], &over["error"]["code"]), (&call["id"], &json!("CANCELLED")));
        let there = pending(&server, &other).await;
        assert_eq!(one.next().await, Some(("tool_call".to_owned(), there)), "what happened in the first chat is not told here");
    }

    async fn changes_of_files_and_tools_are_told(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let mut listener = Listener::new(&server, &format!("?chat={chat}")).await;
        let file = format!("{CHATS}/{chat}/workspace/files/a%20b.txt");
        Answer::of(server.request(Method::PUT, &file).body("x")).await.expect(201);
        let told = listener.of_name("workspace_changed").await;
        assert_eq!((&told["chatId"], &told["changedPaths"], &told["deletedPaths"]), (&json!(chat), &json!(["a b.txt"]), &json!([])));
        assert_eq!((&told["source"], &told["changedCount"]), (&json!("edit"), &json!(1)));
        server.delete(&file).await;
        let told = listener.of_name("workspace_changed").await;
        assert_eq!((&told["changedPaths"], &told["deletedPaths"]), (&json!([]), &json!(["a b.txt"])));
        let tools = "tools:\n  - {id: run, entrypoint: \"tools.t:f\"}\n";
        import(&server, "", &with_manifest(&manifest("app", "1.0.0", tools))).await.expect(201);
        put(&server, &override_path("app", "app:run"), &json!({ "nameOverride": "Run" })).await.expect(200);
        server.post(&format!("{TOOLSETS}/app/enable"), &json!({ "enabled": false })).await.expect(200);
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        for reason in ["import", "override", "disable", "uninstall"] {
            assert_eq!(listener.of_name("tools_changed").await, json!({ "toolsetId": "app", "reason": reason }));
        }
    }

    async fn nobody_hears_another_organisation(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let token = add_token(&store, &other, "use").await;
        let theirs = |method, path: &str| server.anonymous(method, path).bearer_auth(&token);
        let mut listener = Listener::of(theirs(Method::GET, "/v1/orgs/other/events").send().await.unwrap()).await;
        let path = format!("/v1/orgs/other/events?chat={chat}");
        Answer::of(theirs(Method::GET, &path)).await.expect_error(404, "NOT_FOUND");
        pending(&server, &chat).await;
        let own = Answer::of(theirs(Method::POST, "/v1/orgs/other/chats").json(&json!({}))).await.expect(201);
        let own = own["id"].as_str().unwrap();
        let body = json!({ "toolId": "run_command", "args": { "command": "x" } });
        let call = Answer::of(theirs(Method::POST, &format!("/v1/orgs/other/chats/{own}/tool-calls")).json(&body)).await.expect(202);
        let made = json!({ "chatId": own, "reason": "created" });
        assert_eq!(listener.next().await, Some(("chat_changed".to_owned(), made)), "the first that is heard is the own one");
        assert_eq!(listener.next().await, Some(("tool_call".to_owned(), call)));
    }

    async fn listeners_do_not_keep_a_server_from_stopping(database: TestDatabase) {
        let mut server = serve(&database);
        let mut listener = Listener::new(&server, "").await;
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(listener.next().await, None);
        assert!(server.wait().success());
        assert!(!server.log().contains("did not finish in time"), "{}", server.log());
    }
}
