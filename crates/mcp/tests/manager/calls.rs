//! Calls: waited for, cancelled, refused.

use std::time::Duration;

use kitbag_mcp::connection::{Call, CallError};
use kitbag_mcp::manager::{ManagerError, Status};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::kit::{Kit, key, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_server_but_not_for_ever() {
    let kit = Kit::new(|settings| settings.wait = Duration::from_millis(50));
    kit.configure(&[&kit.twin("app~a", &["--hang"])]);
    let error = kit.call("app~a", "pid", json!({})).await.unwrap_err();
    assert!(matches!(error, ManagerError::NotConnected { status: Status::Connecting, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_can_be_stopped() {
    let kit = Kit::new(|_| ());
    kit.configure(&[&kit.twin("app~a", &["--hang"])]);
    let (stop, stopped) = watch::channel(false);
    let call = Call { stop: stopped, ..request("pid", Default::default()) };
    let key = key("app~a");
    let waiting = kit.manager.call(&kit.org, &key, call);
    let (answer, ()) = tokio::join!(waiting, async { stop.send(true).unwrap() });
    assert!(matches!(answer, Err(ManagerError::Call(CallError::Cancelled))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_takes_longer_than_any_may() {
    let mut kit = Kit::new(|settings| settings.longest_call = Duration::from_millis(50));
    kit.configure(&[&kit.twin("app~a", &[])]);
    kit.until("app~a", Status::Connected).await;
    let error = kit.call("app~a", "sleep", json!({ "seconds": 1000 })).await.unwrap_err();
    assert!(matches!(error, ManagerError::Call(CallError::Timeout(_))), "{error}");
    // It was slow and is not dead: it is asked, answers and stays.
    let info = kit.manager.request(&kit.org, &key("app~a"), "ping", Value::Null).await.unwrap();
    assert_eq!(info, json!({}));
    assert_eq!(kit.state("app~a").status, Status::Connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_a_server() {
    let mut kit = Kit::new(|_| ());
    kit.configure(&[&kit.twin("app~a", &[])]);
    kit.until("app~a", Status::Connected).await;
    let state = kit.state("app~a");
    assert_eq!(state.server_info, Some(json!({ "name": "twin", "version": "1" })));
    assert_eq!(state.protocol_version.as_deref(), Some("2025-11-25"));
    assert_eq!(state.reason, "it is connected");
    let error = kit.manager.request(&kit.org, &key("app~a"), "no/such", Value::Null).await.unwrap_err();
    assert!(matches!(error, ManagerError::Call(CallError::Refused { code: -32601, .. })), "{error}");
    assert!(matches!(kit.call("app~b", "pid", json!({})).await, Err(ManagerError::NotFound)));
    let nobody = "nobody".parse().unwrap();
    assert!(kit.manager.states(&nobody).is_empty() && kit.manager.state(&nobody, &key("app~a")).is_none());
}
