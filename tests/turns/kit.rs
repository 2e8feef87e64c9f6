//! A server with a stand-in for its models, and somebody who follows a turn.

use kitbag_testkit::model::StandIn;
use kitbag_testkit::{Server, TestDatabase};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::BINARY;

pub(crate) const CHATS: &str = "/v1/orgs/local/chats";

/// A server whose models are the stand-in's, both makers'.
pub(crate) fn serve(database: &TestDatabase, models: &StandIn, more: &[&str]) -> Server {
    let url = models.url();
    let mut flags = vec!["--anthropic-url", &url, "--openai-url", &url, "--model", "anthropic/claude-test"];
    flags.extend(more);
    Server::start(BINARY, database, &flags)
}

pub(crate) async fn new_chat(server: &Server) -> String {
    server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned()
}

/// One event of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// Somebody who follows a turn.
pub(crate) struct Following {
    response: Response,
    rest: String,
}

impl Following {
    pub(crate) async fn ask(server: &Server, chat: &str, body: &Value) -> Self {
        let request = server.request(Method::POST, &format!("{CHATS}/{chat}/stream"));
        Self::of(request.json(body).send().await.unwrap()).await
    }

    /// Takes a turn up again, as a browser does that lost its connection.
    pub(crate) async fn again(server: &Server, chat: &str, turn: &str, after: u64) -> Self {
        let request = server.request(Method::GET, &format!("{CHATS}/{chat}/turns/{turn}/events"));
        Self::of(request.header("Last-Event-ID", after.to_string()).send().await.unwrap()).await
    }

    pub(crate) async fn of(response: Response) -> Self {
        let status = response.status();
        assert_eq!(status, 200, "{}", response.text().await.unwrap());
        Self { response, rest: String::new() }
    }

    /// The next event; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())) {
                self.rest = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let Some(name) = field("event:") else { continue };
                let data = serde_json::from_str(field("data:").unwrap()).unwrap();
                return Some(Event { id: field("id:").unwrap().parse().unwrap(), name: name.to_owned(), data });
            }
            let more = self.response.chunk().await.unwrap()?;
            self.rest.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    /// The next event for which something holds.
    pub(crate) async fn until(&mut self, is: impl Fn(&Event) -> bool) -> Event {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            if is(&event) {
                return event;
            }
            seen.push(event);
        }
        panic!("it never came; what came: {seen:#?}")
    }

    pub(crate) async fn named(&mut self, name: &str) -> Event {
        self.until(|event| event.name == name).await
    }

    /// Everything that follows.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// A whole turn, to its end.
pub(crate) async fn turn(server: &Server, chat: &str, body: &Value) -> Vec<Event> {
    Following::ask(server, chat, body).await.rest().await
}

/// The last event of a turn, which says how it ended.
pub(crate) fn end(events: &[Event]) -> &Value {
    let last = events.last().unwrap();
    assert_eq!(last.name, "done", "{events:#?}");
    &last.data
}

/// The messages of a chat, in the order they were added.
pub(crate) async fn messages(server: &Server, chat: &str) -> Vec<Value> {
    server.get(&format!("{CHATS}/{chat}/messages")).await.expect(200)["items"].as_array().unwrap().clone()
}

/// The blocks of a message, without its first, which says what turn it is.
pub(crate) fn blocks(message: &Value) -> Vec<Value> {
    message["content"].as_array().unwrap()[1..].to_vec()
}

pub(crate) async fn decide(server: &Server, chat: &str, call: &Value, approve: bool) {
    let path = format!("{CHATS}/{chat}/tool-calls/{}/decision", call["id"].as_str().unwrap());
    let answer = server.post(&path, &json!({ "approve": approve })).await;
    assert!(answer.status.is_success(), "{answer:?}");
}

pub(crate) async fn file(server: &Server, chat: &str, path: &str) -> Option<String> {
    let request = server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/files/{path}"));
    let response = request.send().await.unwrap();
    match response.status().as_u16() {
        200 => Some(response.text().await.unwrap()),
        404 => None,
        other => panic!("{other}: {}", response.text().await.unwrap()),
    }
}
