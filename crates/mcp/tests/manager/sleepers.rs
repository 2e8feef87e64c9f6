//! Servers that are started when they are needed and stopped when they are not.

use std::time::Duration;

use kitbag_mcp::manager::{Configured, ManagerError, Start, Status};
use serde_json::json;

use crate::kit::{Kit, count, key, known, lives};

fn lazy(server: Configured) -> Configured {
    Configured { start: Start::Lazily, known: vec![known("echo"), known("pid")], ..server }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_starts_when_it_is_used_and_stops_when_it_is_not() {
    let mut kit = Kit::new(|settings| settings.idle = Some(Duration::from_millis(300)));
    let starts = kit.starts("starts");
    kit.configure(&[&lazy(kit.twin("app~a", &["--starts", starts.to_str().unwrap()]))]);
    assert_eq!(kit.until("app~a", Status::Disconnected).await, "it is started when it is first used");
    let state = kit.state("app~a");
    assert_eq!((state.tools.len(), state.live, state.pid), (2, false, None));
    // Nothing that only looks starts it.
    kit.configure(&[&lazy(kit.twin("app~a", &["--starts", starts.to_str().unwrap()]))]);
    assert_eq!(kit.manager.tools(&kit.org, &key("app~a")).unwrap().len(), 2);
    assert_eq!(count(&starts), 0);

    let pid = kit.pid("app~a").await;
    assert!(kit.until_tools("app~a").await.len() > 2, "reality differs from what was known");
    let reason = kit.until("app~a", Status::Disconnected).await;
    assert!(reason.starts_with("it was not used for 0.3 seconds"), "{reason}");
    let state = kit.state("app~a");
    assert!(state.tools.len() > 2 && !state.live && state.pid.is_none(), "what it told is known now");
    assert_ne!(kit.pid("app~a").await, pid);
    assert!(!lives(pid), "the next one starts when the one before has ended");
    // A call that takes longer than that is not cut off.
    assert_eq!(kit.call("app~a", "sleep", json!({ "seconds": 1 })).await.unwrap(), "slept");
    assert_eq!(count(&starts), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_which_nothing_is_known_is_started_once() {
    let mut kit = Kit::new(|settings| settings.idle = Some(Duration::from_millis(100)));
    let server = Configured { start: Start::Lazily, ..kit.twin("app~a", &[]) };
    kit.configure(&[&server]);
    assert!(kit.until_tools("app~a").await.len() > 2);
    kit.until("app~a", Status::Disconnected).await;
    assert!(kit.state("app~a").tools.len() > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_tools_are_from_another_launch_is_started_once() {
    let mut kit = Kit::new(|settings| settings.idle = Some(Duration::from_millis(100)));
    let server = Configured { start: Start::LazilyOnceLearnt, known: vec![known("old")], ..kit.twin("app~a", &[]) };
    kit.configure(&[&server]);
    assert!(kit.until_tools("app~a").await.len() > 2);
    kit.until("app~a", Status::Disconnected).await;
    // Once: that the configuration does not know of it yet is no reason to do it again.
    kit.configure(&[&server]);
    let state = kit.state("app~a");
    assert_eq!((state.status, state.tools.iter().any(|tool| tool.name == "old")), (Status::Disconnected, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_option_it_starts_at_once() {
    let mut kit = Kit::new(|settings| settings.lazy = false);
    kit.configure(&[&lazy(kit.twin("app~a", &[]))]);
    kit.until("app~a", Status::Connected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_want_it_start_it_once() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    kit.configure(&[&lazy(kit.twin("app~a", &["--starts", starts.to_str().unwrap()]))]);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..50 {
        let (manager, org) = (kit.manager.clone(), kit.org.clone());
        calls.spawn(async move {
            let text = n.to_string();
            let answer = crate::kit::call(&manager, &org, "app~a", "echo", json!({ "text": text })).await;
            assert_eq!(answer.unwrap(), n.to_string());
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert_eq!(count(&starts), 1);
    kit.told();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_not_start_is_tried_when_it_is_used() {
    let mut kit = Kit::new(|settings| settings.backoff.tries = 2);
    let starts = kit.starts("starts");
    kit.configure(&[&lazy(kit.twin("app~a", &["--fail", "not now", "--starts", starts.to_str().unwrap()]))]);
    for tried in [2, 3, 4] {
        let error = kit.call("app~a", "pid", json!({})).await.unwrap_err();
        assert!(matches!(&error, ManagerError::NotConnected { status: Status::Error, .. }), "{error}");
        assert_eq!(count(&starts), tried);
    }
    kit.told();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_wanted_at_once_after_all_starts() {
    let mut kit = Kit::new(|_| ());
    let server = lazy(kit.twin("app~a", &[]));
    kit.configure(&[&server]);
    kit.until("app~a", Status::Disconnected).await;
    kit.configure(&[&Configured { start: Start::Eagerly, ..server }]);
    kit.until("app~a", Status::Connected).await;
}
