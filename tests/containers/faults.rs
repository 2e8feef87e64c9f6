//! Tools that misbehave, each really: time, memory, processes, words, files of this machine, a server that is killed.

use std::time::{Duration, Instant};

use kitbag_testkit::TestDatabase;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{CHATS, ask, bundle, call, engine, file, import, manifest, new_chat, serve};

const LIMITS: &str = "    limits: {memory: 64m, pids: 30, seconds: 60, cpus: 0.5}\n";

/// Another container, which has little time.
const QUICK: &str = "  - id: quick
    image: localhost/kb:1
    limits: {seconds: 3}
    tools: [{id: hang, command: [/bin/tool, hang], input_schema: {type: object}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn each_is_held_back_and_told_apart() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let words = ["eat", "fork", "flood", "look", "link", "words"];
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&words, LIMITS, QUICK))])).await.expect(201);
    let chat = new_chat(&server).await;

    // What it sees and may do.
    let look = call(&server, &chat, "look").await;
    assert_eq!(look["status"], "success", "{look}");
    let found = &look["result"];
    assert_eq!((&found["root"], &found["host"]), (&json!("no"), &json!("no")), "{found}");
    assert_eq!((&found["caps"], &found["new"]), (&json!("0000000000000000"), &json!("1")), "{found}");
    assert_eq!(found["links"], "lo ", "no network but its own loopback");
    assert_eq!(look["sandbox"]["layers"], json!(["container"]));

    // Time: killed, and what it did until then is kept.
    let hang = call(&server, &chat, "hang").await;
    assert_eq!(hang["error"]["code"], "TIMEOUT", "{hang}");
    assert_eq!(file(&server, &chat, "started.txt").await.as_deref(), Some("started\n"));

    // Memory and processes: its own trouble.
    let eat = call(&server, &chat, "eat").await;
    assert_ne!(eat["result"], json!(150_000_000), "{eat}");
    let fork = call(&server, &chat, "fork").await;
    assert_ne!(fork["result"], json!("all of them"), "{fork}");

    // Words: the end is kept, the rest is counted.
    let flood = call(&server, &chat, "flood").await;
    assert_eq!(flood["result"], "said", "{flood}");
    assert!(flood["logs"].to_string().len() < 1 << 20);

    // A result that is a link to a file of this machine, or no JSON.
    for (word, why) in [("link", "a link"), ("words", "not JSON")] {
        let wrong = call(&server, &chat, word).await;
        assert_eq!(wrong["error"]["code"], "TOOL_FAILED", "{wrong}");
        assert!(wrong["error"]["message"].as_str().unwrap().contains(why), "{wrong}");
    }
    assert_eq!(podman.containers().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_cancelled_and_a_killed_server_leaves_nothing() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let mut server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["hang"], "", ""))])).await.expect(201);
    let chat = new_chat(&server).await;
    let begin = async |server: &kitbag_testkit::Server| {
        let path = format!("{CHATS}/{chat}/tool-calls");
        let request = server.request(reqwest::Method::POST, &path).header("prefer", "respond-async");
        let asked =
            kitbag_testkit::Answer::of(request.json(&json!({ "toolId": "app:hang", "args": {} }))).await.expect(202);
        let end = Instant::now() + Duration::from_secs(60);
        while podman.run(&["ps", "--quiet"]).is_empty() {
            assert!(Instant::now() < end, "no container");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        format!("{path}/{}", asked["id"].as_str().unwrap())
    };
    let first = begin(&server).await;
    server.post(&format!("{first}/cancel"), &json!({})).await;
    let end = Instant::now() + Duration::from_secs(60);
    while server.get(&first).await.expect(200)["status"] == "running" {
        assert!(Instant::now() < end, "it is not over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.get(&first).await.expect(200)["error"]["code"], "CANCELLED");
    assert_eq!(podman.containers().len(), 0);

    let second = begin(&server).await;
    server.signal(Signal::KILL);
    server.wait();
    assert_eq!(podman.containers().len(), 1, "nobody was left to remove it");
    let server = serve(&database, &podman, &[]);
    assert_eq!(podman.containers().len(), 0, "the next start does");
    assert_eq!(server.get(&second).await.expect(200)["error"]["code"], "INTERRUPTED");
    assert_eq!(std::fs::read_dir(database.data().join("containers")).unwrap().count(), 0);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(database.data().to_str().unwrap()), "and nothing is shown any more");
    // The workspace is there and goes on.
    assert_eq!(ask(&server, &chat, "list_files", json!({})).await.expect(200)["status"], "success");
}
