//! What clients want to hear of: resources of servers, files of the workspace, and who of several listeners hears what.

use std::fs;
use std::path::Path;

use kitbag_testkit::endpoint::Stream;
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};

use super::Client;
use crate::conformance::Fixture;
use crate::kit::{CHATS, connect, new_chat, rich, until_so};
use crate::serve;

const UPDATED: &str = "notifications/resources/updated";
const ONE: &str = "kitbag-mcp:a~a/thing://one";

/// How often a twin was asked for something.
fn times(heard: &Path, method: &str) -> usize {
    let text = fs::read_to_string(heard).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"{method}\""))).count()
}

/// A subscription of a client without a session, and what of it is honoured.
async fn listening(client: &Client<'_>, uris: &[&str]) -> (Stream, Value) {
    let params = json!({ "notifications": { "resourceSubscriptions": uris } });
    let mut stream = Stream::of(client.asking("subscriptions/listen", params).send().await.unwrap());
    let honoured = stream.until("notifications/subscriptions/acknowledged").await;
    (stream, honoured["params"]["notifications"]["resourceSubscriptions"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_resource_is_asked_for_once_and_again_when_it_comes_back() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    connect(&server, "a", rich(&["--heard", heard.to_str().unwrap()])).await;
    connect(&server, "b", rich(&["b"])).await;
    let mut client = Client::new(&server, "/mcp");
    client.begin().await;
    let mut told = client.listen(None).await;
    for id in 1..4 {
        client.request(id, "resources/subscribe", json!({ "uri": ONE })).await.result();
    }
    assert_eq!(times(&heard, "resources/subscribe"), 1);
    let newest = Client::new(&server, "/mcp");
    let gone = "kitbag-mcp:a~a/thing://none";
    let (mut stream, honoured) = listening(&newest, &[ONE, gone, "kitbag-mcp:no~no/x:y", "workspace:///../x"]).await;
    assert_eq!(honoured, json!([ONE]));
    let refused = client.request(4, "resources/subscribe", json!({ "uri": gone })).await;
    assert_eq!(refused.error()["code"], -32002);
    let touch = json!({ "name": "mcp__a__touch", "arguments": { "uri": "thing://one" } });
    client.request(5, "tools/call", touch.clone()).await.result();
    assert_eq!(told.until(UPDATED).await["params"], json!({ "uri": ONE }));
    assert_eq!(stream.until(UPDATED).await["params"]["uri"], ONE);
    // It ends, and whoever is there then knows nothing of what was wanted.
    let asked = times(&heard, "resources/subscribe");
    client.request(6, "tools/call", json!({ "name": "mcp__a__die", "arguments": {} })).await;
    until_so("it is asked for again", || times(&heard, "resources/subscribe") >= asked + 2).await;
    assert_eq!(told.until(UPDATED).await["params"]["uri"], ONE, "what happened meanwhile nobody knows");
    client.request(7, "tools/call", touch).await.result();
    told.until(UPDATED).await;
    // With the last who wanted it the server is told so.
    client.request(8, "resources/unsubscribe", json!({ "uri": ONE })).await.result();
    client.request(9, "resources/read", json!({ "uri": ONE })).await.result();
    assert_eq!(times(&heard, "resources/unsubscribe"), 0, "somebody else still wants it");
    drop(stream);
    until_so("nobody wants it", || times(&heard, "resources/unsubscribe") > 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_sessions_is_listened_to_while_somebody_wants_it() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let fixture = Fixture::start("stateless").await;
    connect(&server, "fixture", json!({ "serverType": "streamable-http", "url": fixture.url })).await;
    connect(&server, "b", rich(&["b"])).await;
    let uri = "kitbag-mcp:fixture~fixture/test://watched-resource";
    let mut client = Client::new(&server, "/mcp");
    client.begin().await;
    let mut told = client.listen(None).await;
    for id in 1..4 {
        client.request(id, "resources/subscribe", json!({ "uri": uri })).await.result();
    }
    let trigger = json!({ "name": "mcp__fixture__test_trigger_resource_update", "arguments": {} });
    // The fixture tells who listens already: the first may come before that.
    let mut id = 10;
    let heard = loop {
        client.request(id, "tools/call", trigger.clone()).await.result();
        id += 1;
        let waited = tokio::time::timeout(std::time::Duration::from_millis(500), told.until(UPDATED)).await;
        if let Ok(heard) = waited {
            break heard;
        }
    };
    assert_eq!(heard["params"], json!({ "uri": uri }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_workspace_is_heard_of_when_it_changes() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let write = async |server: &Server, name: &str, text: &str| {
        let path = format!("{CHATS}/{chat}/workspace/files/{name}");
        let answer = Answer::of(server.request(Method::PUT, &path).body(text.to_owned())).await;
        assert!(answer.status.is_success(), "{answer:?}");
    };
    write(&server, "a.txt", "1").await;
    let path = format!("/mcp?chat={chat}");
    let mut client = Client::new(&server, &path);
    client.begin().await;
    let mut told = client.listen(None).await;
    client.request(1, "resources/subscribe", json!({ "uri": "workspace:///a.txt" })).await.result();
    let newest = Client::new(&server, &path);
    let (mut stream, honoured) = listening(&newest, &["workspace:///a.txt", "workspace:///new.txt"]).await;
    assert_eq!(honoured, json!(["workspace:///a.txt", "workspace:///new.txt"]));
    write(&server, "other.txt", "x").await;
    write(&server, "new.txt", "x").await;
    write(&server, "a.txt", "2").await;
    assert_eq!(told.until(UPDATED).await["params"]["uri"], "workspace:///a.txt");
    assert_eq!(stream.until(UPDATED).await["params"]["uri"], "workspace:///new.txt");
    assert_eq!(stream.until(UPDATED).await["params"]["uri"], "workspace:///a.txt");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_listen_in_one_session_one_hears_each_message() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    let mut client = Client::new(&server, "/v1/orgs/local/mcp-servers/rich~rich/mcp");
    client.begin().await;
    let log = async |text: &str| {
        let params = json!({ "name": "log", "arguments": { "level": "error", "text": text } });
        client.request(1, "tools/call", params).await.result();
    };
    let said = |message: Value| message["params"]["data"].as_str().unwrap().to_owned();
    let (mut one, mut two) = (client.listen(None).await, client.listen(None).await);
    let mut heard = Vec::new();
    for text in ["a", "b", "c"] {
        log(text).await;
        tokio::select! {
            message = one.until("notifications/message") => heard.push(said(message)),
            message = two.until("notifications/message") => heard.push(said(message)),
        }
    }
    assert_eq!(heard, ["a", "b", "c"]);
    // Who goes on where one broke off hears what that one would have, and nothing twice.
    let (broken, mut other) = if one.last.is_empty() { (two, one) } else { (one, two) };
    let last = broken.last.clone();
    drop(broken);
    let mut again = client.listen(Some(&last)).await;
    log("d").await;
    let message = tokio::select! {
        message = again.until("notifications/message") => message,
        message = other.until("notifications/message") => message,
    };
    assert_eq!(said(message), "d");
}
