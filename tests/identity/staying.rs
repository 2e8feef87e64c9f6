//! Whoever is out is out at once: also who has a stream open.

use std::time::Duration;

use kitbag_testkit::{Server, TestDatabase, on_both};
use reqwest::{Method, Response, header};
use serde_json::json;
use tokio::time::timeout;

use crate::browsers::{Browser, id_of, invited, owner};
use crate::kit::{Walker, asking, issuer, serve};
use crate::twin::Twin;

const EVENTS: &str = "/v1/orgs/acme/events";
const MCP: &str = "/v1/orgs/acme/mcp";

/// Long before anybody is looked at again for no reason.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Reads on until the stream is over.
async fn ends(mut stream: Response, what: &str) {
    let read = async { while let Ok(Some(_)) = stream.chunk().await {} };
    assert!(timeout(AT_ONCE, read).await.is_ok(), "{what} goes on");
}

async fn opened(request: reqwest::RequestBuilder) -> Response {
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    // Whatever is said first says that it stands.
    assert!(stream.chunk().await.unwrap().is_some());
    stream
}

fn with_cookie(browser: &Browser<'_>, path: &str) -> reqwest::RequestBuilder {
    let request = browser.server.anonymous(Method::GET, path).header(header::COOKIE, &browser.cookie);
    request.header("sec-fetch-site", "same-origin")
}

fn with_token(server: &Server, path: &str, token: &str) -> reqwest::RequestBuilder {
    server.anonymous(Method::GET, path).bearer_auth(token)
}

async fn token(browser: &Browser<'_>, name: &str) -> (String, String) {
    let made = browser.post("/v1/orgs/acme/tokens", json!({ "name": name, "scopes": ["use"] })).await.expect(201);
    (made["id"].as_str().unwrap().to_owned(), made["secret"].as_str().unwrap().to_owned())
}

/// Opens a session of the older protocol. Its name.
async fn session(server: &Server, token: &str) -> String {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let begun = server.anonymous(Method::POST, MCP).bearer_auth(token).json(&body).send().await.unwrap();
    begun.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

/// A client that waits for what is said by itself: it is told of every change, so that something comes first.
async fn listening(server: &Server, token: &str) -> Response {
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    opened(asking(server, MCP, "subscriptions/listen", wanted).bearer_auth(token)).await
}

on_both! {
    async fn streams_end_with_the_rights_that_opened_them(database: TestDatabase) {
        let server = serve(&database, "");
        let ada = owner(&server, "acme").await;
        let grace = invited(&ada, "acme", "grace@acme.example", "member").await;
        let mut stays = opened(with_cookie(&ada, EVENTS)).await;

        // A token that is revoked.
        let (id, secret) = token(&grace, "one").await;
        let events = opened(with_token(&server, EVENTS, &secret)).await;
        let listening = listening(&server, &secret).await;
        let name = session(&server, &secret).await;
        let sse = with_token(&server, "/sse", &secret);
        let sse = opened(sse).await;
        let unasked = with_token(&server, MCP, &secret).header("mcp-session-id", &name).header("accept", "text/event-stream");
        let unasked = unasked.send().await.unwrap();
        assert_eq!(unasked.status(), 200);
        grace.delete(&format!("/v1/orgs/acme/tokens/{id}")).await.expect(204);
        for (stream, what) in [(events, "events"), (listening, "a subscription"), (sse, "the older way"), (unasked, "a session")] {
            ends(stream, what).await;
        }

        // A session that is ended, from elsewhere or by its own browser.
        let elsewhere = crate::browsers::sign_in(&server, "grace@acme.example", crate::browsers::PASSWORD).await.ok().unwrap();
        let events = opened(with_cookie(&elsewhere, EVENTS)).await;
        elsewhere.post("/v1/sign-out", json!({})).await.expect(204);
        ends(events, "the stream of somebody who signed out").await;

        // A member who is taken out, with a cookie and with a token.
        let (_, secret) = token(&grace, "two").await;
        let by_cookie = opened(with_cookie(&grace, EVENTS)).await;
        let by_token = opened(with_token(&server, EVENTS, &secret)).await;
        let grace_id = id_of(&grace).await;
        ada.delete(&format!("/v1/orgs/acme/members/{grace_id}")).await.expect(204);
        ends(by_cookie, "the stream of a cookie").await;
        ends(by_token, "the stream of a token").await;

        // Who may be here hears on.
        ada.post("/v1/orgs/acme/chats", json!({})).await.expect(201);
        let mut heard = String::new();
        while !heard.contains("chat_changed") {
            let part = timeout(AT_ONCE, stays.chunk()).await.expect("something is said").unwrap().expect("it goes on");
            heard.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_clients_end_with_the_membership() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let more = "mcp = true\nallow_domains = [\"example.org\"]\ndefault_org = \"acme\"\n";
    let server = serve(&database, &issuer(twin.url(), more));
    let ada = owner(&server, "acme").await;
    let mut walker = Walker::new(&server, "grace");
    assert_eq!(walker.sign_in("").await.error(), None);
    let grace = Browser { server: &server, cookie: walker.session().unwrap() };
    let access = twin.access_token("1234", &server.url, json!({}));
    let listening = listening(&server, &access).await;
    let grace_id = id_of(&grace).await;
    ada.delete(&format!("/v1/orgs/acme/members/{grace_id}")).await.expect(204);
    ends(listening, "a client").await;
}
