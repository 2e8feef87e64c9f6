//! What was agreed on last time: it saves a question where it holds, and costs nothing worse than time where it does not.

use std::time::Duration;

use kitbag_mcp::connection::Options;
use kitbag_model::RemoteKind;

use crate::support::{Seen, WebTwin, options, remote, try_again, try_open, twin};

const SESSION: &str = "2025-06-18";
const STATELESS: &str = "2026-07-28";

/// Who is known is waited for longer than who is not, and the half of this is long enough for a test.
fn soon() -> Options {
    Options { connect: Duration::from_secs(6), ..options() }
}

#[tokio::test]
async fn a_server_with_a_session_is_greeted_at_once() {
    for behaviour in ["honest", "ignores_unknown", "dies_on_unknown"] {
        let seen = Seen::new();
        let opened = try_again(&twin(behaviour, &[seen.option()]), &options(), SESSION).await.unwrap();
        // It is offered the newest revision all the same.
        assert_eq!(opened.connection.protocol_version(), "2025-11-25", "{behaviour}");
        opened.connection.tools().await.unwrap();
        assert_eq!(seen.methods(), ["initialize", "notifications/initialized", "tools/list"], "{behaviour}");
    }
}

#[tokio::test]
async fn a_server_without_sessions_is_asked_what_it_is() {
    let seen = Seen::new();
    let opened = try_again(&twin("modern", &[seen.option()]), &options(), STATELESS).await.unwrap();
    assert_eq!(opened.connection.protocol_version(), STATELESS);
    assert_eq!(seen.methods(), ["server/discover"]);
}

#[tokio::test]
async fn what_does_not_hold_any_more_is_found_out_anew() {
    for (last, behaviour, now) in [
        // It refuses, and it is silent.
        (SESSION, "modern", STATELESS),
        (SESSION, "modern_ignores_unknown", STATELESS),
        (STATELESS, "honest", "2025-11-25"),
        (STATELESS, "ignores_unknown", "2025-11-25"),
        // Nobody knows that one.
        ("1999-01-01", "honest", "2025-11-25"),
    ] {
        let opened = try_again(&twin(behaviour, &[]), &soon(), last).await;
        assert_eq!(opened.unwrap().connection.protocol_version(), now, "{last} {behaviour}");
    }
}

#[tokio::test]
async fn on_the_web_too() {
    for (last, behaviour, now) in [
        (SESSION, "honest", "2025-11-25"),
        (SESSION, "modern", STATELESS),
        (STATELESS, "modern", STATELESS),
        (STATELESS, "honest", "2025-11-25"),
    ] {
        let server = WebTwin::start(behaviour, &[]).await;
        let opened = try_again(&server.endpoint(), &options(), last).await;
        assert_eq!(opened.unwrap().connection.protocol_version(), now, "{last} {behaviour}");
        assert_eq!(server.seen.has("server/discover"), (last, behaviour) != (SESSION, "honest"), "{last} {behaviour}");
    }
    // The older way of the web has sessions only.
    let server = WebTwin::start("old", &[]).await;
    let endpoint = remote(RemoteKind::Sse, server.url("/sse"));
    let opened = try_again(&endpoint, &options(), STATELESS).await.unwrap();
    assert_ne!(opened.connection.protocol_version(), STATELESS);
}

#[tokio::test]
async fn a_process_that_ends_with_a_question_it_knew_is_not_started_again() {
    for (last, method) in [(SESSION, "initialize"), (STATELESS, "server/discover")] {
        let seen = Seen::new();
        let error = try_again(&twin("cannot_start", &[seen.option()]), &options(), last).await.unwrap_err();
        assert_eq!(error.to_string(), "the server ended with exit code 127");
        assert_eq!(seen.methods(), [method]);
    }
    // It is another program than last time; without what is remembered it is understood.
    let seen = Seen::new();
    let endpoint = twin("dies_on_unknown", &[seen.option()]);
    let error = try_again(&endpoint, &options(), STATELESS).await.unwrap_err();
    assert_eq!(error.to_string(), "the server ended with exit code 1");
    assert_eq!(seen.methods(), ["server/discover"]);
    try_open(&endpoint, &options()).await.unwrap();
}

#[tokio::test]
async fn a_process_that_could_not_be_started_is_not_started_again() {
    let seen = Seen::new();
    let error = try_open(&twin("cannot_start", &[seen.option()]), &options()).await.unwrap_err();
    assert_eq!(error.to_string(), "the server ended with exit code 127");
    assert_eq!(seen.methods(), ["server/discover"]);
}
