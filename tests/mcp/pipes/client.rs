//! Pipes, with the client that Kitbag itself is towards servers: it finds the newest revision, which has no sessions.

use std::os::unix::fs::PermissionsExt;

use kitbag_mcp::connection::CallError;
use kitbag_testkit::TestDatabase;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::{call, ending, install, names, open, piped, text};
use crate::kit::{CHATS, connect, node, until};
use crate::serve;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_tool_of_the_running_server() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "everything", node("server-everything", &["stdio"])).await;
    install(&server).await;
    let (connection, _notices) = open(&piped(&database, &[])).await;
    assert_eq!(connection.protocol_version(), "2026-07-28");
    assert_eq!(connection.server_info()["name"], "kitbag");
    let names = names(&connection).await;
    assert_eq!(text(&connection, &ending(&names, "greet"), json!({ "name": "you" })).await, "hello you");
    text(&connection, "write_file", json!({ "path": "a.txt", "content": "written" })).await;
    assert!(text(&connection, "read_file", json!({ "path": "a.txt" })).await.contains("written"));
    let echo = ending(&names, "everything__echo");
    // Many at once, and each gets its own answer.
    let all = (0..20).map(|n| {
        let (connection, echo) = (connection.clone(), echo.clone());
        tokio::spawn(async move {
            let said = text(&connection, &echo, json!({ "message": format!("number {n}.") })).await;
            assert!(said.contains(&format!("number {n}.")), "{said}");
        })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap();
    }

    // How far it is, in order.
    let long = ending(&names, "everything__trigger-long-running-operation");
    let (sender, mut progress) = unbounded_channel();
    let (mut working, _stop) = call(&long, json!({ "duration": 1, "steps": 4 }));
    working.progress = Some(sender);
    connection.call(working).await.unwrap();
    let mut far = Vec::new();
    while let Ok(params) = progress.try_recv() {
        far.push(params["progress"].as_f64().unwrap());
    }
    assert!(far.len() >= 3 && far.is_sorted(), "{far:?}");

    // To take it back is to hang up, and the call ends.
    let (sender, mut progress) = unbounded_channel();
    let (mut working, stop) = call(&long, json!({ "duration": 3600, "steps": 36000 }));
    working.progress = Some(sender);
    let calling = tokio::spawn({
        let connection = connection.clone();
        async move { connection.call(working).await }
    });
    progress.recv().await.unwrap();
    stop.send_replace(true);
    assert!(matches!(calling.await.unwrap(), Err(CallError::Cancelled)));
    let chat = server.get(CHATS).await.expect(200)["items"][0]["id"].as_str().unwrap().to_owned();
    let calls = format!("{CHATS}/{chat}/tool-calls");
    let is_over =
        |calls: &Value| calls["items"].as_array().unwrap().iter().any(|call| call["error"]["code"] == "CANCELLED");
    until(&server, &calls, is_over).await;
    connection.close().await;

    // What the client has cannot decide, and nobody else can read it.
    let file = database.data().join("cli/mcp-stdio.token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    let asked =
        server.anonymous(reqwest::Method::GET, "/v1/orgs/local/tokens").bearer_auth(&token).send().await.unwrap();
    assert_eq!(asked.status(), 403);

    // It is used again, and made again once it is revoked.
    let tokens = async || {
        let all = server.get("/v1/orgs/local/tokens").await.expect(200)["items"].as_array().unwrap().clone();
        let ours = all
            .iter()
            .filter(|token| token["name"] == "mcp stdio")
            .map(|token| token["id"].as_str().unwrap().to_owned());
        ours.collect::<Vec<_>>()
    };
    let first = tokens().await;
    let (connection, _notices) = open(&piped(&database, &[])).await;
    connection.close().await;
    assert_eq!((first.len(), tokens().await), (1, first.clone()));
    assert!(server.delete(&format!("/v1/orgs/local/tokens/{}", first[0])).await.status.is_success());
    let (connection, _notices) = open(&piped(&database, &[])).await;
    connection.close().await;
    assert_ne!(std::fs::read_to_string(&file).unwrap(), token);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_there_is_one_inside() {
    let database = TestDatabase::sqlite();
    let (connection, _notices) = open(&piped(&database, &["--toolsets", "builtin"])).await;
    text(&connection, "write_file", json!({ "path": "a.txt", "content": "written" })).await;
    assert!(text(&connection, "read_file", json!({ "path": "a.txt" })).await.contains("written"));
    assert!(database.data().join("server.json").exists());
    connection.close().await;
}
