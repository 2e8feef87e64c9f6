//! What changes while they run: their tools, and what people want of them.

use std::time::Duration;

use kitbag_mcp::manager::{Change, Configured, ManagerError, Status};
use serde_json::json;

use crate::kit::{Kit, count, key, known, lives};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_told() {
    let mut kit = Kit::new(|settings| settings.relist = Duration::from_millis(500));
    let mut server = kit.twin("app~a", &[]);
    server.known = vec![known("echo")];
    kit.configure(&[&server]);
    let first = kit.until_tools("app~a").await;
    assert!(first.contains(&"echo".to_owned()) && !first.contains(&"new".to_owned()));
    kit.until("app~a", Status::Connected).await;
    for n in 0..40 {
        kit.call("app~a", "change", json!({ "add": format!("new{n}"), "times": 5 })).await.unwrap();
    }
    kit.call("app~a", "change", json!({ "add": "new" })).await.unwrap();
    while !kit.until_tools("app~a").await.contains(&"new".to_owned()) {}
    assert!(kit.manager.tools(&kit.org, &key("app~a")).unwrap().iter().any(|tool| tool.name == "new"));
    let lists: usize = kit.call("app~a", "lists", json!({})).await.unwrap().parse().unwrap();
    assert!(lists <= 12, "it is not asked each time that it says so, but {lists} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_says_whether_it_is_another_than_was_known() {
    let mut kit = Kit::new(|_| ());
    let mut server = kit.twin("app~a", &[]);
    kit.configure(&[&server]);
    let first = loop {
        if let Change::Tools { tools, different, .. } = kit.next().await {
            assert!(different, "nothing was known");
            break tools;
        }
    };
    kit.configure(&[]);
    server.known = first.to_vec();
    kit.configure(&[&server]);
    loop {
        if let Change::Tools { different, .. } = kit.next().await {
            break assert!(!different, "it is what was known");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_asked_for_again_when_it_is_old_or_somebody_wants_it() {
    let mut kit = Kit::new(|settings| settings.relist = Duration::from_millis(50));
    kit.configure(&[&kit.twin("app~old", &["--ttl", "10"]), &kit.twin("app~a", &[])]);
    kit.until("app~old", Status::Connected).await;
    // It says nothing of the change.
    kit.call("app~old", "change", json!({ "add": "new", "times": 0 })).await.unwrap();
    assert!(kit.until_tools("app~old").await.contains(&"new".to_owned()));
    kit.call("app~a", "change", json!({ "add": "new", "times": 0 })).await.unwrap();
    let tools = kit.manager.refresh(&kit.org, &key("app~a")).await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_and_the_switch_decide() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    let server = kit.twin("app~a", &["--linger", "--starts", starts.to_str().unwrap()]);
    let untrusted = Configured { trusted: false, known: vec![known("x")], ..server.clone() };
    let disabled = Configured { enabled: false, trusted: false, ..server.clone() };

    kit.configure(&[&untrusted]);
    kit.until("app~a", Status::NeedsTrust).await;
    let state = kit.state("app~a");
    assert_eq!((state.status, state.live, state.tools.len()), (Status::NeedsTrust, false, 1));
    assert!(matches!(kit.call("app~a", "pid", json!({})).await, Err(ManagerError::NeedsTrust)));
    assert!(matches!(kit.manager.reconnect(&kit.org, &key("app~a")), Err(ManagerError::NeedsTrust)));
    assert_eq!(count(&starts), 0);

    kit.configure(&[&server]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;

    kit.configure(&[&disabled]);
    assert_eq!(kit.until("app~a", Status::Disconnected).await, "it is disabled");
    assert!(matches!(kit.call("app~a", "pid", json!({})).await, Err(ManagerError::Disabled)));
    assert!(kit.state("app~a").tools.len() > 1, "its tools are still known");
    kit.configure(&[&server]);
    kit.until("app~a", Status::Connected).await;
    assert!(!lives(pid), "the next one starts when the one before has ended");
    assert_ne!(kit.pid("app~a").await, pid);
    assert_eq!(count(&starts), 2);

    kit.configure(&[&untrusted]);
    kit.until("app~a", Status::NeedsTrust).await;
    kit.configure(&[]);
    assert!(matches!(kit.call("app~a", "pid", json!({})).await, Err(ManagerError::NotFound)));
    kit.manager.shut_down().await;
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_launch_is_another_process() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    let flags = ["--linger", "--starts", starts.to_str().unwrap()];
    kit.configure(&[&kit.twin("app~a", &flags)]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    kit.configure(&[&kit.twin("app~a", &[&flags[..], &["--more"]].concat())]);
    kit.until("app~a", Status::Connected).await;
    assert!(!lives(pid), "the new one starts when the old one has ended");
    assert_ne!(kit.pid("app~a").await, pid);
    assert_eq!(count(&starts), 2);
    // A variable with another value is another launch too, when somebody looks.
    kit.values.set(&kit.org, "MORE", "1");
    let server = kit.twin("app~a", &[&flags[..], &["${MORE}"]].concat());
    kit.configure(&[&server]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    kit.values.set(&kit.org, "MORE", "2");
    assert_eq!(kit.pid("app~a").await, pid);
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    assert_ne!(kit.pid("app~a").await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_disconnects_stays_so() {
    let mut kit = Kit::new(|_| ());
    let server = kit.twin("app~a", &[]);
    kit.configure(&[&server]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    kit.manager.disconnect(&kit.org, &key("app~a")).unwrap();
    assert_eq!(kit.until("app~a", Status::Disconnected).await, "somebody disconnected it");
    kit.configure(&[&server]);
    let error = kit.call("app~a", "pid", json!({})).await.unwrap_err();
    assert!(matches!(error, ManagerError::NotConnected { status: Status::Disconnected, .. }), "{error}");
    assert!(kit.state("app~a").tools.len() > 1, "what it told is still known");
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    assert!(kit.state("app~a").tools.len() > 1, "and is known while it comes back");
    assert_ne!(kit.pid("app~a").await, pid);
    assert!(matches!(kit.manager.disconnect(&kit.org, &key("app~z")), Err(ManagerError::NotFound)));
    let in_order: Vec<_> = kit.told().into_iter().filter(|told| matches!(told, Change::Status { .. })).collect();
    assert!(!in_order.is_empty());
}
