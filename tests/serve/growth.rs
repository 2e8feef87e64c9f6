//! What a long life of a workspace costs: the database grows with what changed, not with the workspace.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::{Method, header};
use rustix::process::Signal;
use serde_json::json;

use crate::serve;

const CHATS: &str = "/v1/orgs/local/chats";

/// How many bytes the database has on disk. The server has stopped, so its log is part of it.
fn database_size(database: &TestDatabase) -> u64 {
    assert!(!database.data().join("kitbag.db-wal").exists());
    database.data().join("kitbag.db").metadata().unwrap().len()
}

fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[tokio::test]
async fn a_thousand_states_of_ten_thousand_files_take_less_than_ten_megabytes() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let mut archive = ArchiveWriter::new(Vec::new());
    for number in 0..10_000 {
        let path = format!("src/module_{:03}/file_{number:05}.txt", number / 40).parse().unwrap();
        archive.file(&path, false, &mut format!("content {number}").as_bytes()).unwrap();
    }
    let upload = server
        .request(Method::POST, &format!("{CHATS}/{chat}/workspace/uploads"))
        .header(header::CONTENT_TYPE, "application/zip")
        .body(archive.finish().unwrap());
    Answer::of(upload).await.expect(200);
    stop(server);
    let before = database_size(&database);
    let server = serve(&database);
    for number in 0..1000_usize {
        let file = (number * 7919) % 10_000;
        let path = format!("{CHATS}/{chat}/workspace/files/src/module_{:03}/file_{file:05}.txt", file / 40);
        Answer::of(server.request(Method::PUT, &path).body(format!("changed {number}"))).await.expect(200);
    }
    let states = server.get(&format!("{CHATS}/{chat}/workspace/manifests?limit=1")).await.expect(200);
    assert_eq!(states["items"][0]["files"].as_object().unwrap().len(), 10_000);
    stop(server);
    let grown = database_size(&database) - before;
    assert!(grown < 10_000_000, "a thousand states took {grown} bytes of database");
}
