//! Calls: what comes back, progress, stopping, and servers that ask or lie instead of answering.

use std::time::Duration;

use kitbag_mcp::connection::{CallError, Notice};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::support::{Seen, call, called, open, text, twin};

#[tokio::test]
async fn a_result_comes_back_whole() {
    let opened = open(&twin("honest", &[])).await;
    let result = called(&opened.connection, call("echo", json!({"b": 1, "a": [null, "é"]}))).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap(), json!({"b": 1, "a": [null, "é"]}));
    // What the protocol has no name for is there too.
    assert_eq!(result["x-extra"], 7);
    let raw = opened.connection.request("tools/list", Value::Null).await.unwrap();
    assert_eq!(raw["tools"][0]["x-ours"], json!({"kept": [1, null]}));
    opened.connection.ping().await.unwrap();
}

#[tokio::test]
async fn many_calls_at_once_get_their_own_answers() {
    let opened = open(&twin("honest", &[])).await;
    let mut calls = JoinSet::new();
    for number in 0..200 {
        let connection = opened.connection.clone();
        calls.spawn(async move {
            let result = called(&connection, call("echo", json!({"n": number}))).await.unwrap();
            assert_eq!(text(&result), format!("{{\"n\": {number}}}"));
        });
    }
    calls.join_all().await;
}

#[tokio::test]
async fn progress_is_passed_on_and_a_stopped_call_is_cancelled() {
    let seen = Seen::new();
    let opened = open(&twin("slow", &[seen.option()])).await;
    let (progress, mut steps) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let mut slow = call("slow", json!({}));
    (slow.progress, slow.stop) = (Some(progress), stopped);
    let connection = opened.connection.clone();
    let calling = tokio::spawn(async move { called(&connection, slow).await });
    let step = steps.recv().await.unwrap();
    assert_eq!((&step["message"], step["progress"].as_f64()), (&json!("a quarter"), Some(1.0)), "{step}");
    assert_eq!(steps.recv().await.unwrap().get("total"), None);
    stop.send(true).unwrap();
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Cancelled), "{error}");
    assert_cancelled(&seen).await;
    // The answer that comes too late is nobody's, and hurts nobody.
    opened.connection.ping().await.unwrap();
}

/// The server was told to give up the very request that was made.
async fn assert_cancelled(seen: &Seen) {
    let cancelled = seen.wait(|message| message["method"] == "notifications/cancelled").await;
    let called = seen.wait(|message| message["method"] == "tools/call").await;
    assert_eq!(cancelled["params"]["requestId"], called["id"]);
    assert!(cancelled.get("id").is_none());
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_the_server_is_told() {
    let seen = Seen::new();
    let opened = open(&twin("slow", &[seen.option()])).await;
    let mut slow = call("slow", json!({}));
    slow.deadline = Duration::from_millis(50);
    let error = called(&opened.connection, slow).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout(deadline) if deadline == Duration::from_millis(50)), "{error}");
    assert_cancelled(&seen).await;
}

#[tokio::test]
async fn a_call_whose_caller_goes_away_is_cancelled_too() {
    let seen = Seen::new();
    let opened = open(&twin("slow", &[seen.option()])).await;
    let connection = opened.connection.clone();
    let calling = tokio::spawn(async move { called(&connection, call("slow", json!({}))).await });
    seen.wait(|message| message["method"] == "tools/call").await;
    calling.abort();
    assert_cancelled(&seen).await;
}

#[tokio::test]
async fn what_a_server_asks_is_declined() {
    let opened = open(&twin("asks", &[])).await;
    let result = called(&opened.connection, call("ask", json!({}))).await.unwrap();
    let answers: Vec<Value> = serde_json::from_str(text(&result)).unwrap();
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], format!("q{number}"));
        match number {
            3 => assert_eq!(answer["result"], json!({}), "a ping is answered"),
            _ => assert_eq!(answer["error"]["code"], -32601, "{answer}"),
        }
    }
}

#[tokio::test]
async fn a_stateless_server_that_asks_gets_its_state_back_and_nothing_else() {
    let opened = open(&twin("modern_asks", &[])).await;
    let result = called(&opened.connection, call("state", json!({"a": 1}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": 1}");
    let error = called(&opened.connection, call("password", json!({}))).await.unwrap_err();
    assert!(error.to_string().contains("elicitation/create"), "{error}");
}

#[tokio::test]
async fn lies_cost_only_the_call_they_are_told_to() {
    let mut opened = open(&twin("lies", &[])).await;
    let lied = async |what: &str| called(&opened.connection, call(what, json!({}))).await;
    assert!(matches!(lied("text").await, Err(CallError::Nonsense(_))));
    assert!(matches!(lied("error").await, Err(CallError::Nonsense(_))));
    // Deeper than anybody reads: the call fails at once and not at its deadline.
    assert!(matches!(lied("deep").await, Err(CallError::Nonsense(why)) if why.contains("cannot be read")));
    assert_eq!(lied("string-id").await.unwrap(), json!({"content": []}));
    assert_eq!(lied("batch").await.unwrap(), json!({"content": []}));
    let Err(CallError::Refused { code, message, data }) = lied("other").await else { panic!("not refused") };
    assert_eq!((code, message.as_str(), data), (-32602, "Unknown tool", Some(json!({"tool": "other"}))));
    opened.wait_for(&Notice::ToolsChanged).await;
    opened.connection.ping().await.unwrap();
}

#[tokio::test]
async fn after_the_end_every_call_says_so() {
    let mut opened = open(&twin("honest", &[])).await;
    opened.connection.close().await;
    assert_eq!(opened.the_end().await.0, "it was closed");
    assert!(opened.connection.is_closed());
    let error = called(&opened.connection, call("echo", json!({}))).await.unwrap_err();
    assert!(matches!(&error, CallError::Disconnected(why) if why == "it was closed"), "{error}");
}
