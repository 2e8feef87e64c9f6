//! Libraries list and call tools, with settings in their headers: all see the same tools, and no more.

use kitbag_testkit::TestDatabase;
use serde_json::{Value, json};

use crate::drive::{LIBRARIES, drive, knows_both_eras, names};
use crate::kit::{node, with};
use crate::{BINARY, calls, ends, served};

/// Two tools that are in, and two that are out: one of a toolset that is in, one of a server of which another tool is in.
fn wanted() -> Value {
    json!([
        { "name": "words__shout", "arguments": { "text": "hello" } },
        { "name": "mcp__everything__echo", "arguments": { "message": "hello" } },
        { "name": "words__count", "arguments": { "text": "hello" } },
        { "name": "mcp__everything__get-sum", "arguments": { "a": 1, "b": 2 } },
    ])
}

const SEEN: [&str; 2] = ["mcp__everything__echo", "words__shout"];

/// What a client with these settings must have seen.
fn check(what: &str, seen: &Value) {
    assert_eq!(names(seen), SEEN, "{what}: {seen}");
    let answer = |place: usize| &seen["answers"][place];
    assert_eq!(answer(0)["result"]["content"][0]["text"], "HELLO", "{what}: {seen}");
    assert_eq!(answer(1)["result"]["content"][0]["text"], "Echo: hello", "{what}: {seen}");
    for place in [2, 3] {
        let refused = answer(place)["error"].is_string() || answer(place)["result"]["isError"] == true;
        assert!(refused, "{what} called a tool that was not on offer: {seen}");
    }
}

/// Whether Kitbag itself knows of the calls, and of none that it refused.
const CALLED: [(&str, &str); 2] = [("mcp:everything~everything:echo", "success"), ("words:shout", "success")];

fn settings(token: &str, chat: &str) -> Value {
    json!({
        "Authorization": format!("Bearer {token}"),
        "X-Mcp-Toolsets": "words",
        "X-Mcp-Enabled-Tools": "mcp:everything~everything:echo",
        "X-Mcp-Disabled-Tools": "words:count",
        "X-Mcp-Chat": chat,
    })
}

async fn over_http(driver: &str) {
    let database = TestDatabase::sqlite();
    let (server, _) = served(&database).await;
    let eras: &[&str] = if knows_both_eras(driver) { &["auto", "legacy", "2026-07-28"] } else { &["legacy"] };
    for era in eras {
        let chat = crate::new_chat(&server).await;
        let url = format!("{}/mcp", server.url);
        let job = json!({
            "url": url, "transport": "http", "headers": settings(&server.token, &chat), "era": era, "calls": wanted(),
        });
        let seen = drive(driver, &job).await;
        check(&format!("{driver}, {era}"), &seen);
        let version = if *era == "legacy" { "2025-11-25" } else { "2026-07-28" };
        assert_eq!(seen["protocolVersion"], version, "{driver}, {era}");
        assert_eq!(ends(&calls(&server, &chat, 2).await), CALLED, "{driver}, {era}");

        if *era != eras[0] {
            continue;
        }
        // A list with a mistake is told, and nothing is listed.
        let wrong = with(job["headers"].clone(), json!({ "X-Mcp-Toolsets": "wrods" }));
        let told = drive(driver, &with(job.clone(), json!({ "headers": wrong, "calls": [] }))).await;
        assert!(told["failure"].is_string(), "{driver}, {era}: {told}");
        // Who has no token gets nothing.
        let nobody = drive(driver, &with(job.clone(), json!({ "headers": {}, "calls": [] }))).await;
        assert!(nobody["failure"].is_string(), "{driver}, {era}: {nobody}");
    }
}

async fn over_sse(driver: &str) {
    let database = TestDatabase::sqlite();
    let (server, chat) = served(&database).await;
    let job = json!({
        "url": format!("{}/sse", server.url), "transport": "sse", "headers": settings(&server.token, &chat),
        "era": "legacy", "calls": wanted(),
    });
    let seen = drive(driver, &job).await;
    check(driver, &seen);
    assert_eq!(ends(&calls(&server, &chat, 2).await), CALLED, "{driver}");
}

async fn over_a_pipe(driver: &str) {
    let database = TestDatabase::sqlite();
    let (server, chat) = served(&database).await;
    let args = [
        "mcp",
        "stdio",
        "--data",
        database.data().to_str().unwrap(),
        "--toolsets",
        "words",
        "--enabled-tools",
        "mcp:everything~everything:echo",
        "--disabled-tools",
        "words:count",
        "--chat",
        &chat,
    ];
    let job = json!({ "command": BINARY, "args": args, "headers": {}, "era": "auto", "calls": wanted() });
    let seen = drive(driver, &job).await;
    check(driver, &seen);
    assert_eq!(ends(&calls(&server, &chat, 2).await), CALLED, "{driver}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_toolset_and_one_server_have_addresses_of_their_own() {
    let database = TestDatabase::sqlite();
    let (server, chat) = served(&database).await;
    let headers = json!({ "Authorization": format!("Bearer {}", server.token), "X-Mcp-Chat": chat });
    let at = |path: &str, call: Value| {
        let url = format!("{}/v1/orgs/local/{path}/mcp", server.url);
        json!({ "url": url, "transport": "http", "headers": headers, "era": "auto", "calls": [call] })
    };
    for driver in ["typescript_new.mjs", "typescript_old.mjs"] {
        let job = at("toolsets/words", json!({ "name": "shout", "arguments": { "text": "hello" } }));
        let seen = drive(driver, &job).await;
        assert_eq!(names(&seen), ["count", "shout"], "{driver}: {seen}");
        assert_eq!(seen["answers"][0]["result"]["content"][0]["text"], "HELLO", "{driver}: {seen}");
        let job =
            at("mcp-servers/everything~everything", json!({ "name": "get-sum", "arguments": { "a": 1, "b": 2 } }));
        let seen = drive(driver, &job).await;
        assert!(names(&seen).contains(&"echo") && !names(&seen).contains(&"shout"), "{driver}: {seen}");
        let text = seen["answers"][0]["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains('3'), "{driver}: {seen}");
    }
}

/// The driver itself, with a server of somebody else's: if this fails, it says nothing about Kitbag.
async fn without_kitbag(driver: &str) {
    let call = json!([{ "name": "echo", "arguments": { "message": "hello" } }, { "name": "nope", "arguments": {} }]);
    let job = json!({ "headers": {}, "era": "auto", "calls": call });
    let seen = drive(driver, &with(job, node("server-everything", &["stdio"]))).await;
    assert!(names(&seen).contains(&"echo") && seen["protocolVersion"] == "2025-11-25", "{driver}: {seen}");
    assert_eq!(seen["answers"][0]["result"]["content"][0]["text"], "Echo: hello", "{driver}: {seen}");
    let refused = &seen["answers"][1];
    assert!(refused["error"].is_string() || refused["result"]["isError"] == true, "{driver}: {seen}");
}

/// One test for each library and each way, so that it is seen at once which of them fails.
macro_rules! each {
    ($($way:ident: $($name:ident $place:literal)+;)+) => {
        $(mod $way {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$way(super::LIBRARIES[$place]).await;
            })+
        })+
    };
}

each! {
    over_http: python 0 fastmcp 1 old_python 2 typescript 3 old_typescript 4 inspector 5;
    over_sse: python 0 fastmcp 1 old_python 2 typescript 3 old_typescript 4 inspector 5;
    over_a_pipe: python 0 fastmcp 1 old_python 2 typescript 3 old_typescript 4 inspector 5;
    without_kitbag: python 0 fastmcp 1 old_python 2 typescript 3 old_typescript 4 inspector 5;
}
