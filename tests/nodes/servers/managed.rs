//! What somebody says about a server at one node holds where its process is.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::Answer;
use reqwest::Method;
use serde_json::json;

use super::{KEEPS, Notes, SERVERS, add, call, connected, holder, lives, nodes, other, pid, said, the_only_one};
use crate::kit::{new_chat, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reconnected_changed_turned_off_renamed_and_removed_at_any_node() {
    let (installation, servers) = nodes::<3>().await;
    let notes = Notes::new();
    let has = add(&servers, 2, &notes).await;
    let asks = &servers[other(&servers, has)];
    let put = async |body| Answer::of(asks.request(Method::PUT, KEEPS).json(&body)).await.expect(200);
    let chat = new_chat(asks).await;
    let first = pid(asks, &chat).await;

    asks.post(&format!("{KEEPS}/reconnect"), &json!({})).await.expect(200);
    let second = pid(asks, &chat).await;
    assert!(second != first && !lives(first) && holder(&servers, second) == has, "it is connected anew where it is");

    put(json!({ "args": notes.args(&["changed"]) })).await;
    until("what it is now is started", async || {
        let alive = notes.alive();
        let lines = alive.first().map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
        (alive.len() == 1 && String::from_utf8_lossy(&lines?).contains("changed")).then_some(())
    })
    .await;
    let third = pid(asks, &chat).await;
    for server in &servers {
        assert_eq!(pid(server, &chat).await, third);
    }
    assert_eq!(the_only_one(&notes).await, third);

    put(json!({ "enabled": false })).await;
    until("it is ended", async || notes.alive().is_empty().then_some(())).await;
    for server in &servers {
        let refused = until("it is known to be off", async || {
            let answer = call(server, &chat, "pid", json!({})).await;
            (answer.status != 200).then_some(answer)
        });
        refused.await.expect_error(409, "CONFLICT");
    }
    put(json!({ "enabled": true })).await;
    let fourth = pid(asks, &chat).await;
    assert_eq!((pid(&servers[has], &chat).await, the_only_one(&notes).await), (fourth, fourth));

    // Another name is another server to all nodes: its process is started anew, when the one before has ended. What it keeps goes along.
    let has = holder(&servers, fourth);
    let kept = |key: &str| installation.folder(has).join("servers").join(key).join("kept");
    std::fs::create_dir_all(kept("keeps~keeps").parent().unwrap()).unwrap();
    std::fs::write(kept("keeps~keeps"), "kept").unwrap();
    let request = servers[other(&servers, has)].request(Method::PUT, KEEPS);
    Answer::of(request.json(&json!({ "id": "other" }))).await.expect(200);
    assert_eq!(std::fs::read_to_string(kept("other~other")).unwrap(), "kept");
    let body = json!({ "toolId": "mcp:other~other:pid", "args": {} });
    let answer = asks.post(&crate::kit::calls(&chat), &body).await;
    let fifth: i32 = said(answer).parse().unwrap();
    assert!(fifth != fourth && !lives(fourth));
    assert_eq!(the_only_one(&notes).await, fifth);
    let elsewhere = &servers[other(&servers, holder(&servers, fifth))];
    elsewhere.delete(&format!("{SERVERS}/other")).await.expect(204);
    until("it is ended", async || notes.alive().is_empty().then_some(())).await;
    asks.post(&crate::kit::calls(&chat), &body).await.expect_error(404, "TOOL_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_bundle_starts_when_it_is_trusted_and_ends_with_its_trust() {
    let (_installation, servers) = nodes::<2>().await;
    let notes = Notes::new();
    let import = async |version: &str, more: &[&str]| {
        let args = serde_json::to_string(&notes.args(more)).unwrap();
        let server = format!("{{id: keeps, command: python3, args: {args}, requires_confirmation: false}}");
        let manifest = format!("id: keeps\nname: A toolset\nversion: \"{version}\"\nmcp_servers:\n  - {server}\n");
        let mut archive = ArchiveWriter::new(Vec::new());
        archive.file(&"toolset.yaml".parse().unwrap(), false, &mut manifest.as_bytes()).unwrap();
        let request = servers[0].request(Method::POST, "/v1/orgs/local/toolsets/import");
        let bytes = archive.finish().unwrap();
        let answer = Answer::of(request.header("content-type", "application/zip").body(bytes)).await;
        assert!(answer.status.is_success(), "{answer:?}");
    };
    import("1.0.0", &[]).await;
    for server in &servers {
        assert_eq!(server.get(KEEPS).await.expect(200)["status"], "needs_trust");
    }
    servers[1].post(&format!("{KEEPS}/trust"), &json!({})).await.expect(200);
    for server in &servers {
        connected(server).await;
    }
    let first = the_only_one(&notes).await;
    // Another launch is another trust, whichever node has the process.
    import("1.0.1", &["other"]).await;
    until("it is ended", async || notes.alive().is_empty().then_some(())).await;
    for server in &servers {
        until("it needs trust", async || {
            (server.get(KEEPS).await.expect(200)["status"] == "needs_trust").then_some(())
        })
        .await;
    }
    servers[0].post(&format!("{KEEPS}/trust"), &json!({})).await.expect(200);
    for server in &servers {
        connected(server).await;
    }
    assert_ne!(the_only_one(&notes).await, first);
}
