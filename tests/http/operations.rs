//! Health, readiness, metrics, the document and its page.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use kitbag_testkit::cluster::run;
use kitbag_testkit::{Answer, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::json;

use crate::{CHATS, new_chat, serve};

on_both! {
    async fn it_says_that_it_is_well(database: TestDatabase) {
        let server = serve(&database);
        for path in ["/healthz", "/readyz"] {
            assert_eq!(Answer::of(server.anonymous(Method::GET, path)).await.expect(200), json!({ "status": "ok" }));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_not_ready_without_its_database_and_recovers() {
    let database = TestDatabase::postgres().await;
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let name = database.name();
    let mut elsewhere = database.connect_to("postgres").await;
    run(&mut elsewhere, &format!("ALTER DATABASE {name} CONNECTION LIMIT 0")).await;
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND usename = 'kitbag_app'"
    );
    run(&mut elsewhere, &cut).await;
    let answer = server.get("/readyz").await;
    answer.expect_error(503, "UNAVAILABLE");
    assert!(answer.headers.contains_key(header::RETRY_AFTER));
    server.get(CHATS).await.expect_error(503, "UNAVAILABLE");
    Answer::of(server.anonymous(Method::GET, "/healthz")).await.expect(200);
    run(&mut elsewhere, &format!("ALTER DATABASE {name} CONNECTION LIMIT -1")).await;
    server.get("/readyz").await.expect(200);
    assert_eq!(server.get(&format!("{CHATS}/{chat}")).await.expect(200)["id"], chat.as_str());
}

#[tokio::test]
async fn every_answer_has_an_id_that_the_log_knows() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let request = server.request(Method::GET, CHATS).header("x-request-id", "forged");
    let answer = Answer::of(request).await;
    let id = answer.headers["x-request-id"].to_str().unwrap();
    assert!(id != "forged" && server.log().contains(id), "{id}");
    // Not on a terminal, so every line is JSON.
    assert!(
        server.log().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn metrics_count_requests() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    new_chat(&server).await;
    let text = Answer::of(server.anonymous(Method::GET, "/metrics")).await.expect(200);
    let text = text.as_str().unwrap();
    let line = r#"kitbag_http_requests_total{method="POST",route="/v1/orgs/{org}/chats",status="201"} 1"#;
    assert!(text.contains(line) && text.contains("kitbag_build_info"), "{text}");
}

#[tokio::test]
async fn the_document_is_openapi_3_1_and_names_the_operations() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let document = Answer::of(server.anonymous(Method::GET, "/openapi.json")).await.expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let operations: Vec<_> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    for name in ["create_chat", "list_chats", "get_chat", "update_chat", "delete_chat", "add_message", "list_messages"]
    {
        assert!(operations.contains(&name), "{name} is not in {operations:?}");
    }
}

#[tokio::test]
async fn the_documentation_needs_nothing_from_elsewhere() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let page = Answer::of(server.anonymous(Method::GET, "/docs/")).await.expect(200).as_str().unwrap().to_owned();
    assert!(!page.contains("//cdn") && !page.contains("https://"), "{page}");
    let files: Vec<&str> = page.split(['"', '\'']).filter_map(|word| word.strip_prefix("./")).collect();
    assert!(files.len() >= 4, "{page}");
    for file in files {
        let answer = Answer::of(server.anonymous(Method::GET, &format!("/docs/{file}"))).await;
        assert_eq!(answer.status.as_u16(), 200, "{file}");
    }
    Answer::of(server.anonymous(Method::GET, "/docs/nothing.js")).await.expect_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn answers_are_compressed_when_asked() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let request = server.anonymous(Method::GET, "/openapi.json").header(header::ACCEPT_ENCODING, "br");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_ENCODING], "br");
    assert!(response.bytes().await.unwrap().len() > 500);
}

/// A client that never finishes its request must not keep others out.
#[tokio::test]
async fn unfinished_requests_do_not_block_others() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = server.connect();
        stream.write_all(b"POST /v1/orgs/local/chats HTTP/1.1\r\nHost: localhost\r\n").unwrap();
        slow.push(stream);
    }
    server.get(CHATS).await.expect(200);
}

/// A server that is full says so, and is not taken for one that hangs.
#[tokio::test]
async fn who_comes_when_all_connections_are_taken_is_told() {
    let database = TestDatabase::sqlite();
    // With so few files a server has room for a hundred connections.
    let few = database.data().join("few");
    fs::write(&few, format!("#!/bin/sh\nulimit -n 228\nexec {:?} \"$@\"\n", env!("CARGO_BIN_EXE_kitbag"))).unwrap();
    fs::set_permissions(&few, fs::Permissions::from_mode(0o755)).unwrap();
    let server = kitbag_testkit::Server::start(few.to_str().unwrap(), &database, &[]);
    let ask = |path: &str| {
        let mut stream = server.connect();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let mut idle = Vec::new();
    for _ in 0..100 {
        let mut stream = server.connect();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut line = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut line).unwrap();
        assert_eq!(line, *b"HTTP/1.1 200");
        idle.push(stream);
    }
    let refused = ask("/v1/session");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 5"), "{refused}");
    for path in ["/healthz", "/readyz"] {
        assert!(ask(path).starts_with("HTTP/1.1 200"), "{path}");
    }
    idle.clear();
    // That they went is noticed a moment later.
    while !ask("/v1/session").starts_with("HTTP/1.1 401") {}
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_cut_off() {
    let database = TestDatabase::sqlite();
    let server =
        kitbag_testkit::Server::start(env!("CARGO_BIN_EXE_kitbag"), &database, &["--request-timeout-seconds", "1"]);
    let mut stream = server.connect();
    let head = format!(
        "POST {CHATS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        server.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"TIMEOUT\""), "{answer}");
}
