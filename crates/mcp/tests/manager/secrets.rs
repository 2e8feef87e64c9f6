//! Variables: what is missing is named before anything starts, and what is there never comes out.

use std::collections::HashMap;

use kitbag_mcp::connection::CallError;
use kitbag_mcp::manager::{ManagerError, Status};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::kit::{Kit, count, key, request};

const SECRET: &str = "hunter2-and-more";

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_variable_is_named_and_nothing_starts() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    let flags = ["--starts", starts.to_str().unwrap(), "${FLAG}"];
    kit.configure(&[&kit.twin_with("app~a", &flags, &[("TOKEN", "${MY_TOKEN}")])]);
    assert_eq!(kit.until("app~a", Status::Error).await, "MCP_ENV_NOT_SET:FLAG");
    kit.values.set(&kit.org, "FLAG", "--flag");
    let error = kit.call("app~a", "pid", json!({})).await.unwrap_err();
    assert!(matches!(&error, ManagerError::EnvNotSet(name) if name == "MY_TOKEN"), "{error}");
    assert_eq!(kit.state("app~a").reason, "MCP_ENV_NOT_SET:MY_TOKEN");
    assert_eq!(count(&starts), 0);
    // Another organisation's value is not ours.
    kit.values.set(&"other".parse().unwrap(), "MY_TOKEN", SECRET);
    assert!(kit.call("app~a", "pid", json!({})).await.is_err());
    kit.values.set(&kit.org, "MY_TOKEN", SECRET);
    kit.pid("app~a").await;
    assert_eq!(count(&starts), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_server_says_holds_a_value() {
    let mut kit = Kit::new(|settings| settings.backoff.tries = 1);
    kit.values.set(&kit.org, "MY_TOKEN", SECRET);
    let env = [("TOKEN", "${MY_TOKEN}")];
    let said = format!("the token is {SECRET}!");
    kit.configure(&[
        &kit.twin_with("app~a", &[], &env),
        &kit.twin_with("app~dead", &["--fail", &said], &env),
        &kit.twin("app~open", &[]),
    ]);
    kit.until("app~dead", Status::Error).await;
    assert!(kit.state("app~dead").stderr.iter().all(|line| line == "the token is •••!"));
    assert!(!kit.state("app~dead").stderr.is_empty());

    let args = json!({ "text": said });
    assert_eq!(
        kit.call("app~open", "echo", args.clone()).await.unwrap(),
        said,
        "a server without secrets says what it likes"
    );
    assert_eq!(kit.call("app~a", "echo", args.clone()).await.unwrap(), "the token is •••!");
    kit.call("app~a", "say", args.clone()).await.unwrap();
    kit.call("app~a", "log", args.clone()).await.unwrap();
    let error = kit.call("app~a", "refuse", args).await.unwrap_err();
    let ManagerError::Call(CallError::Refused { message, data, .. }) = &error else { panic!("{error}") };
    assert_eq!((message.as_str(), data), ("the token is •••!", &Some(json!({ "said": "the token is •••!" }))));
    // What is said on standard error comes by another way than the answer.
    let state = loop {
        let state = kit.state("app~a");
        if !state.stderr.is_empty() && !state.logs.is_empty() {
            break state;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(state.stderr, ["the token is •••!"]);
    assert_eq!(state.logs, ["warning: the token is •••!"]);

    kit.call("app~a", "change", json!({ "add": SECRET })).await.unwrap();
    while !kit.until_tools("app~a").await.contains(&"•••".to_owned()) {}
    assert!(!format!("{:?}", kit.manager.states(&kit.org)).contains(SECRET));
    assert!(!format!("{:?}", kit.told()).contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_masked_too() {
    let mut kit = Kit::new(|_| ());
    kit.values.set(&kit.org, "MY_TOKEN", SECRET);
    kit.configure(&[&kit.twin_with("app~a", &[], &[("TOKEN", "${MY_TOKEN}")])]);
    kit.until("app~a", Status::Connected).await;
    let (progress, mut told) = mpsc::unbounded_channel();
    let args = HashMap::from([("text", SECRET)]).into_iter().map(|(name, text)| (name.to_owned(), Value::from(text)));
    let mut call = request("progress", args.collect());
    call.progress = Some(progress);
    kit.manager.call(&kit.org, &key("app~a"), call).await.unwrap();
    let said = told.recv().await.unwrap();
    assert_eq!((&said["progress"], &said["message"]), (&json!(1), &json!("•••")), "{said}");
    assert_eq!(told.recv().await, None);
}
