//! Who may enter, and whose session is whose.

use kitbag_testkit::TestDatabase;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Client, token};
use crate::{BINARY, serve};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_enters_without_a_token_that_may_use_tools() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
    for path in ["/mcp", "/v1/orgs/local/mcp", "/v1/orgs/local/toolsets/builtin/mcp"] {
        let answer = server.anonymous(Method::POST, path).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 401, "{path}");
        assert!(answer.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
        let query = format!("{path}?token={}", server.token);
        assert_eq!(server.anonymous(Method::POST, &query).json(&body).send().await.unwrap().status(), 401);
    }
    let manager = token(&server, "only manages", &["manage"]).await;
    let heard = Client::new(&server, "/mcp").with_token(&manager).ask("tools/list", json!({})).await;
    assert_eq!(heard.status, StatusCode::FORBIDDEN);
    let elsewhere = Client::new(&server, "/v1/orgs/other/mcp").ask("tools/list", json!({})).await;
    assert_eq!(elsewhere.status, StatusCode::NOT_FOUND);
    for (name, value) in [("origin", "http://evil.example"), ("origin", "null"), ("host", "evil.example")] {
        let heard = Client::new(&server, "/mcp").with(name, value).ask("tools/list", json!({})).await;
        assert_eq!(heard.status, StatusCode::FORBIDDEN, "{name}: {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_its_owners_alone_and_leads_nowhere_else() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let mut client = Client::new(&server, "/mcp");
    assert_eq!(client.begin().await.result()["protocolVersion"], "2025-11-25");
    assert!(client.request(1, "ping", json!({})).await.result().as_object().unwrap().is_empty());
    let session = client.session().to_owned();
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });

    // Somebody else's token, another address, a name that was guessed: there is no such session.
    let other = token(&server, "another", &["use"]).await;
    let thief = Client::new(&server, "/mcp").with_token(&other).taking(&session);
    assert_eq!(thief.in_session(&ping).send().await.unwrap().status(), 404);
    let elsewhere = Client::new(&server, "/v1/orgs/local/mcp").taking(&session);
    assert_eq!(elsewhere.in_session(&ping).send().await.unwrap().status(), 404);
    let guess = Client::new(&server, "/mcp").taking(&"0".repeat(48));
    assert_eq!(guess.in_session(&ping).send().await.unwrap().status(), 404);

    // Without one there are no older requests, and the newest revision takes no notice of it.
    let bare = client.post(&ping).header("mcp-protocol-version", "2025-11-25").send().await.unwrap();
    assert_eq!(bare.status(), 400);
    let newest = client.asking("tools/list", json!({})).header("mcp-session-id", "whatever").send().await.unwrap();
    assert!(newest.status() == 200 && !newest.headers().contains_key("mcp-session-id"));
    let got = server.request(Method::GET, "/mcp").send().await.unwrap();
    assert_eq!(got.status(), 405);

    // When it is over it is over.
    let ended = server.request(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(ended.status(), 204);
    assert_eq!(client.in_session(&ping).send().await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_refused() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let send = |kind: &'static str, body: String| {
        let request = server.request(Method::POST, "/mcp").header("content-type", kind);
        async move { request.body(body).send().await.unwrap().status().as_u16() }
    };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(send("text/plain", ping.to_owned()).await, 415);
    assert_eq!(send("application/json", "{".to_owned()).await, 400);
    assert_eq!(send("application/json", format!("[{ping}]")).await, 400);
    assert_eq!(send("application/json", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned()).await, 400);
    assert_eq!(send("application/json", "x".repeat(50 << 20)).await, 413);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        send("application/json", format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{deep}}}"#)).await,
        400
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_too_much_is_told_when_to_come_back() {
    let database = TestDatabase::sqlite();
    let server = kitbag_testkit::Server::start(BINARY, &database, &["--mcp-rate", "5"]);
    let client = Client::new(&server, "/mcp");
    let mut refused = None;
    for _ in 0..100 {
        let heard = client.ask("server/discover", json!({})).await;
        if heard.status == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(heard);
            break;
        }
        assert_eq!(heard.status, StatusCode::OK);
    }
    let refused = refused.expect("a limit");
    assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    // It is one client's limit, and nobody else's.
    let other = token(&server, "another", &["use"]).await;
    let heard = Client::new(&server, "/mcp").with_token(&other).ask("server/discover", json!({})).await;
    assert_eq!(heard.status, StatusCode::OK);
}
