//! Servers that send too much, or do not read.

use std::time::Duration;

use kitbag_mcp::connection::{CallError, Notice, Options};
use serde_json::json;

use crate::support::{call, called, open, options, text, try_open, twin};

#[tokio::test]
async fn a_line_without_an_end_ends_the_connection() {
    let options = Options { longest_message: 1 << 20, ..options() };
    let mut opened = try_open(&twin("long_line", &[]), &options).await.unwrap();
    let error = called(&opened.connection, call("flood", json!({}))).await.unwrap_err();
    let expected = "the server sent a line of more than 1048576 bytes";
    assert!(matches!(&error, CallError::Disconnected(why) if why == expected), "{error}");
    assert_eq!(opened.the_end().await.0, expected);
}

#[tokio::test]
async fn a_message_may_be_as_long_as_it_may_be() {
    let options = Options { longest_message: 200_000, ..options() };
    let endpoint = |size: usize| twin("long_result", &[format!("size={size}")]);
    let opened = try_open(&endpoint(199_000), &options).await.unwrap();
    let result = called(&opened.connection, call("x", json!({}))).await.unwrap();
    assert_eq!(text(&result).len(), 199_000);
    let opened = try_open(&endpoint(200_000), &options).await.unwrap();
    assert!(called(&opened.connection, call("x", json!({}))).await.is_err());
}

#[tokio::test]
async fn what_is_no_message_is_skipped_and_said() {
    let mut opened = open(&twin("noisy", &[])).await;
    let result = called(&opened.connection, call("echo", json!({"a": 1}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": 1}");
    opened.connection.close().await;
    let (_, said) = opened.the_end().await;
    let logged: Vec<&str> = said
        .iter()
        .filter_map(|notice| match notice {
            Notice::Log(line) => Some(line.as_str()),
            _ => None,
        })
        .collect();
    // Escapes are shown as what they are, so that none reaches a terminal.
    assert!(logged[0].contains("\\u{1b}[32mStarting up"), "{logged:?}");
    let shown = ["calling", "{\\\"level\\\": \\\"info\\\"}", "42"];
    assert!(shown.iter().all(|text| logged.iter().any(|line| line.contains(text))), "{logged:?}");
}

#[tokio::test]
async fn a_flood_of_messages_is_slowed_down_and_does_not_drown_the_answers() {
    let mut opened = open(&twin("floods", &[])).await;
    for _ in 0..3 {
        called(&opened.connection, call("echo", json!({}))).await.unwrap();
    }
    opened.connection.close().await;
    let (_, said) = opened.the_end().await;
    // Fifty lines a second are passed on, however many there are.
    assert!((1..2000).contains(&said.len()), "{}", said.len());
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_nobody_up() {
    let options = Options { answer: Duration::from_millis(300), longest_message: 1 << 20, ..options() };
    let mut opened = try_open(&twin("deaf", &[]), &options).await.unwrap();
    opened.wait_for(&Notice::ToolsChanged).await;
    // More than a pipe takes, less than what is kept for it.
    let long = "x".repeat(500_000);
    let error = called(&opened.connection, call("echo", json!({"text": long}))).await.unwrap_err();
    assert!(error.to_string().contains("did not read its input for 300ms"), "{error}");
    assert!(opened.the_end().await.0.contains("did not read its input"));
}

#[tokio::test]
async fn what_waits_for_a_server_that_does_not_read_is_bounded() {
    let options = Options { longest_message: 1 << 20, ..options() };
    let mut opened = try_open(&twin("deaf", &[]), &options).await.unwrap();
    opened.wait_for(&Notice::ToolsChanged).await;
    let long = "x".repeat(300_000);
    for _ in 0..10 {
        let mut calling = call("echo", json!({"text": long}));
        calling.deadline = Duration::from_millis(20);
        if let Err(CallError::Disconnected(why)) = called(&opened.connection, calling).await {
            assert!(why.contains("too much waits for it"), "{why}");
            return;
        }
    }
    panic!("everything was kept");
}

#[tokio::test]
async fn what_is_said_beside_is_drained_and_its_end_is_kept() {
    let opened = open(&twin("stderr_flood", &[])).await;
    opened.connection.ping().await.unwrap();
    while opened.connection.stderr_tail().last().is_none_or(|line| line != "the end") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let tail = opened.connection.stderr_tail();
    assert!(tail.len() == 200 && tail.iter().all(|line| line.len() <= 2000), "{}", tail.len());
}
