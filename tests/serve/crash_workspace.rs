//! `kill -9` while files are written, branches switched and the store collected: every state that was acknowledged is
//! whole, and the folder is a state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::serve;

const FILES_A_ROUND: usize = 3;
const KILLS_A_CHAT: usize = 10;

/// A file that was acknowledged: its state, its path and its hash.
pub(crate) type Acknowledged = (String, String, String);

async fn write_and_switch(
    server: &Server,
    chat: &str,
    leaves: &[String],
    round: usize,
    done: &mut Vec<Acknowledged>,
    acknowledged: &AtomicUsize,
) -> Option<()> {
    let at = |rest: &str| format!("/v1/orgs/local/chats/{chat}/{rest}");
    let send = async |request: reqwest::RequestBuilder| {
        let response = request.send().await.ok()?;
        let status = response.status();
        assert!(!status.is_server_error() && !status.is_client_error(), "{response:?}");
        response.json::<Value>().await.ok()
    };
    for count in 0.. {
        let path = format!("folder-{}/f{round}-{count}", count % 3);
        let body = format!("{round} {count} {}", "x".repeat(count % 7 * 1000));
        let written = send(server.request(Method::PUT, &at(&format!("workspace/files/{path}"))).body(body)).await?;
        let text = |field: &str| written[field].as_str().unwrap().to_owned();
        done.push((text("manifestId"), path, text("sha256")));
        acknowledged.fetch_add(1, Ordering::Relaxed);
        let leaf = json!({ "messageId": leaves[count % leaves.len()] });
        send(server.request(Method::POST, &at("active-leaf")).json(&leaf)).await?;
        if count % 3 == 1 {
            let branch = json!({ "role": "user", "content": "x", "parentId": leaves[(count + 1) % leaves.len()] });
            send(server.request(Method::POST, &at("messages")).json(&branch)).await?;
        }
        if count % 4 == 0 {
            send(server.request(Method::POST, &at("workspace/gc")).json(&json!({ "graceSeconds": 0 }))).await?;
        }
        if count % 5 == 0 {
            let earlier = json!({ "manifestId": done[count * 7 % done.len()].0 });
            send(server.request(Method::POST, &at("workspace/checkout")).json(&earlier)).await?;
        }
    }
    None
}

/// The files of a folder with their hashes, by looking at the disk.
pub(crate) fn on_disk(folder: &std::path::Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(path, kitbag_testkit::sha256(&std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    found
}

pub(crate) async fn verify(server: &Server, database: &TestDatabase, chat: &str, done: &[Acknowledged]) {
    let at = |rest: &str| format!("/v1/orgs/local/chats/{chat}/{rest}");
    let fsck = Answer::of(server.request(Method::POST, &at("workspace/fsck"))).await.expect(200);
    assert_eq!((&fsck["ok"], &fsck["mended"]), (&json!(true), &json!([])), "{fsck}");
    for (manifest, path, hash) in done {
        let state = server.get(&at(&format!("workspace/manifest?id={manifest}"))).await.expect(200);
        assert_eq!(state["files"][path], hash.as_str(), "{path} was acknowledged and is not in its state");
    }
    // Whoever asks for the files gets a folder that is the active state.
    server.get(&at("workspace/files")).await.expect(200);
    let active = server.get(&at("workspace/manifest")).await;
    // A branch that nobody wrote to has no state yet: its folder is empty.
    let files = if active.status.as_u16() == 404 { json!({}) } else { active.expect(200)["files"].clone() };
    let files: BTreeMap<String, String> = serde_json::from_value(files).unwrap();
    let home = database.data().join("chats").join(chat);
    assert_eq!(on_disk(&home.join("workspace")), files);
    assert!(!home.join("materialising").exists());
}

/// A chat with three branches.
async fn new_chat(server: &Server) -> (String, Vec<String>) {
    let chat = server.post("/v1/orgs/local/chats", &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let mut leaves = Vec::new();
    for text in ["a", "b", "c"] {
        let body = json!({ "role": "user", "content": text, "parentId": null });
        let message = server.post(&format!("/v1/orgs/local/chats/{chat}/messages"), &body).await.expect(201);
        leaves.push(message["id"].as_str().unwrap().to_owned());
    }
    (chat, leaves)
}

/// How often a server is killed: `KITBAG_KILLS` on both databases together.
pub(crate) fn kills() -> usize {
    let wanted = std::env::var("KITBAG_KILLS").map_or(40, |text| text.parse().unwrap());
    wanted / 2
}

on_both! {
    async fn every_acknowledged_state_is_whole(database: TestDatabase) {
        let mut server = serve(&database);
        let mut chats: Vec<(String, Vec<Acknowledged>)> = Vec::new();
        let mut leaves = Vec::new();
        for round in 0..kills() {
            // A chat that grew over many kills takes long to look through, and shows nothing more.
            if round % KILLS_A_CHAT == 0 {
                let (chat, branches) = new_chat(&server).await;
                chats.push((chat, Vec::new()));
                leaves = branches;
            }
            let (chat, done) = chats.last_mut().unwrap();
            // Each round is cut off at another moment after some files; which operation that hits is up to the machine.
            let acknowledged = AtomicUsize::new(0);
            let moment = async {
                while acknowledged.load(Ordering::Relaxed) < FILES_A_ROUND {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_micros((round as u64 * 7919) % 50_000)).await;
            };
            tokio::select! {
                _ = write_and_switch(&server, chat, &leaves, round, done, &acknowledged) => panic!("the writer stopped by itself"),
                () = moment => {}
            }
            server.signal(Signal::KILL);
            server.wait();
            server = serve(&database);
            verify(&server, &database, chat, done).await;
        }
        let mut states = 0;
        for (chat, done) in &chats {
            verify(&server, &database, chat, done).await;
            states += done.len();
        }
        eprintln!("{} kills, {states} acknowledged states, all whole", kills());
    }
}
