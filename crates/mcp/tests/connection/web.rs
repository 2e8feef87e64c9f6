//! Servers on the web that send too much, too slowly, or somewhere else.

use std::time::Duration;

use kitbag_guard::child::ChildSpec;
use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{CallError, Notice, Options};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_model::RemoteKind;
use serde_json::json;

use crate::conformance;
use crate::support::{WebTwin, call, called, open, options, remote, text, try_open};

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let twin = WebTwin::start("honest", &[]).await;
    let headers = vec![("X-Team".to_owned(), "a".to_owned()), ("Accept".to_owned(), "nothing".to_owned())];
    let endpoint = Endpoint::Remote { kind: RemoteKind::StreamableHttp, url: twin.url("/mcp?key=1"), headers };
    let opened = open(&endpoint).await;
    assert_eq!(opened.connection.protocol_version(), "2025-11-25");
    assert_eq!(opened.connection.tools().await.unwrap().tools[0].raw()["x-ours"], json!([1]));
    let result = called(&opened.connection, call("echo", json!({"a": 1}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": 1}");
    twin.seen.wait(|request| request["verb"] == "GET").await;
    opened.connection.close().await;
    let requests = twin.seen.all();
    let asked = |what: &str| {
        requests.iter().position(|request| request["message"]["method"] == what || request["verb"] == what)
    };
    assert!(asked("notifications/initialized") < asked("tools/list"), "{requests:?}");
    for request in &requests {
        let headers = &request["headers"];
        assert_eq!((&headers["x-team"], &request["path"]), (&json!("a"), &json!("/mcp?key=1")), "{request}");
        assert!(headers["accept"].as_str().unwrap().contains("text/event-stream"), "{request}");
        let before = ["server/discover", "initialize"].iter().any(|method| request["message"]["method"] == *method);
        assert_eq!(headers.get("mcp-session-id"), (!before).then(|| json!("s-1")).as_ref(), "{request}");
    }
    for verb in ["GET", "DELETE", "tools/call"] {
        let request = &requests[asked(verb).unwrap()];
        assert_eq!(request["headers"]["mcp-protocol-version"], "2025-11-25", "{request}");
    }
}

#[tokio::test]
async fn without_a_session_marked_arguments_go_into_headers_and_bad_marks_leave_a_tool_out() {
    let twin = WebTwin::start("modern", &[]).await;
    let opened = open(&twin.endpoint()).await;
    assert_eq!(opened.connection.protocol_version(), "2026-07-28");
    let where_ = "Köln\r\nX-Evil: 1";
    called(&opened.connection, call("marked", json!({"where": where_}))).await.unwrap();
    let seen = twin.seen.wait(|request| request["message"]["method"] == "tools/call").await;
    assert_eq!(seen["headers"]["mcp-name"], "marked");
    assert_eq!(seen["headers"]["mcp-param-where"], "=?base64?S8O2bG4NClgtRXZpbDogMQ==?=");
    assert!(seen["headers"].get("x-evil").is_none());
    let list = opened.connection.tools().await.unwrap();
    assert_eq!(list.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["echo", "marked"]);
    assert!(list.warnings[0].contains("`bad` is left out"), "{:?}", list.warnings);
    assert_eq!(list.ttl, Some(Duration::from_secs(5)));
    // Giving up means hanging up there.
    let mut hanging = call("echo", json!({"hang": true}));
    hanging.deadline = Duration::from_millis(200);
    assert!(matches!(called(&opened.connection, hanging).await, Err(CallError::Timeout(_))));
    opened.connection.ping().await.unwrap();
    assert!(!twin.seen.has("notifications/cancelled"));
}

#[tokio::test]
async fn addresses_inside_are_not_dialled_unless_allowed() {
    let options = Options { egress: EgressPolicy::default(), ..options() };
    for url in [
        "http://169.254.169.254/",
        "http://[::ffff:10.0.0.1]/",
        "http://0x7f000001/",
        "http://2130706433",
        "http://localhost./",
        "http://127.1/",
        "http://[::1]:8080/",
        "file:///etc/passwd",
        "http://user:pass@example.org/",
        "http://x.localhost/",
    ] {
        for kind in [RemoteKind::StreamableHttp, RemoteKind::Sse] {
            let error = try_open(&remote(kind, url.parse().unwrap()), &options).await.unwrap_err().to_string();
            let refused = error.contains("not dialled") || error.contains("user name or password");
            assert!(refused && !error.contains("pass@"), "{url}: {error}");
        }
    }
    let twin = WebTwin::start("honest", &[]).await;
    let allow = vec![format!("127.0.0.1:{}", twin.port).parse().unwrap()];
    let options = Options { egress: EgressPolicy { allow, ..EgressPolicy::default() }, ..options };
    try_open(&twin.endpoint(), &options).await.unwrap();
}

#[tokio::test]
async fn redirects_stay_at_home() {
    let other = WebTwin::start("honest", &[]).await;
    let there = other.url("/mcp").to_string();
    for (status, to, expected) in [
        ("307", there.as_str(), "another server"),
        ("302", there.as_str(), "another server"),
        ("307", "http://169.254.169.254/latest", "another server"),
        ("307", "file:///etc/passwd", "another server"),
        ("308", "/again", "4 times"),
        ("302", "/there", "loses the request"),
        ("307", "http://[", "no address"),
    ] {
        let twin = WebTwin::start("redirects", &[format!("status={status}"), format!("to={to}")]).await;
        let headers = vec![("Authorization".to_owned(), "Bearer s3cr3t".to_owned())];
        let endpoint = Endpoint::Remote { kind: RemoteKind::StreamableHttp, url: twin.url("/mcp"), headers };
        let error = try_open(&endpoint, &options()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{status} {to}: {error}");
    }
    assert_eq!(other.seen.all().len(), 0, "the other server was never asked");
    let twin = WebTwin::start("redirects", &["status=307".to_owned(), "to=/there".to_owned()]).await;
    let opened = open(&twin.endpoint()).await;
    assert_eq!(opened.connection.tools().await.unwrap().tools.len(), 1);
}

/// Calls a tool of a twin that does this, and says how it failed.
async fn failed_call(behaviour: &str, more: &[String]) -> CallError {
    let twin = WebTwin::start(behaviour, more).await;
    let options = Options { longest_message: 1 << 20, ..options() };
    let opened = try_open(&twin.endpoint(), &options).await.unwrap();
    let mut calling = call("echo", json!({}));
    if behaviour == "drips" {
        calling.deadline = Duration::from_millis(300);
    }
    let error = called(&opened.connection, calling).await.unwrap_err();
    // It costs that call and nothing else.
    opened.connection.ping().await.unwrap();
    error
}

#[tokio::test]
async fn answers_are_bounded_in_size_and_time() {
    for (behaviour, expected) in [
        ("endless_body", "longer than the 1048576 bytes"),
        ("huge_length", "longer than the 1048576 bytes"),
        ("endless_event", "more than 1048576 bytes"),
        ("drips", "within 0.3 seconds"),
        ("bomb", "compressed"),
        ("ends_early", "ended before the answer"),
        ("accepts", "no answer in it"),
        ("not_json", "no answer in it"),
    ] {
        let error = failed_call(behaviour, &[]).await.to_string();
        assert!(error.contains(expected), "{behaviour}: {error}");
    }
    let error = failed_call("not_json", &["status=500".to_owned()]).await.to_string();
    assert!(error.contains("HTTP 500"), "{error}");
}

#[tokio::test]
async fn a_storm_of_events_is_slowed_down() {
    let twin = WebTwin::start("storms", &[]).await;
    let mut opened = open(&twin.endpoint()).await;
    for _ in 0..20 {
        called(&opened.connection, call("echo", json!({}))).await.unwrap();
    }
    opened.connection.close().await;
    let said = opened.the_end().await.1.len();
    assert!((1..2000).contains(&said), "{said}");
}

#[tokio::test]
async fn events_are_read_however_they_are_cut() {
    let twin = WebTwin::start("odd_events", &[]).await;
    let mut opened = open(&twin.endpoint()).await;
    let result = called(&opened.connection, call("echo", json!({"a": "é"}))).await.unwrap();
    assert_eq!(text(&result), "{\"a\": \"\\u00e9\"}");
    opened.wait_for(&Notice::ToolsChanged).await;
}

#[tokio::test]
async fn what_a_server_says_by_itself_is_heard_again_after_a_break() {
    let twin = WebTwin::start("announces", &[]).await;
    let mut opened = open(&twin.endpoint()).await;
    for _ in 0..3 {
        opened.wait_for(&Notice::ToolsChanged).await;
    }
    let asked = twin.seen.all().into_iter().filter(|request| request["verb"] == "GET");
    let last: Vec<_> = asked.map(|request| request["headers"].get("last-event-id").cloned()).collect();
    assert_eq!(last, [None, Some(json!("1")), Some(json!("2"))]);
}

#[tokio::test]
async fn a_session_that_is_forgotten_ends_the_connection() {
    let twin = WebTwin::start("forgets", &[]).await;
    let mut opened = open(&twin.endpoint()).await;
    let error = called(&opened.connection, call("echo", json!({}))).await.unwrap_err();
    assert!(matches!(error, CallError::Disconnected(_)), "{error}");
    assert_eq!(opened.the_end().await.0, "the server has forgotten the session");
}

#[tokio::test]
async fn a_server_that_is_gone_is_noticed() {
    let twin = WebTwin::start("honest", &[]).await;
    let mut opened = open(&twin.endpoint()).await;
    drop(twin);
    while opened.connection.ping().await.is_ok() {}
    assert!(opened.the_end().await.0.contains("cannot reach `127.0.0.1`"));
    let nobody = remote(RemoteKind::StreamableHttp, "http://127.0.0.1:1/mcp".parse().unwrap());
    let error = try_open(&nobody, &options()).await.unwrap_err().to_string();
    assert!(error.contains("cannot reach `127.0.0.1`: Connection refused"), "{error}");
}

#[tokio::test]
async fn a_header_that_would_be_two_is_refused_and_not_shown() {
    for (name, value) in [("X-Key", "s3cr3t\r\nX-Evil: 1"), ("Bad Name", "s3cr3t"), ("Host", "s3cr3t")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let url = "http://127.0.0.1:1/".parse().unwrap();
        let error = try_open(&Endpoint::Remote { kind: RemoteKind::Sse, url, headers }, &options()).await.unwrap_err();
        assert!(error.to_string().contains(name) && !error.to_string().contains("s3cr3t"), "{error}");
    }
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_used() {
    let twin = WebTwin::start("honest", &[]).await;
    // It runs in a process of its own, since an environment belongs to a whole process.
    let nobody = "http://127.0.0.1:1";
    let proxies =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, nobody));
    let spec = ChildSpec::new(conformance::driver(), "/").args([twin.url("/mcp").to_string()]).declare(proxies);
    let (mut child, _pipes) = spec.start().await.unwrap();
    assert!(child.ended().await.unwrap().success());
    assert!(twin.seen.has("tools/call"));
}

#[tokio::test]
async fn a_proxy_that_is_configured_is_used() {
    let proxy = WebTwin::start("honest", &[]).await;
    let egress = EgressPolicy { proxy: Some(proxy.url("/").as_str().parse().unwrap()), ..EgressPolicy::default() };
    let endpoint = remote(RemoteKind::StreamableHttp, "http://server.example/mcp".parse().unwrap());
    let opened = try_open(&endpoint, &Options { egress, ..options() }).await.unwrap();
    opened.connection.ping().await.unwrap();
    assert!(proxy.seen.all().iter().all(|request| request["path"] == "http://server.example/mcp"));
}
