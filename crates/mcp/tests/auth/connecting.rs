//! A connection to a server that wants tokens: what it makes of a refusal, and that it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::auth::Challenge;
use kitbag_mcp::connection::{Boxed, ConnectError, Connection, Options, Tokens};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_model::RemoteKind;
use tokio::sync::mpsc::unbounded_channel;

use crate::stand::{Odd, Stand};
use crate::support::Desk;

async fn connect(stand: &Stand, tokens: Option<Arc<dyn Tokens>>) -> ConnectError {
    let url = format!("{}/mcp", stand.url).parse().unwrap();
    let endpoint = Endpoint::Remote { kind: RemoteKind::StreamableHttp, url, headers: Vec::new() };
    let options = Options {
        connect: Duration::from_secs(20),
        answer: Duration::from_secs(20),
        egress: EgressPolicy { allow_private: true, ..EgressPolicy::default() },
        longest_message: 1 << 20,
        most_tools: 10,
        pass_environment: Vec::new(),
        sandbox: None,
    };
    let (notices, _said) = unbounded_channel();
    Connection::open(&endpoint, &options, tokens, notices).await.err().expect("it is no MCP server")
}

#[tokio::test]
async fn it_sends_the_token_and_says_what_is_missing() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let tokens: Arc<dyn Tokens> = Arc::new(desk.auth.tokens(desk.server.clone(), desk.settings.clone()));
    let ConnectError::NeedsAuth { challenge: Some(challenge) } = connect(&stand, Some(tokens.clone())).await else {
        panic!("it wants somebody to sign in");
    };
    desk.sign_in(Some(&challenge)).await.unwrap();
    let token = desk.bearer().await.unwrap();
    // It is let in, and finds that there is nobody who speaks the protocol.
    assert!(matches!(connect(&stand, Some(tokens)).await, ConnectError::Failed(_)));
    let sent = stand.asked("/mcp").last().unwrap().authorization.clone();
    assert_eq!(sent, Some(format!("Bearer {token}")));
}

#[tokio::test]
async fn a_challenge_may_be_in_several_headers() {
    let stand = Stand::start().await;
    let headers = vec![
        ("www-authenticate", "Basic realm=\"x\"".to_owned()),
        ("www-authenticate", "Bearer scope=\"read\", resource_metadata=\"https://x.example/\"".to_owned()),
    ];
    stand.odd("/mcp", Odd::Answer(401, headers, String::new()));
    let ConnectError::NeedsAuth { challenge: Some(challenge) } = connect(&stand, None).await else { panic!() };
    let read = Challenge::parse(&challenge);
    assert_eq!((read.scopes, read.resource_metadata.as_deref()), (vec!["read".to_owned()], Some("https://x.example/")));
}

#[tokio::test]
async fn a_no_that_is_not_about_tokens_is_not_answered_with_one() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    desk.pass(60);
    stand.odd("/mcp", Odd::Answer(403, vec![], "your address is blocked".into()));
    let tokens = desk.auth.tokens(desk.server.clone(), desk.settings.clone());
    assert!(matches!(connect(&stand, Some(Arc::new(tokens))).await, ConnectError::Failed(_)));
    assert_eq!(stand.asked("/token").len(), 1, "nothing was renewed");
}

/// Always has another one.
struct Endless(AtomicUsize);

impl Tokens for Endless {
    fn bearer(&self) -> Boxed<'_, Option<String>> {
        Box::pin(async { Some(format!("token-{}", self.0.fetch_add(1, Ordering::SeqCst))) })
    }

    fn refused(&self, _challenge: Option<String>) -> Boxed<'_, bool> {
        Box::pin(async { true })
    }
}

#[tokio::test]
async fn there_is_an_end_to_trying() {
    let stand = Stand::start().await;
    let error = connect(&stand, Some(Arc::new(Endless(AtomicUsize::new(0))))).await;
    assert!(matches!(error, ConnectError::NeedsAuth { challenge: Some(_) }), "{error}");
    assert!(stand.asked("/mcp").len() < 10);
}
