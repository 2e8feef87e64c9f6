//! The older way over HTTP: a stream, and a place to post to.

use std::time::Duration;

use kitbag_mcp::connection::{CallError, Options};
use kitbag_model::RemoteKind;
use serde_json::json;

use crate::support::{WebTwin, call, called, open, options, remote, text, try_open};

#[tokio::test]
async fn messages_are_posted_where_the_stream_says() {
    let twin = WebTwin::start("old", &[]).await;
    let mut opened = open(&remote(RemoteKind::Sse, twin.url("/sse"))).await;
    assert_eq!(opened.connection.tools().await.unwrap().tools.len(), 1);
    let result = called(&opened.connection, call("echo", json!({"a": 1}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": 1}");
    assert!(!twin.seen.has("server/discover"));
    called(&opened.connection, call("end", json!({}))).await.unwrap();
    assert_eq!(opened.the_end().await.0, "the server ended its stream");
    assert!(matches!(opened.connection.ping().await, Err(CallError::Disconnected(_))));
}

#[tokio::test]
async fn a_place_of_another_server_is_refused() {
    let other = WebTwin::start("old", &[]).await;
    for endpoint in [other.url("/messages").to_string(), "//169.254.169.254/x".to_owned(), "file:///x".to_owned()] {
        let twin = WebTwin::start("old_elsewhere", &[format!("endpoint={endpoint}")]).await;
        let error = try_open(&remote(RemoteKind::Sse, twin.url("/sse")), &options()).await.unwrap_err();
        assert!(error.to_string().contains("posted to another server"), "{endpoint}: {error}");
    }
    assert_eq!(other.seen.all().len(), 0);
}

#[tokio::test]
async fn a_stream_that_never_says_where_meets_the_deadline() {
    let twin = WebTwin::start("old_silent", &[]).await;
    let options = Options { connect: Duration::from_millis(300), ..options() };
    let error = try_open(&remote(RemoteKind::Sse, twin.url("/sse")), &options).await.unwrap_err();
    assert!(error.to_string().contains("within 0.3 seconds"), "{error}");
}

#[tokio::test]
async fn a_newer_server_is_told_apart() {
    let twin = WebTwin::start("honest", &[]).await;
    let error = try_open(&remote(RemoteKind::Sse, twin.url("/mcp")), &options()).await.unwrap_err();
    assert!(error.to_string().contains("streamable-http"), "{error}");
}
