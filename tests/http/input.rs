//! Wrong input: a clear 4xx, never a 500, and nothing is written.

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::json;

use crate::{CHATS, new_chat, serve, whole_list};

async fn post_raw(server: &Server, path: &str, body: impl Into<reqwest::Body>) -> Answer {
    Answer::of(server.request(Method::POST, path).header(header::CONTENT_TYPE, "application/json").body(body)).await
}

on_both! {
    async fn bodies_that_are_wrong(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let messages = format!("{CHATS}/{chat}/messages");
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = json!({ "title": "x".repeat(201) }).to_string();
        let many = json!({ "toolSelectors": vec!["x"; 513] }).to_string();
        for (path, body) in [
            (CHATS, "".to_owned()),
            (CHATS, "{".to_owned()),
            (CHATS, "null".to_owned()),
            (CHATS, "[]".to_owned()),
            (CHATS, "[null, null]".to_owned()),
            (CHATS, "7".to_owned()),
            (CHATS, deep.clone()),
            (CHATS, r#"{"title":1}"#.to_owned()),
            (CHATS, r#"{"title":""}"#.to_owned()),
            (CHATS, r#"{"title":"   "}"#.to_owned()),
            (CHATS, r#"{"title":"a\u0000b"}"#.to_owned()),
            (CHATS, r#"{"title":"a\nb"}"#.to_owned()),
            (CHATS, r#"{"title":"\ud800"}"#.to_owned()),
            (CHATS, r#"{"titel":"x"}"#.to_owned()),
            (CHATS, r#"{"title":"x","title":"y"}"#.to_owned()),
            (CHATS, r#"{"title":"x"} trailing"#.to_owned()),
            (CHATS, r#"{"toolSelectors":"x"}"#.to_owned()),
            (CHATS, r#"{"toolSelectors":[1]}"#.to_owned()),
            (CHATS, r#"{"toolSelectors":[""]}"#.to_owned()),
            (CHATS, r#"{"organizationId":"other"}"#.to_owned()),
            (CHATS, long),
            (CHATS, many),
            (&messages, "{}".to_owned()),
            (&messages, r#"{"role":"user"}"#.to_owned()),
            (&messages, r#"{"role":"system","content":"x"}"#.to_owned()),
            (&messages, r#"{"role":"user","content":1}"#.to_owned()),
            (&messages, r#"{"role":"user","content":null}"#.to_owned()),
            (&messages, r#"{"role":"user","content":{"type":"text"}}"#.to_owned()),
            (&messages, r#"{"role":"user","content":[{"text":"x"}]}"#.to_owned()),
            (&messages, r#"{"role":"user","content":"x","parentId":7}"#.to_owned()),
            (&messages, r#"{"role":"user","content":"x","chatId":"y"}"#.to_owned()),
            (&messages, format!(r#"{{"role":"user","content":{deep}}}"#)),
            (&messages, r#"{"role":"user","content":[1e999]}"#.to_owned()),
            (&messages, format!(r#"{{"role":"user","content":[{{"type":"x","y":{}{}}}]}}"#, "[".repeat(80), "]".repeat(80))),
        ] {
            let answer = post_raw(&server, path, body.clone()).await;
            answer.expect_error(400, "BAD_REQUEST");
        }
        post_raw(&server, CHATS, b"{\"title\":\"\xff\"}".to_vec()).await.expect_error(400, "BAD_REQUEST");
        assert_eq!(whole_list(&server, CHATS, 200).await.len(), 1, "a refused request made a chat");
        assert!(whole_list(&server, &messages, 200).await.is_empty());
    }

    async fn queries_that_are_wrong(database: TestDatabase) {
        let server = serve(&database);
        for query in [
            "limit=0", "limit=201", "limit=-1", "limit=x", "limit=1.5", "limit=99999999999999999999", "limit=1&limit=2",
            "cursor=", "cursor=zzz", "cursor=%00", "cursor=Y2hhdHM", "cursor=bWVzc2FnZXMgeA", "offset=1", "limit=%ff",
        ] {
            server.get(&format!("{CHATS}?{query}")).await.expect_error(400, "BAD_REQUEST");
        }
    }

    async fn ids_that_name_nothing(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        for id in ["x", "01890a5d-ac96-774b-bcce-b302099a8057", &chat.to_uppercase(), "%00", "%ff", "..%2f..", "%2e%2e", &"x".repeat(5000)] {
            let path = format!("{CHATS}/{id}");
            Answer::of(server.request(Method::PATCH, &path).json(&json!({}))).await.expect_error(404, "NOT_FOUND");
            server.get(&path).await.expect_error(404, "NOT_FOUND");
            server.delete(&path).await.expect_error(404, "NOT_FOUND");
            server.post(&format!("{path}/messages"), &json!({ "role": "user", "content": "x" })).await.expect_error(404, "NOT_FOUND");
        }
        server.get("/v1/orgs/nobody/chats").await.expect_error(404, "NOT_FOUND");
        server.get("/v1/orgs/%00/chats").await.expect_error(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_message_with_a_nul_is_kept() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    let made = server
        .post(&format!("{CHATS}/{chat}/messages"), &json!({ "role": "user", "content": "a\u{0}b" }))
        .await
        .expect(201);
    assert_eq!(made["content"], "a\u{0}b");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let database = TestDatabase::sqlite();
    let server = Server::start(env!("CARGO_BIN_EXE_kitbag"), &database, &["--max-body-bytes", "1000"]);
    let body = json!({ "title": "x".repeat(2000) }).to_string();
    post_raw(&server, CHATS, body.clone()).await.expect_error(413, "PAYLOAD_TOO_LARGE");
    // Without a length the limit holds while it is read.
    let chunks = body.into_bytes().chunks(100).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>();
    let stream = reqwest::Body::wrap_stream(tokio_stream::iter(chunks));
    post_raw(&server, CHATS, stream).await.expect_error(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = server.request(Method::POST, CHATS).header(header::CONTENT_TYPE, kind).body(r#"{"title":"x"}"#);
        Answer::of(request).await.expect_error(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    assert!(whole_list(&server, CHATS, 9).await.is_empty());
}

#[tokio::test]
async fn routes_and_methods_that_are_not_there() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    server.get("/v1/nothing").await.expect_error(404, "NOT_FOUND");
    server.get("/v2/orgs/local/chats").await.expect_error(404, "NOT_FOUND");
    let answer = server.delete(CHATS).await;
    answer.expect_error(405, "METHOD_NOT_ALLOWED");
    assert!(answer.headers.contains_key(header::ALLOW));
}
