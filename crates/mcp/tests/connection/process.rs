//! The process of a server: what it is started with, how it dies, and that nothing of it is left.

use std::time::Duration;

use kitbag_mcp::connection::{CallError, ConnectError, Connection, Notice, Options};
use kitbag_mcp::endpoint::Endpoint;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{Seen, call, called, is_alive, open, options, text, try_open, twin};

#[tokio::test]
async fn it_is_started_as_it_is_written() {
    let Endpoint::Stdio { command, args, .. } = twin("whoami", &["a b=1".to_owned(), "q='\"$HOME\";ls=".to_owned()])
    else {
        panic!("not a process")
    };
    let folder = tempfile::tempdir().unwrap();
    let env = vec![("TOKEN".to_owned(), "s3cr3t \"x\"".to_owned())];
    let endpoint = Endpoint::Stdio { command, args, cwd: Some(folder.path().to_owned()), env, fence: None };
    let options = Options { pass_environment: vec!["CARGO_PKG_NAME".to_owned()], ..options() };
    let opened = try_open(&endpoint, &options).await.unwrap();
    let result = called(&opened.connection, call("whoami", json!({}))).await.unwrap();
    assert_eq!(result["argv"], json!(["a b=1", "q='\"$HOME\";ls="]));
    assert_eq!(result["folder"], folder.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(result["environment"]["TOKEN"], "s3cr3t \"x\"");
    assert_eq!(result["environment"]["CARGO_PKG_NAME"], "kitbag-mcp");
    // Cargo sets this one for us, and it is not passed on.
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some() && result["environment"].get("CARGO_MANIFEST_DIR").is_none()
    );
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let start = async |command: &str, cwd: Option<&str>| {
        let cwd = cwd.map(Into::into);
        let endpoint =
            Endpoint::Stdio { command: command.to_owned(), args: Vec::new(), cwd, env: Vec::new(), fence: None };
        try_open(&endpoint, &options()).await.unwrap_err().to_string()
    };
    assert!(start("no-such-server", None).await.contains("`no-such-server` is not installed"));
    // One program, not a line for a shell.
    assert!(start("python3 -m http.server; touch /tmp/x", None).await.contains("is not installed"));
    assert!(start("python3", Some("/no/such/folder")).await.contains("the folder `/no/such/folder` does not exist"));
}

#[tokio::test]
async fn a_server_that_never_answers_meets_the_deadline_and_is_ended() {
    let options = Options { connect: Duration::from_millis(800), ..options() };
    let error = try_open(&twin("silent", &[]), &options).await.unwrap_err();
    assert_eq!(error.to_string(), "the server did not answer within 0.8 seconds");
}

#[tokio::test]
async fn an_attempt_that_is_given_up_leaves_nothing_behind() {
    let seen = Seen::new();
    let endpoint = twin("silent", &[seen.option()]);
    let attempt = tokio::spawn(async move { try_open(&endpoint, &options()).await.map(drop) });
    seen.wait(|message| message["method"] == "server/discover").await;
    let option = seen.option();
    let ours = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&option)
        })
        .count()
    };
    assert_eq!(ours(), 1);
    attempt.abort();
    while ours() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_dies_at_once_leaves_its_last_words() {
    let (sender, mut notices) = unbounded_channel();
    let Err(error) = Connection::open(&twin("dies_at_once", &[]), &options(), None, sender).await else {
        panic!("connected")
    };
    assert!(matches!(&error, ConnectError::Failed(why) if why == "the server ended with exit code 7"), "{error}");
    let mut said = Vec::new();
    while let Some(notice) = notices.recv().await {
        said.push(notice);
    }
    // It cannot have died of a question that it did not read, so it was not started again for another one.
    assert_eq!(said, [Notice::Log("cannot find my key".to_owned())]);
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_that_call() {
    let mut opened = open(&twin("dies_mid_call", &[])).await;
    let error = called(&opened.connection, call("die", json!({}))).await.unwrap_err();
    let expected = "the server ended with exit code 3";
    assert!(matches!(&error, CallError::Disconnected(why) if why == expected), "{error}");
    assert_eq!(opened.the_end().await.0, expected);
    assert_eq!(opened.connection.stderr_tail(), ["I am dying"]);
}

#[tokio::test]
async fn what_a_server_said_before_it_died_counts() {
    let mut opened = open(&twin("dies_after_call", &[])).await;
    let result = called(&opened.connection, call("echo", json!({}))).await.unwrap();
    assert_eq!(text(&result), "{}");
    assert_eq!(opened.the_end().await.0, "the server ended with exit code 0");
}

#[tokio::test]
async fn a_server_that_is_killed_is_noticed() {
    let mut opened = open(&twin("honest", &[])).await;
    let pid = rustix::process::Pid::from_raw(opened.connection.pid().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(opened.the_end().await.0, "the server was ended by signal 9");
}

#[tokio::test]
async fn a_close_ends_the_whole_tree() {
    let opened = open(&twin("leaves_children", &[])).await;
    let result = called(&opened.connection, call("leave", json!({}))).await.unwrap();
    let (child, hidden) = (opened.connection.pid().unwrap(), result["pid"].as_u64().unwrap());
    assert!(is_alive(hidden) && is_alive(child.into()));
    opened.connection.close().await;
    assert!(!is_alive(hidden) && !is_alive(child.into()));
}

#[tokio::test]
async fn a_connection_that_nobody_has_any_more_ends_its_server() {
    let opened = open(&twin("leaves_children", &[])).await;
    let hidden = called(&opened.connection, call("leave", json!({}))).await.unwrap()["pid"].as_u64().unwrap();
    let another = opened.connection.clone();
    drop(opened);
    another.ping().await.unwrap();
    drop(another);
    while is_alive(hidden) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
