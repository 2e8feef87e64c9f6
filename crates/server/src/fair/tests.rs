//! A server that is full in one way or another, from outside: who comes is told to come again, and everybody else is served.

use std::time::Duration;

use kitbag_formats::archive::ArchiveWriter;
use kitbag_store::Taken;

use super::{ARCHIVES, BODIES, IMPORTS, Narrow, STREAMS_OF_ONE, Share};
use crate::stage::tests::kit::{Answer, Theatre};

/// A server where nobody waits for long.
async fn server() -> Theatre {
    Theatre::open(|settings| settings.request_timeout = Duration::from_secs(2)).await
}

async fn send(server: &Theatre, method: &str, path: &str, kind: &str, body: &str) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    server.send(&request).await
}

async fn json(server: &Theatre, method: &str, path: &str, body: &str) -> Answer {
    send(server, method, path, "application/json", body).await
}

/// Takes all places that there are.
async fn fill(narrow: &Narrow, server: &Theatre, most: usize) -> Vec<Taken> {
    let mut places = Vec::new();
    while places.len() < most {
        places.push(narrow.enter(&server.org).await.expect("a place"));
    }
    places
}

#[track_caller]
fn told(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.body.contains("RATE_LIMITED"), "{answer:?}");
    let after: Vec<u32> = answer.header("retry-after").iter().map(|seconds| seconds.parse().unwrap()).collect();
    assert!(after.len() == 1 && after[0] > 0, "{answer:?}");
}

const TOOLSETS: &str = "/v1/orgs/local/toolsets";

#[tokio::test]
async fn toolsets_cannot_be_worked_on_for_a_while() {
    let server = server().await;
    let made = json(&server, "POST", TOOLSETS, r#"{"name": "One", "id": "one"}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let places = fill(&server.app.fair().imports, &server, IMPORTS).await;
    told(&json(&server, "POST", TOOLSETS, r#"{"name": "Two", "id": "two"}"#).await);
    told(&json(&server, "PUT", &format!("{TOOLSETS}/one"), r#"{"name": "Other"}"#).await);
    told(&json(&server, "POST", &format!("{TOOLSETS}/one/publish"), r#"{"publicSlug": "one"}"#).await);
    told(&json(&server, "POST", "/v1/orgs/local/toolset-gallery/one/adopt", "{}").await);
    told(&send(&server, "POST", &format!("{TOOLSETS}/import"), "application/zip", "no archive").await);
    // What needs no place has none.
    assert_eq!(server.get("127.0.0.1", &format!("{TOOLSETS}/one")).await.status, 200);
    drop(places);
    let made = json(&server, "POST", TOOLSETS, r#"{"name": "Two", "id": "two"}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let read = send(&server, "POST", &format!("{TOOLSETS}/import"), "application/zip", "no archive").await;
    assert_eq!(read.status, 400, "{read:?}");
}

#[tokio::test]
async fn large_bodies_are_not_read_while_there_are_too_many() {
    let server = server().await;
    // More than others may have.
    let large = format!(r#"{{"name": "Large", "id": "large", "description": "{}"}}"#, " ".repeat(2 << 20));
    let places = fill(&server.app.fair().bodies, &server, BODIES).await;
    told(&json(&server, "POST", TOOLSETS, &large).await);
    told(&json(&server, "PUT", &format!("{TOOLSETS}/large"), &large).await);
    told(&json(&server, "POST", "/v1/orgs/local/skills/check", &large).await);
    let small = json(&server, "POST", TOOLSETS, r#"{"name": "Small"}"#).await;
    assert_eq!(small.status, 201, "{small:?}");
    drop(places);
    let read = json(&server, "POST", TOOLSETS, &large).await;
    assert!(read.status == 400 && read.body.contains("description"), "{read:?}");
    fill(&server.app.fair().bodies, &server, BODIES).await;
}

#[tokio::test]
async fn archives_wait_for_others_to_be_unpacked() {
    let server = server().await;
    let chat = json(&server, "POST", "/v1/orgs/local/chats", "{}").await;
    let chat: serde_json::Value = serde_json::from_str(&chat.body).expect("a chat");
    let path = format!("/v1/orgs/local/chats/{}/workspace/uploads", chat["id"].as_str().expect("its id"));
    let mut archive = ArchiveWriter::new(Vec::new());
    archive.file(&"a.txt".parse().expect("a path"), false, &mut "text".as_bytes()).expect("a file");
    let archive = archive.finish().expect("an archive");
    let places = fill(&server.app.fair().archives, &server, ARCHIVES).await;
    told(&upload(&server, &path, &archive).await);
    drop(places);
    assert_eq!(upload(&server, &path, &archive).await.status, 200);
}

async fn upload(server: &Theatre, path: &str, archive: &[u8]) -> Answer {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = server.connect().await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/zip\r\nContent-Length: {}\r\n\r\n",
        archive.len()
    );
    stream.write_all(head.as_bytes()).await.expect("the server takes it");
    stream.write_all(archive).await.expect("and its body");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("an answer");
    crate::stage::tests::kit::parse(&bytes)
}

#[tokio::test]
async fn who_listens_too_often_leaves_room_for_others() {
    let server = server().await;
    let streams = &server.app.fair().streams;
    // A server without tokens knows everybody as this one.
    let held: Vec<Share> = std::iter::from_fn(|| streams.take(&server.org, "owner").ok()).collect();
    assert_eq!(held.len(), STREAMS_OF_ONE);
    let of_org = "/v1/orgs/local";
    let listening = [
        format!("{of_org}/events"),
        format!("{of_org}/agent-runs/any/events"),
        format!("{of_org}/chats/{}/turns/any/events", server.chat),
        "/mcp".to_owned(),
        "/sse".to_owned(),
    ];
    for path in &listening {
        told(&server.get("127.0.0.1", path).await);
    }
    assert_eq!(server.get("127.0.0.1", &format!("{of_org}/chats")).await.status, 200);
    streams.take(&server.org, "somebody else").expect("others of the organisation have their own");
    drop(held);
    for path in &listening[1..4] {
        assert_ne!(server.get("127.0.0.1", path).await.status, 429, "{path}");
    }
}

#[tokio::test]
async fn a_stream_has_its_place_until_it_ends() {
    use tokio::io::AsyncWriteExt;
    let server = server().await;
    let streams = &server.app.fair().streams;
    let _held: Vec<Share> = (1..STREAMS_OF_ONE).map(|_| streams.take(&server.org, "owner").expect("a place")).collect();
    let mut listener = server.connect().await;
    let request = "GET /v1/orgs/local/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    listener.write_all(request.as_bytes()).await.expect("the server takes it");
    crate::stage::tests::kit::read_until(&mut listener, "event: ready").await;
    told(&server.get("127.0.0.1", "/v1/orgs/local/events").await);
    drop(listener);
    // That somebody is gone is noticed a moment later.
    while streams.take(&server.org, "owner").is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
