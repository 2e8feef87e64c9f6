//! A run that somebody follows in a terminal, with a server that goes away and with Ctrl-C.

use kitbag_testkit::{Heard, Program, TestDatabase};
use rustix::process::Signal;
use serde_json::json;

use crate::BINARY;
use crate::kit::{ask, config, pair, serve, show, until};

/// A server that is away is waited for, and found where it listens afterwards. Nothing is missed and nothing comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_waited_for() {
    let database = TestDatabase::sqlite();
    let mut server = serve(&database);
    let paired = pair(&server, &json!({})).await;
    let mut executor = paired.connect(1, &[]).await;
    let program = Program::on(BINARY, &database);
    let mut asking = Heard::start(&program, &["run", "Say hello", "--engine", "codex"]);
    let id = executor.given().await.id;
    let mut looking = Heard::start(&program, &["runs", "follow", &id.run_id.to_string()]);
    executor.started(id).await;
    executor.told(id, 1, &["before it"]).await;
    asking.until("before it");
    looking.until("before it");
    server.signal(Signal::KILL);
    server.wait();
    drop(executor);
    // Both have tried at least once, in vain.
    asking.until("does not answer");
    looking.until("does not answer");
    let server = serve(&database);
    let mut executor = paired.moved_to(&server).connect(1, &[id]).await;
    executor.told(id, 1, &["before it", "after it"]).await;
    executor.ended(id, "hello to you").await;
    executor.acknowledged(id).await;
    for heard in [asking, looking] {
        let over = heard.end();
        assert_eq!((over.code, over.stdout.trim()), (Some(0), "hello to you"), "{over:?}");
        assert_eq!(
            (over.stderr.matches("before it").count(), over.stderr.matches("after it").count()),
            (1, 1),
            "{over:?}"
        );
    }
}

/// Whoever only looks on stops looking.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_following_and_not_the_run() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
    let id = run.to_string();
    let mut looking = Heard::start(&Program::on(BINARY, &database), &["runs", "follow", &id]);
    looking.until("[queued]");
    looking.signal(Signal::INT);
    let over = looking.end();
    assert_eq!((over.code, over.stdout.as_str()), (Some(130), ""), "{over:?}");
    assert!(over.stderr.contains(&format!("kitbag runs cancel {id}")), "{over:?}");
    assert_eq!(show(&server, run).await["state"], "queued");
}

/// Whoever asked for the run ends it, and hears of its end.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_run_of_whoever_asked_for_it() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let mut asking = Heard::start(&Program::on(BINARY, &database), &["run", "Say hello", "--engine", "codex"]);
    let run = asking.until("run ").strip_prefix("run ").unwrap().parse().unwrap();
    asking.until("[queued]");
    asking.signal(Signal::INT);
    let over = asking.end();
    assert_eq!(over.code, Some(1), "{over:?}");
    assert!(over.stderr.contains("ending the run") && over.stderr.contains("[cancelled]"), "{over:?}");
    until(&server, run, "cancelled").await;
}

/// Whoever does not want to wait for an executor that does not hear says so once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_ctrl_c_does_not_wait() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let mut executor = pair(&server, &json!({})).await.connect(1, &[]).await;
    let mut asking = Heard::start(&Program::on(BINARY, &database), &["run", "Say hello", "--engine", "codex"]);
    let id = executor.given().await.id;
    executor.started(id).await;
    asking.until("[running]");
    asking.signal(Signal::INT);
    asking.until("ending the run");
    // The server has heard of it, and waits for the executor.
    while !matches!(executor.hear().await, kitbag_model::run::wire::FromServer::Cancel { .. }) {}
    asking.signal(Signal::INT);
    let over = asking.end();
    assert_eq!(over.code, Some(130), "{over:?}");
    assert!(over.stderr.contains("no longer following"), "{over:?}");
}
