//! The ready line, `server.json`, the lock, signals.

use std::io::{Read, Write};
use std::net::TcpStream;

use kitbag_testkit::{Program, Server, TestDatabase, on_both};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{BINARY, serve};

fn announced(database: &TestDatabase) -> Option<Value> {
    let text = std::fs::read_to_string(database.data().join("server.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

on_both! {
    async fn it_says_where_it_is_and_goes_when_asked(database: TestDatabase) {
        for signal in [Signal::TERM, Signal::INT] {
            let mut server = serve(&database);
            let said = announced(&database).unwrap();
            assert_eq!(said, json!({ "url": server.url, "token": server.token, "pid": server.pid() }));
            server.signal(signal);
            assert_eq!(server.wait().code(), Some(0));
            assert_eq!(announced(&database), None, "server.json is still there");
        }
    }

    async fn its_token_stays_the_same(database: TestDatabase) {
        let mut first = serve(&database);
        first.signal(Signal::TERM);
        first.wait();
        assert_eq!(serve(&database).token, first.token);
    }
}

#[tokio::test]
async fn a_revoked_embedded_token_is_replaced_at_the_next_start() {
    let database = TestDatabase::sqlite();
    let mut first = serve(&database);
    let id = first.token.split('.').nth(1).unwrap().to_owned();
    first.delete(&format!("/v1/orgs/local/tokens/{id}")).await.expect(204);
    first.get("/v1/orgs/local/chats").await.expect_error(401, "UNAUTHORIZED");
    first.signal(Signal::TERM);
    first.wait();
    let second = serve(&database);
    assert_ne!(second.token, first.token);
    second.get("/v1/orgs/local/chats").await.expect(200);
}

#[tokio::test]
async fn a_second_server_on_one_folder_is_told_who_has_it() {
    let database = TestDatabase::sqlite();
    let first = serve(&database);
    let second = Program::on(BINARY, &database).run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains(&first.pid().to_string()) && second.stderr.contains(&first.url), "{second:?}");
    assert!(second.stdout.is_empty(), "{second:?}");
    first.get("/readyz").await.expect(200);
    assert!(announced(&database).is_some(), "the second one took away the first one's server.json");
}

/// What is left of a killed server keeps nobody out.
#[tokio::test]
async fn a_killed_server_leaves_the_folder_free() {
    let database = TestDatabase::sqlite();
    let mut first = serve(&database);
    first.signal(Signal::KILL);
    first.wait();
    assert!(announced(&database).is_some(), "this test needs the file of the dead");
    let listed = Program::on(BINARY, &database).run(&["--json", "chat", "list"]);
    assert_eq!(listed.json(), json!({ "items": [] }));
    serve(&database).get("/readyz").await.expect(200);
}

/// Sends the head of a request and one byte of its body: a request that runs until the rest comes.
fn start_request(server: &Server, body: &str) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/orgs/local/chats HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len(),
        token = server.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server asks for the body once the handler reads it, so from here on the request is running.
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[tokio::test]
async fn a_running_request_finishes_before_it_stops() {
    let database = TestDatabase::sqlite();
    let mut server = serve(&database);
    let body = r#"{"title":"late"}"#;
    let mut stream = start_request(&server, body);
    server.signal(Signal::TERM);
    while !server.log().contains("stopping") {
        tokio::task::yield_now().await;
    }
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.log().contains("cut off"));
    let listed = Program::on(BINARY, &database).run(&["--json", "chat", "list"]).json();
    assert_eq!(listed["items"][0]["title"], "late");
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_off_at_the_deadline() {
    let database = TestDatabase::sqlite();
    let mut server = Server::start(BINARY, &database, &["--drain-seconds", "1"]);
    let _stream = start_request(&server, "{}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.log().contains("cut off"), "{}", server.log());
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let database = TestDatabase::sqlite();
    // A deadline beyond the test's own patience: only the second signal can end it in time.
    let mut server = Server::start(BINARY, &database, &["--drain-seconds", "100000"]);
    let _stream = start_request(&server, "{}");
    server.signal(Signal::INT);
    while !server.log().contains("stopping") {
        tokio::task::yield_now().await;
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(announced(&database), None);
}
