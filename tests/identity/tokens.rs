//! Access tokens of an issuer at the MCP endpoints: whom they let in, where, and what everybody else is told.

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::browsers::{Browser, id_of, owner};
use crate::kit::{Walker, asking, issuer, knock, serve};
use crate::twin::{Signing, Twin, now};

const ACME: &str = "/v1/orgs/acme/mcp";
/// What the twin calls the person who signs in.
const GRACE: &str = "1234";

/// People of the twin become members of `acme`.
const MEMBERS: &str = "mcp = true\nallow_domains = [\"example.org\"]\ndefault_org = \"acme\"\n";

/// A server, the owner of `acme`, and Grace, a member through the twin.
async fn set_up<'s>(server: &'s Server) -> (Browser<'s>, Browser<'s>) {
    let owner = owner(server, "acme").await;
    let mut walker = Walker::new(server, "grace");
    let arrived = walker.sign_in("").await;
    assert_eq!(arrived.error(), None, "{}", arrived.url);
    (owner, Browser { server, cookie: walker.session().unwrap() })
}

fn challenge(answer: &Answer) -> String {
    answer.headers["www-authenticate"].to_str().unwrap().to_owned()
}

on_both! {
    async fn a_token_lets_its_person_in_where_it_is_for(database: TestDatabase) {
        let twin = Twin::start().await;
        let server = serve(&database, &issuer(twin.url(), MEMBERS));
        let (ada, grace) = set_up(&server).await;
        let at = |path: &str| format!("{}{path}", server.url);

        // Nobody: where tokens are to be had.
        let nobody = Answer::of(asking(&server, ACME, "tools/list", json!({}))).await;
        nobody.expect_error(401, "UNAUTHORIZED");
        let metadata = at(&format!("/.well-known/oauth-protected-resource{ACME}"));
        assert_eq!(challenge(&nobody), format!("Bearer realm=\"kitbag\", resource_metadata=\"{metadata}\", scope=\"kitbag:use\""));
        let document = Answer::of(server.anonymous(Method::GET, metadata.strip_prefix(&server.url).unwrap())).await.expect(200);
        assert_eq!(document, json!({
            "resource": at(ACME), "resource_name": "Kitbag", "authorization_servers": [twin.url()],
            "scopes_supported": ["kitbag:use", "kitbag:manage"], "bearer_methods_supported": ["header"],
        }));
        for path in ["", "/mcp", "/sse", "/v1/orgs/acme/toolsets/x/mcp", "/v1/orgs/acme/mcp-servers/a~b/mcp"] {
            let place = format!("/.well-known/oauth-protected-resource{path}");
            let document = Answer::of(server.anonymous(Method::GET, &place)).await.expect(200);
            assert_eq!(document["resource"], at(path));
        }

        // Grace, for this endpoint, for the whole server, and for one of several.
        for audience in [json!(at(ACME)), json!(server.url), json!([at("/other"), at(ACME)])] {
            let token = twin.access_token(GRACE, "", json!({ "aud": audience }));
            let listed = knock(&server, ACME, &token).await;
            assert!(listed.status == 200 && listed.body["result"]["tools"].is_array(), "{audience}: {listed:?}");
        }
        // Where no organisation is named, it is her only one.
        let token = twin.access_token(GRACE, &at("/mcp"), json!({}));
        knock(&server, "/mcp", &token).await.expect(200);
        knock(&server, ACME, &token).await.expect_error(401, "UNAUTHORIZED");
        // The older way.
        let token = twin.access_token(GRACE, &at("/sse"), json!({}));
        assert_eq!(server.anonymous(Method::GET, "/sse").bearer_auth(&token).send().await.unwrap().status(), 200);
        let message = server.anonymous(Method::POST, "/messages?sessionId=none").bearer_auth(&token).json(&json!({}));
        assert_eq!(message.send().await.unwrap().status(), 404, "there is no such stream, and that is all");

        // What it may do is in its scopes, and in her role.
        for scope in [json!("use"), json!("openid kitbag:use"), json!(["kitbag:use"])] {
            let token = twin.access_token(GRACE, &at(ACME), json!({ "scope": scope }));
            knock(&server, ACME, &token).await.expect(200);
        }
        let by_scp = twin.access_token(GRACE, &at(ACME), json!({ "scope": null, "scp": ["kitbag:use"] }));
        knock(&server, ACME, &by_scp).await.expect(200);
        for scope in [json!(null), json!("openid"), json!("kitbag:manage"), json!("KITBAG:USE")] {
            let token = twin.access_token(GRACE, &at(ACME), json!({ "scope": scope }));
            let refused = knock(&server, ACME, &token).await;
            refused.expect_error(403, "FORBIDDEN");
            let said = challenge(&refused);
            assert!(said.contains("error=\"insufficient_scope\"") && said.contains("scope=\"kitbag:use\""), "{said}");
        }

        // Somebody who was never here, and an organisation of others.
        let stranger = knock(&server, ACME, &twin.access_token("9999", &at(ACME), json!({}))).await;
        stranger.expect_error(403, "FORBIDDEN");
        let _other = owner(&server, "other").await;
        let elsewhere = "/v1/orgs/other/mcp";
        let token = twin.access_token(GRACE, &server.url, json!({}));
        knock(&server, elsewhere, &token).await.expect_error(404, "NOT_FOUND");
        knock(&server, "/v1/orgs/nothing/mcp", &token).await.expect_error(404, "NOT_FOUND");
        // It is for the MCP endpoints, and for no address of the API.
        for path in ["/v1/orgs/acme/chats", "/v1/session", "/v1/sessions"] {
            Answer::of(server.anonymous(Method::GET, path).bearer_auth(&token)).await.expect_error(401, "UNAUTHORIZED");
        }
        // Not in an address.
        let query = format!("{ACME}?access_token={token}");
        let refused = Answer::of(asking(&server, &query, "tools/list", json!({}))).await;
        refused.expect_error(401, "UNAUTHORIZED");
        knock(&server, &query, &token).await.expect_error(400, "BAD_REQUEST");

        // Out of the organisation she is out at once.
        knock(&server, ACME, &token).await.expect(200);
        let id = id_of(&grace).await;
        ada.delete(&format!("/v1/orgs/acme/members/{id}")).await.expect(204);
        knock(&server, ACME, &token).await.expect_error(404, "NOT_FOUND");
        knock(&server, "/mcp", &token).await.expect_error(403, "FORBIDDEN");
        assert!(!server.log().contains(&token));
    }
}

/// A token that only looks right.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_believed_lets_nobody_in() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let server = serve(&database, &issuer(twin.url(), MEMBERS));
    set_up(&server).await;
    let here = format!("{}{ACME}", server.url);
    let right = twin.access_token(GRACE, &here, json!({}));
    knock(&server, ACME, &right).await.expect(200);
    let mut wrong: Vec<(String, String)> = [
        json!({ "aud": format!("{}/v1/orgs/other/mcp", server.url) }),
        json!({ "aud": format!("{here}/") }),
        json!({ "aud": "kitbag" }),
        json!({ "aud": null }),
        json!({ "exp": now() - 120 }),
        json!({ "exp": null }),
        json!({ "exp": "never" }),
        json!({ "nbf": now() + 120 }),
        json!({ "iss": "https://evil.example" }),
        json!({ "sub": "" }),
        json!({ "nonce": "x" }),
        json!({ "at_hash": "x" }),
        json!({ "cnf": { "jkt": "x" } }),
    ]
    .into_iter()
    .map(|changes: Value| (changes.to_string(), twin.access_token(GRACE, &here, changes)))
    .collect();
    for (name, signing) in
        [("none", Signing::None), ("public key", Signing::PublicKeyAsSecret), ("stranger", Signing::Stranger)]
    {
        twin.said().signing = signing;
        wrong.push((name.to_owned(), twin.access_token(GRACE, &here, json!({}))));
    }
    twin.honest();
    for header in
        [json!({ "typ": "JWT" }), json!({ "typ": null }), json!({ "kid": "made-up" }), json!({ "crit": ["x"] })]
    {
        twin.said().header = header.clone();
        wrong.push((header.to_string(), twin.access_token(GRACE, &here, json!({}))));
    }
    twin.honest();
    let (head, signature) = right.rsplit_once('.').unwrap();
    wrong.push(("no signature".to_owned(), format!("{head}.")));
    wrong.push(("a longer one".to_owned(), format!("{right}A")));
    wrong.push(("five parts".to_owned(), format!("{head}.{signature}.a.b")));
    wrong.push(("too long".to_owned(), twin.access_token(GRACE, &here, json!({ "more": "x".repeat(14_000) }))));
    for (name, token) in wrong {
        let refused = knock(&server, ACME, &token).await;
        refused.expect_error(401, "UNAUTHORIZED");
        assert!(challenge(&refused).contains("error=\"invalid_token\""), "{name}");
    }
    // Two at once are none.
    let two = asking(&server, ACME, "tools/list", json!({})).bearer_auth(&right).bearer_auth(&right);
    Answer::of(two).await.expect_error(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_algorithm_that_is_known() {
    let database = TestDatabase::sqlite();
    let algorithms = ["RS256", "PS256", "EdDSA", "ES256"];
    let twin = Twin::with_keys(&algorithms).await;
    let server =
        serve(&database, &issuer(twin.url(), &format!("{MEMBERS}access_token_type = \"jwt\"\naudience = \"tools\"\n")));
    set_up(&server).await;
    for _ in algorithms {
        twin.next_key();
        let token = twin.access_token(GRACE, "tools", json!({}));
        knock(&server, ACME, &token).await.expect(200);
        let here = twin.access_token(GRACE, &format!("{}{ACME}", server.url), json!({}));
        knock(&server, ACME, &here).await.expect_error(401, "UNAUTHORIZED");
        // Where the operator says so, a token need not say that it is one; an ID token is none all the same.
        let claims =
            json!({ "iss": twin.url(), "sub": GRACE, "aud": "tools", "exp": now() + 60, "scope": "kitbag:use" });
        knock(&server, ACME, &twin.signed("JWT", &claims)).await.expect(200);
        knock(&server, ACME, &twin.signed("logout+jwt", &claims)).await.expect_error(401, "UNAUTHORIZED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_away_is_not_the_clients_fault() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let config = issuer(twin.url(), MEMBERS);
    let server = serve(&database, &config);
    set_up(&server).await;
    let at = |server: &Server| twin.access_token(GRACE, &format!("{}{ACME}", server.url), json!({}));
    knock(&server, ACME, &at(&server)).await.expect(200);
    // What is known goes on working; a key that nobody knows cannot be judged.
    twin.said().down = vec!["/jwks", "/metadata"];
    knock(&server, ACME, &at(&server)).await.expect(200);
    twin.rotate("newer", crate::twin::Key::new("ES256"));
    let away = knock(&server, ACME, &at(&server)).await;
    away.expect_error(503, "UNAVAILABLE");
    assert_eq!(away.headers["retry-after"], "10");
    drop(server);
    let server = serve(&database, &config);
    knock(&server, ACME, &at(&server)).await.expect_error(503, "UNAVAILABLE");
}

/// Where the operator says so, clients use the API too, as far as their scopes and the person's role go.
#[tokio::test(flavor = "multi_thread")]
async fn at_the_api_by_the_operators_word() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let server = serve(&database, &issuer(twin.url(), &format!("{MEMBERS}api = true\n")));
    let (ada, grace) = set_up(&server).await;
    let with = |scope: &str| twin.access_token(GRACE, &server.url, json!({ "scope": scope }));
    let get = |path: &str, token: &str| Answer::of(server.anonymous(Method::GET, path).bearer_auth(token));
    get("/v1/orgs/acme/chats", &with("kitbag:use")).await.expect(200);
    get("/v1/orgs/acme/chats", &with("openid")).await.expect_error(403, "FORBIDDEN");
    // A member's token manages nothing, whatever it says; an admin's does if it says so.
    let both = with("kitbag:use kitbag:manage");
    get("/v1/orgs/acme/invitations", &both).await.expect_error(403, "FORBIDDEN");
    let id = id_of(&grace).await;
    let role = json!({ "role": "admin" });
    ada.ask(Method::PATCH, &format!("/v1/orgs/acme/members/{id}"), Some(role)).await.expect(200);
    get("/v1/orgs/acme/invitations", &both).await.expect(200);
    get("/v1/orgs/acme/invitations", &with("kitbag:use")).await.expect_error(403, "FORBIDDEN");
    // It is no person at the page.
    get("/v1/sessions", &both).await.expect_error(403, "FORBIDDEN");
    let session = get("/v1/session", &both).await.expect(200);
    assert_eq!((&session["user"], &session["scopes"]), (&Value::Null, &json!(["use", "manage"])));
    get("/v1/orgs/acme/chats", &twin.access_token(GRACE, &format!("{}{ACME}", server.url), json!({})))
        .await
        .expect_error(401, "UNAUTHORIZED");
}

/// Each client of a person has a chat of its own, as each token has.
#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_apart() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let server = serve(&database, &issuer(twin.url(), MEMBERS));
    let (ada, _) = set_up(&server).await;
    for client in ["an-agent", "another", "an-agent"] {
        let token = twin.access_token(GRACE, &server.url, json!({ "client_id": client }));
        let params = json!({ "name": "list_files", "arguments": {} });
        let called = Answer::of(asking(&server, ACME, "tools/call", params).bearer_auth(&token)).await;
        assert!(called.status == 200 && called.body["result"]["isError"] != true, "{called:?}");
    }
    let listed = ada.get("/v1/orgs/acme/chats").await.expect(200);
    let mut titles: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|chat| chat["title"].as_str().unwrap()).collect();
    titles.sort_unstable();
    assert_eq!(titles.len(), 2, "{titles:?}");
    assert!(titles[0].contains("by an-agent of issuer company") && titles[1].contains("by another of"), "{titles:?}");
    // The audit has a line of each, however often it came.
    let mut used = Vec::new();
    for _ in 0..200 {
        let lines = ada.get("/v1/orgs/acme/audit?action=token.used").await.expect(200);
        used = lines["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["subject"].as_str().unwrap().to_owned())
            .collect();
        if used.len() == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    used.sort();
    assert_eq!(used, ["an-agent", "another"]);
}

/// With no issuer nothing is other than it was.
#[tokio::test(flavor = "multi_thread")]
async fn without_issuers_everything_is_as_before() {
    let database = TestDatabase::sqlite();
    let server = serve(&database, "");
    let nobody = Answer::of(asking(&server, "/mcp", "tools/list", json!({}))).await;
    nobody.expect_error(401, "UNAUTHORIZED");
    assert_eq!(challenge(&nobody), "Bearer realm=\"kitbag\"");
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        Answer::of(server.anonymous(Method::GET, path)).await.expect_error(404, "NOT_FOUND");
    }
    let twin = Twin::start().await;
    knock(&server, "/mcp", &twin.access_token(GRACE, &server.url, json!({}))).await.expect_error(401, "UNAUTHORIZED");
    assert_eq!(twin.asked("/metadata"), 0, "nobody asks an issuer that a stranger names");
    knock(&server, "/mcp", &server.token).await.expect(200);
}
