//! Servers that die, hang or never worked.

use std::time::Duration;

use kitbag_mcp::connection::CallError;
use kitbag_mcp::manager::{Change, ManagerError, Status};
use serde_json::json;

use crate::kit::{Kit, NEVER, call, count, key, kill, known, lives};

// On one thread, so that the call that is cut off knows of it before anybody else does.
#[tokio::test]
async fn one_that_is_killed_serves_again() {
    let mut kit = Kit::new(|_| ());
    kit.configure(&[&kit.twin("app~a", &[])]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    let (manager, org) = (kit.manager.clone(), kit.org.clone());
    let running = tokio::spawn(async move {
        let cut_off = call(&manager, &org, "app~a", "sleep", json!({ "seconds": 1000 })).await;
        // Whoever calls now waits for the next one.
        (cut_off, call(&manager, &org, "app~a", "pid", json!({})).await)
    });
    // The call is on its way as soon as a later one was answered: they go through the same pipe.
    tokio::task::yield_now().await;
    kit.pid("app~a").await;
    kill(pid);
    let (cut_off, next) = running.await.unwrap();
    let cut_off = cut_off.unwrap_err();
    assert!(
        matches!(&cut_off, ManagerError::Call(CallError::Disconnected(reason)) if reason.contains("signal 9")),
        "{cut_off}"
    );
    let next: u32 = next.unwrap().parse().unwrap();
    assert_ne!(next, pid.unsigned_abs());
    let reason = kit.until("app~a", Status::Connecting).await;
    assert!(reason.contains("signal 9"), "{reason}");
    kit.until("app~a", Status::Connected).await;
    assert_eq!(kit.state("app~a").pid, Some(next));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_after_each_start_is_left_alone_for_a_while() {
    let mut kit = Kit::new(|settings| {
        settings.backoff.loop_ends = 3;
        settings.backoff.longest = 100 * NEVER;
    });
    let starts = kit.starts("starts");
    kit.configure(&[&kit.twin("app~a", &["--crash", "--starts", starts.to_str().unwrap()])]);
    let reason = loop {
        let reason = kit.until("app~a", Status::Error).await;
        if reason.contains("times") {
            break reason;
        }
    };
    assert!(reason.starts_with("it ended 3 times within 60 seconds") && reason.contains("exit code 9"), "{reason}");
    assert_eq!(count(&starts), 3);
    // The next try is far away. A call that would not wait that long is told now.
    let call = kit.call("app~a", "pid", json!({}));
    let error = tokio::time::timeout(NEVER / 2, call).await.expect("nothing is waited for").unwrap_err();
    assert!(matches!(&error, ManagerError::NotConnected { status: Status::Error, .. }), "{error}");
    assert_eq!(count(&starts), 3);
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    loop {
        if kit.until("app~a", Status::Error).await.contains("it ended 3 times") {
            break;
        }
    }
    assert_eq!(count(&starts), 6, "whoever reconnects by hand begins anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_worked_is_given_up() {
    let mut kit = Kit::new(|settings| settings.backoff.tries = 3);
    let starts = kit.starts("starts");
    let server = kit.twin("app~a", &["--fail", "no configuration", "--starts", starts.to_str().unwrap()]);
    kit.configure(&[&server]);
    let reason = loop {
        let reason = kit.until("app~a", Status::Error).await;
        if reason.contains("tried") {
            break reason;
        }
    };
    assert!(reason.contains("exit code 3") && reason.ends_with("(tried 3 times)"), "{reason}");
    let state = kit.state("app~a");
    assert_eq!((state.attempts, state.stderr.as_slice()), (3, &["no configuration".to_owned()][..]));
    let error = kit.call("app~a", "pid", json!({})).await.unwrap_err();
    assert!(matches!(error, ManagerError::NotConnected { status: Status::Error, .. }), "{error}");
    assert_eq!(count(&starts), 3);
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    while !kit.until("app~a", Status::Error).await.contains("tried") {}
    assert_eq!(count(&starts), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_known_to_have_worked_is_not_given_up() {
    let mut kit = Kit::new(|settings| settings.backoff.tries = 2);
    let mut server = kit.twin("app~a", &["--fail", "not now"]);
    server.known = vec![known("x")];
    kit.configure(&[&server]);
    for _ in 0..4 {
        let reason = kit.until("app~a", Status::Error).await;
        assert!(!reason.contains("tried"), "{reason}");
    }
    assert_eq!(kit.state("app~a").tools[0].name, "x", "what was known stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_without_a_program_says_so() {
    let mut kit = Kit::new(|settings| settings.backoff.tries = 1);
    let mut server = kit.twin("app~a", &[]);
    if let kitbag_model::Launch::Stdio { command, .. } = &mut server.launch {
        *command = "no-such-program".to_owned();
    }
    kit.configure(&[&server]);
    let reason = kit.until("app~a", Status::Error).await;
    assert!(reason.contains("`no-such-program` is not installed"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_stops_answering_is_replaced() {
    let mut kit = Kit::new(|settings| {
        settings.health = Duration::from_millis(100);
        settings.pulse = Duration::from_millis(300);
    });
    kit.configure(&[&kit.twin("app~a", &[])]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    kit.call("app~a", "freeze", json!({})).await.unwrap();
    let reason = kit.until("app~a", Status::Connecting).await;
    assert!(reason.contains("sign of life"), "{reason}");
    assert_ne!(kit.pid("app~a").await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_knows_no_ping_is_asked_something_else() {
    let mut kit = Kit::new(|settings| {
        settings.health = Duration::from_millis(50);
        settings.pulse = Duration::from_millis(500);
    });
    let lists = kit.starts("lists");
    kit.configure(&[&kit.twin("app~a", &["--no-ping", "--lists", lists.to_str().unwrap()])]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.state("app~a").pid;
    while count(&lists) < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(kit.state("app~a").pid, pid);
    assert!(!kit.told().iter().any(|told| matches!(told, Change::Status { .. })), "nothing has happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_lies_about_its_tools_can_be_called_by_who_knows_them() {
    let mut kit = Kit::new(|_| ());
    let mut server = kit.twin("app~a", &["--lie"]);
    server.known = vec![known("pid")];
    kit.configure(&[&server]);
    let reason = kit.until("app~a", Status::Connected).await;
    assert!(reason.starts_with("it is connected, but did not tell its tools"), "{reason}");
    let state = kit.state("app~a");
    assert_eq!((state.live, state.tools.len()), (false, 1));
    kit.pid("app~a").await;
    let error = kit.manager.refresh(&kit.org, &key("app~a")).await.unwrap_err();
    assert!(matches!(error, ManagerError::Call(CallError::Nonsense(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_floods_costs_the_others_nothing() {
    let mut kit = Kit::new(|settings| settings.relist = Duration::from_millis(50));
    kit.configure(&[&kit.twin("app~a", &["--flood"]), &kit.twin("app~b", &[])]);
    kit.until("app~b", Status::Connected).await;
    kit.manager.settled(&kit.org, &key("app~a"), NEVER).await;
    for _ in 0..100 {
        kit.pid("app~b").await;
    }
    let state = kit.state("app~a");
    assert_eq!(state.status, Status::Connected);
    assert!(state.logs.len() <= 50 && state.stderr.len() <= 50);
    // What it says for a log is passed on as it comes, as far as it is listened to.
    let is_log = |told: &Change| matches!(told, Change::Told { method, .. } if method == "notifications/message");
    let news = kit.told().iter().filter(|told| !is_log(told)).count();
    assert!(news < 20, "a list that stays the same is no news: {news}");
    kit.manager.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_can_be_let_go_and_tried_again() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    let hanging = kit.twin("app~a", &["--starts", starts.to_str().unwrap(), "--hang"]);
    kit.configure(&[&hanging]);
    let until_started = async |times| {
        while count(&starts) < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until_started(1).await;
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    until_started(2).await;
    kit.configure(&[]);
    for pid in std::fs::read_to_string(&starts).unwrap().lines().map(|line| line.parse().unwrap()) {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    kit.told();
}
