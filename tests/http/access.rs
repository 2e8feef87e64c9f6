//! Who may enter: tokens, scopes, the cookie, names and origins.

use std::os::unix::fs::PermissionsExt;

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::json;

use crate::{CHATS, TOKENS, new_chat, serve};

on_both! {
    async fn without_a_valid_token_there_is_nothing(database: TestDatabase) {
        let server = serve(&database);
        Answer::of(server.anonymous(Method::GET, CHATS)).await.expect_error(401, "UNAUTHORIZED");
        let (head, secret) = server.token.rsplit_once('.').unwrap();
        let flipped = if secret.starts_with('0') { "1" } else { "0" };
        for wrong in [
            "", "x", head, &format!("{head}.{flipped}{}", &secret[1..]), &server.token.to_uppercase(),
            &server.token.replace("local", "other"), &format!("{}0", server.token),
        ] {
            let answer = Answer::of(server.anonymous(Method::GET, CHATS).bearer_auth(wrong)).await;
            answer.expect_error(401, "UNAUTHORIZED");
            assert!(answer.headers.contains_key(header::WWW_AUTHENTICATE));
        }
        let basic = server.anonymous(Method::GET, CHATS).basic_auth("user", Some(&server.token));
        Answer::of(basic).await.expect_error(401, "UNAUTHORIZED");
        let query = format!("{CHATS}?token={}", server.token);
        Answer::of(server.anonymous(Method::GET, &query)).await.expect_error(401, "UNAUTHORIZED");
        server.get(CHATS).await.expect(200);
    }

    async fn a_token_can_do_what_its_scopes_say(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let new = |scopes| json!({ "name": "agent", "scopes": scopes });
        let agent = server.post(TOKENS, &new(json!(["use"]))).await.expect(201)["secret"].as_str().unwrap().to_owned();
        let manager = server.post(TOKENS, &new(json!(["manage"]))).await.expect(201)["secret"].as_str().unwrap().to_owned();
        let as_ = |token: &str, method, path: &str| Answer::of(server.anonymous(method, path).bearer_auth(token));
        as_(&agent, Method::GET, CHATS).await.expect(200);
        as_(&agent, Method::GET, TOKENS).await.expect_error(403, "FORBIDDEN");
        as_(&agent, Method::DELETE, &format!("{CHATS}/{chat}")).await.expect_error(403, "FORBIDDEN");
        let grown = server.anonymous(Method::POST, TOKENS).bearer_auth(&agent).json(&new(json!(["manage"])));
        Answer::of(grown).await.expect_error(403, "FORBIDDEN");
        as_(&manager, Method::GET, CHATS).await.expect_error(403, "FORBIDDEN");
        as_(&manager, Method::DELETE, &format!("{CHATS}/{chat}")).await.expect(204);
    }

    async fn the_page_swaps_its_token_for_a_cookie(database: TestDatabase) {
        let server = serve(&database);
        let answer = Answer::of(server.anonymous(Method::GET, &format!("/?token={}", server.token))).await;
        assert_eq!((answer.status.as_u16(), answer.headers[header::LOCATION].as_bytes()), (303, &b"/"[..]));
        let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
        for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.contains(&server.token) && !cookie.contains(server.token.rsplit_once('.').unwrap().1));
        let pair = cookie.split(';').next().unwrap().to_owned();

        let with = |method, path: &str| server.anonymous(method, path).header(header::COOKIE, &pair);
        Answer::of(with(Method::GET, CHATS)).await.expect(200);
        assert!(Answer::of(with(Method::GET, "/")).await.expect(200).as_str().unwrap().contains("id=\"page\""));
        // A request that changes something must come from our own page.
        let make = || with(Method::POST, CHATS).json(&json!({}));
        Answer::of(make()).await.expect_error(403, "FORBIDDEN");
        Answer::of(make().header("sec-fetch-site", "same-site")).await.expect_error(403, "FORBIDDEN");
        Answer::of(make().header("sec-fetch-site", "none")).await.expect_error(403, "FORBIDDEN");
        Answer::of(make().header("sec-fetch-site", "same-origin")).await.expect(201);
        Answer::of(make().header(header::ORIGIN, &server.url)).await.expect(201);
        Answer::of(with(Method::GET, CHATS).header("sec-fetch-site", "cross-site")).await.expect_error(403, "FORBIDDEN");

        let wrong = pair.replace("local.", "local.0");
        Answer::of(server.anonymous(Method::GET, CHATS).header(header::COOKIE, wrong)).await.expect_error(401, "UNAUTHORIZED");
        Answer::of(server.anonymous(Method::GET, "/?token=wrong")).await.expect_error(401, "UNAUTHORIZED");
        let locked = Answer::of(server.anonymous(Method::GET, "/")).await.expect(401);
        assert!(locked.as_str().unwrap().contains("has not been let in"));
    }

    async fn a_revoked_token_takes_its_cookie_along(database: TestDatabase) {
        let server = serve(&database);
        let made = server.post(TOKENS, &json!({ "name": "page", "scopes": ["use"] })).await.expect(201);
        let answer = Answer::of(server.anonymous(Method::GET, &format!("/?token={}", made["secret"].as_str().unwrap()))).await;
        let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        let with_cookie = || Answer::of(server.anonymous(Method::GET, CHATS).header(header::COOKIE, &cookie));
        with_cookie().await.expect(200);
        server.delete(&format!("{TOKENS}/{}", made["id"].as_str().unwrap())).await.expect(204);
        with_cookie().await.expect_error(401, "UNAUTHORIZED");
    }
}

#[tokio::test]
async fn other_names_and_other_pages_are_refused() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    for path in ["/", "/healthz", "/metrics", "/openapi.json", "/docs/", CHATS, "/nothing"] {
        for host in ["evil.example", "localhost.evil.example", ""] {
            let answer = Answer::of(server.request(Method::GET, path).header(header::HOST, host)).await;
            answer.expect_error(403, "FORBIDDEN");
        }
        for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
            let answer = Answer::of(server.request(Method::GET, path).header(header::ORIGIN, origin)).await;
            answer.expect_error(403, "FORBIDDEN");
        }
    }
    // Names of the stage are not the API's, token or not.
    for path in ["/", "/healthz", CHATS] {
        let answer = Answer::of(server.request(Method::GET, path).header(header::HOST, "label.localhost")).await;
        assert_eq!(answer.status, 404);
        assert!(answer.body.as_str().unwrap().starts_with("There is no such page"), "{answer:?}");
    }
    let preflight = server.anonymous(Method::OPTIONS, CHATS).header(header::ORIGIN, "http://evil.example");
    Answer::of(preflight).await.expect_error(403, "FORBIDDEN");
    Answer::of(server.request(Method::GET, CHATS).header(header::ORIGIN, &server.url)).await.expect(200);
}

#[tokio::test]
async fn a_configured_name_is_ours() {
    let database = TestDatabase::sqlite();
    let server =
        Server::start(env!("CARGO_BIN_EXE_kitbag"), &database, &["--allowed-hosts", "kitbag.example,other.example"]);
    Answer::of(server.request(Method::GET, CHATS).header(header::HOST, "other.example")).await.expect(200);
    Answer::of(server.request(Method::GET, CHATS).header(header::HOST, "evil.example"))
        .await
        .expect_error(403, "FORBIDDEN");
}

#[tokio::test]
async fn without_auth_everybody_on_this_machine_may_enter() {
    let database = TestDatabase::sqlite();
    let server = Server::start(env!("CARGO_BIN_EXE_kitbag"), &database, &["--no-auth"]);
    Answer::of(server.anonymous(Method::POST, CHATS).json(&json!({}))).await.expect(201);
    let evil = server.anonymous(Method::GET, CHATS).header(header::ORIGIN, "http://evil.example");
    Answer::of(evil).await.expect_error(403, "FORBIDDEN");
}

#[tokio::test]
async fn nothing_in_the_data_folder_is_for_others_to_read() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    new_chat(&server).await;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(database.data()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name != "test-server.log" {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{name}");
        }
        names.push(name);
    }
    assert!(
        ["token", "server.json", "kitbag.db"].iter().all(|name| names.iter().any(|found| found == name)),
        "{names:?}"
    );
    let database_bytes: Vec<u8> = ["kitbag.db", "kitbag.db-wal"]
        .iter()
        .flat_map(|file| std::fs::read(database.data().join(file)).unwrap_or_default())
        .collect();
    let secret = server.token.rsplit_once('.').unwrap().1;
    assert!(
        !database_bytes.windows(secret.len()).any(|window| window == secret.as_bytes()),
        "the secret is in the database"
    );
    assert!(!server.log().contains(secret), "the secret is in the log");
}
