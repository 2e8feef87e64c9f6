//! Calls: waited for, cancelled, refused.

use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::connection::{Answers, Boxed, Call, CallError, Refusal};
use kitbag_mcp::manager::{ManagerError, Status};
use serde_json::{Map, Value, json};
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

/// A client that answers every question with its own name.
struct Somebody(&'static str);

impl Answers for Somebody {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        Map::from_iter([("elicitation".to_owned(), json!({}))])
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        assert_eq!(method, "elicitation/create");
        let answer = json!({ "action": "accept", "content": { "by": self.0, "asked": params["message"] } });
        Some(Box::pin(std::future::ready(Ok(answer))))
    }

    fn who(&self) -> &str {
        self.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_its_clients_has_a_connection_for_each() {
    let mut kit = Kit::new(|_| ());
    kit.configure(&[&kit.twin("app~a", &[])]);
    kit.until("app~a", Status::Connected).await;
    let called = async |who: Option<&'static str>, tool: &str, args: Value| {
        let Value::Object(args) = args else { unreachable!("arguments are an object") };
        let mut call = request(tool, args);
        call.beside = who.map(|who| Arc::new(Somebody(who)) as _);
        let answer = kit.manager.call(&kit.org, &key("app~a"), call).await.unwrap();
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    };
    // Until it asks, all share one.
    let shared = called(None, "pid", json!({})).await;
    assert_eq!(called(Some("anna"), "pid", json!({})).await, shared);
    let answer = called(Some("anna"), "ask", json!({ "text": "first" })).await;
    assert!(answer.contains("\"by\": \"anna\"") && answer.contains("first"), "{answer}");
    // From then on who can be asked is alone, and is the one who is asked.
    let (anna, bert) = (called(Some("anna"), "pid", json!({})).await, called(Some("bert"), "pid", json!({})).await);
    assert!(anna != shared && bert != shared && anna != bert);
    assert_eq!(called(Some("anna"), "pid", json!({})).await, anna);
    assert_eq!(called(None, "pid", json!({})).await, shared);
    let (one, other) = tokio::join!(
        called(Some("anna"), "ask", json!({ "text": "one" })),
        called(Some("bert"), "ask", json!({ "text": "other" })),
    );
    assert!(one.contains("anna") && one.contains("one") && other.contains("bert") && other.contains("other"));
    kit.manager.shut_down().await;
    for pid in [&shared, &anna, &bert] {
        let gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
        for _ in 0..200 {
            if gone() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(gone(), "{pid} is still there");
    }
}
