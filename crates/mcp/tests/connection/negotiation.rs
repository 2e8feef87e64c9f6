//! Which revision of the protocol is spoken, with every kind of server.

use std::collections::BTreeSet;
use std::time::Duration;

use kitbag_mcp::connection::{Notice, Options};
use serde_json::json;

use crate::support::{Seen, call, called, open, options, text, try_open, twin};

#[tokio::test]
async fn every_revision_with_a_session_is_spoken() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let opened = open(&twin("legacy_version", &[format!("version={version}")])).await;
        assert_eq!(opened.connection.protocol_version(), version);
    }
}

#[tokio::test]
async fn what_a_server_says_of_itself_is_kept() {
    let opened = open(&twin("honest", &[])).await;
    assert_eq!(opened.connection.server_info(), json!({"name": "twin", "version": "1", "x-more": true}));
    assert_eq!(opened.connection.instructions(), Some("Be kind."));
    assert_eq!(opened.connection.capabilities(), json!({"tools": {"listChanged": true}}));
}

#[tokio::test]
async fn a_revision_that_we_do_not_know_is_refused() {
    let error = try_open(&twin("legacy_version", &["version=2031-01-01".to_owned()]), &options()).await.unwrap_err();
    assert!(error.to_string().contains("2031-01-01") && error.to_string().contains("2025-11-25"), "{error}");
}

#[tokio::test]
async fn a_server_without_sessions_is_spoken_to_without() {
    let seen = Seen::new();
    let opened = open(&twin("modern", &[seen.option()])).await;
    assert_eq!(opened.connection.protocol_version(), "2026-07-28");
    assert_eq!(opened.connection.server_info()["name"], "twin");
    assert_eq!(opened.connection.tools().await.unwrap().ttl, Some(Duration::from_secs(60)));
    let result = called(&opened.connection, call("echo", json!({"a": 1}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": 1}");
    opened.connection.ping().await.unwrap();
    // Every request stands for itself.
    for request in seen.all() {
        let beside = &request["params"]["_meta"];
        assert_eq!(beside["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request}");
        assert_eq!(beside["io.modelcontextprotocol/clientInfo"]["name"], "kitbag");
        assert_eq!(beside["io.modelcontextprotocol/clientCapabilities"], json!({}));
    }
    assert!(!seen.has("initialize") && !seen.has("notifications/initialized"));
}

#[tokio::test]
async fn a_server_that_says_nothing_to_the_new_question_is_asked_the_old_one() {
    let options = Options { connect: Duration::from_secs(6), ..options() };
    let opened = try_open(&twin("ignores_unknown", &[]), &options).await.unwrap();
    assert_eq!(opened.connection.protocol_version(), "2025-11-25");
}

#[tokio::test]
async fn a_server_that_dies_of_the_new_question_is_started_again_for_the_old_one() {
    let mut opened = open(&twin("dies_on_unknown", &[])).await;
    assert_eq!(opened.connection.protocol_version(), "2025-11-25");
    opened.connection.close().await;
    // Nobody hears of the end of the first one.
    assert_eq!(opened.the_end().await, ("it was closed".to_owned(), Vec::new()));
}

#[tokio::test]
async fn an_error_of_the_new_kind_is_no_reason_to_fall_back() {
    for (code, supported, expected) in [
        ("-32022", "2027-01-01,2028-01-01", "2027-01-01"),
        ("-32022", "", "speaks []"),
        // It refuses what it says it has, again and again.
        ("-32022", "2026-07-28", "refuses 2026-07-28"),
        ("-32021", "", "(-32021)"),
        ("-32020", "", "(-32020)"),
    ] {
        let seen = Seen::new();
        let more = [seen.option(), format!("code={code}"), format!("supported={supported}")];
        let error = try_open(&twin("modern_rejects", &more), &options()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{code} {supported}: {error}");
        assert!(!seen.has("initialize"), "{code} {supported}");
    }
}

#[tokio::test]
async fn a_server_that_names_a_revision_with_a_session_gets_that_one() {
    let more = ["code=-32022".to_owned(), "supported=2027-01-01,2025-06-18".to_owned()];
    assert_eq!(open(&twin("modern_rejects", &more)).await.connection.protocol_version(), "2025-06-18");
    let more = ["code=-32601".to_owned()];
    assert_eq!(open(&twin("modern_rejects", &more)).await.connection.protocol_version(), "2025-11-25");
}

#[tokio::test]
async fn a_subscription_is_kept_where_there_are_no_sessions() {
    let seen = Seen::new();
    let mut opened = open(&twin("modern_subscription", &[seen.option()])).await;
    // Once from each of the two subscriptions, and once because something may have happened between them, to the other lists, too.
    let (mut tools, mut others) = (0, BTreeSet::new());
    while tools < 3 || others.len() < 2 {
        match opened.notices.recv().await.expect("the connection lasts") {
            Notice::ToolsChanged => tools += 1,
            Notice::Told { method, .. } if method != "notifications/tools/list_changed" => drop(others.insert(method)),
            _ => {}
        }
    }
    assert!(
        others.iter().eq(["notifications/prompts/list_changed", "notifications/resources/list_changed"]),
        "{others:?}"
    );
    let listened = seen.all().into_iter().filter(|message| message["method"] == "subscriptions/listen");
    assert_eq!(
        listened.map(|message| message["params"]["notifications"].clone()).collect::<Vec<_>>(),
        vec![json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}); 2]
    );
}
