//! Servers that want somebody to sign in.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kitbag_mcp::connection::{Boxed, CallError, ConnectError, Connection, Tokens};
use kitbag_model::RemoteKind;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{WebTwin, call, called, open, options, remote, try_open};

/// Tokens in the order in which they are tried.
struct Queue {
    tokens: Vec<&'static str>,
    at: AtomicUsize,
    challenges: Mutex<Vec<Option<String>>>,
}

impl Queue {
    fn new(tokens: &[&'static str]) -> Arc<Self> {
        Arc::new(Self { tokens: tokens.to_vec(), at: AtomicUsize::new(0), challenges: Mutex::default() })
    }
}

impl Tokens for Queue {
    fn bearer(&self) -> Boxed<'_, Option<String>> {
        Box::pin(async { self.tokens.get(self.at.load(Ordering::SeqCst)).map(|token| (*token).to_owned()) })
    }

    fn refused(&self, challenge: Option<String>) -> Boxed<'_, bool> {
        Box::pin(async {
            self.challenges.lock().unwrap().push(challenge);
            self.at.fetch_add(1, Ordering::SeqCst) + 1 < self.tokens.len()
        })
    }
}

const CHALLENGE: &str = "Bearer resource_metadata=\"http://twin/meta\", scope=\"a b\"";

#[tokio::test]
async fn without_a_token_the_challenge_comes_back() {
    for status in ["401", "403"] {
        let twin = WebTwin::start("refuses", &[format!("status={status}")]).await;
        for kind in [RemoteKind::StreamableHttp, RemoteKind::Sse] {
            let error = try_open(&remote(kind, twin.url("/mcp")), &options()).await.unwrap_err();
            assert!(
                matches!(&error, ConnectError::NeedsAuth { challenge: Some(said) } if said == CHALLENGE),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn another_token_is_tried_as_long_as_there_is_one() {
    let twin = WebTwin::start("refuses", &["status=401".to_owned()]).await;
    let tokens = Queue::new(&["old", "older", "new"]);
    let (notices, _said) = unbounded_channel();
    let connection = Connection::open(&twin.endpoint(), &options(), Some(tokens.clone()), notices).await.unwrap();
    connection.ping().await.unwrap();
    assert_eq!(*tokens.challenges.lock().unwrap(), vec![Some(CHALLENGE.to_owned()); 2]);
    let tokens = Queue::new(&["old", "older"]);
    let (notices, _said) = unbounded_channel();
    let refused = Connection::open(&twin.endpoint(), &options(), Some(tokens), notices).await;
    assert!(matches!(refused, Err(ConnectError::NeedsAuth { .. })));
}

#[tokio::test]
async fn a_call_that_needs_more_says_so() {
    let twin = WebTwin::start("refuses_calls", &[]).await;
    let opened = open(&twin.endpoint()).await;
    let error = called(&opened.connection, call("echo", json!({}))).await.unwrap_err();
    let CallError::NeedsAuth { challenge: Some(challenge) } = error else { panic!("{error}") };
    assert_eq!(challenge, "Bearer error=\"insufficient_scope\", scope=\"more\"");
    opened.connection.ping().await.unwrap();
}
