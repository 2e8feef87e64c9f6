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
    let words = ["eat", "fork", "flood", "breaths", "look", "link", "words", "crash", "dial", "reap"];
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

    // The network, and files of this machine: not this server, not its data, nobody's secrets.
    let port = server.url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let dial = ask(&server, &chat, "app:dial", json!({ "port": port })).await.expect(200);
    assert_eq!((&dial["status"], &dial["result"]), (&json!("success"), &json!("no")), "{dial}");
    let data = database.data().display().to_string();
    let reap = ask(&server, &chat, "app:reap", json!({ "data": data })).await.expect(200);
    assert_eq!((&reap["status"], &reap["result"]), (&json!("success"), &json!("none")), "{reap}");

    // Memory and processes: its own trouble, and told as what it is.
    let eat = call(&server, &chat, "eat").await;
    assert_eq!(eat["error"]["code"], "TOOL_FAILED", "{eat}");
    assert!(eat["error"]["message"].as_str().unwrap().contains("more memory than it may have (64 MiB)"), "{eat}");
    let fork = call(&server, &chat, "fork").await;
    assert_eq!(fork["error"]["code"], "TOOL_FAILED", "{fork}");
    assert!(fork["logs"].to_string().contains("fork"), "{fork}");
    let crash = call(&server, &chat, "crash").await;
    let message = crash["error"]["message"].as_str().unwrap();
    assert!(message.contains("signal 11") && message.contains("about to"), "{message}");
    // The server and other calls do not notice.
    assert_eq!(ask(&server, &chat, "list_files", json!({})).await.expect(200)["status"], "success");

    // Words: the end is kept, the rest is counted.
    let flood = call(&server, &chat, "flood").await;
    assert_eq!(flood["result"], "said", "{flood}");
    assert!(flood["logs"].to_string().len() < 1 << 20);
    let before = peak(&server);
    let breaths = call(&server, &chat, "breaths").await;
    assert_eq!(breaths["result"], "said", "{breaths}");
    assert!(breaths["logs"].to_string().len() < 1 << 20);
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 100 << 10, "40 million lines cost {grown} kB");

    // A result that is a link to a file of this machine, or no JSON.
    for (word, why) in [("link", "a link"), ("words", "not JSON")] {
        let wrong = call(&server, &chat, word).await;
        assert_eq!(wrong["error"]["code"], "TOOL_FAILED", "{wrong}");
        assert!(wrong["error"]["message"].as_str().unwrap().contains(why), "{wrong}");
    }
    assert_eq!(podman.containers().len(), 0);
}

/// The most memory that a server ever had, in kB.
fn peak(server: &kitbag_testkit::Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
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

/// An engine that dies while it runs a container, and comes back: the call is over, and the container goes as soon as somebody can remove it.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_costs_the_call_alone() {
    let (mut podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["hang", "nothing"], "", "");
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    let chat = new_chat(&server).await;
    let path = format!("{CHATS}/{chat}/tool-calls");
    let request = server.request(reqwest::Method::POST, &path).header("prefer", "respond-async");
    let hang = request.json(&json!({ "toolId": "app:hang", "args": {} }));
    let hang = kitbag_testkit::Answer::of(hang).await.expect(202);
    let end = Instant::now() + Duration::from_secs(120);
    let wait = async |what: &str| {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    while podman.running().is_empty() {
        wait("no container").await;
    }
    podman.kill();
    let hang = format!("{path}/{}", hang["id"].as_str().unwrap());
    while server.get(&hang).await.expect(200)["status"] == "running" {
        wait("it is not over").await;
    }
    assert_eq!(server.get(&hang).await.expect(200)["error"]["code"], "UNAVAILABLE");
    let path = format!("{}/app:nothing", crate::kit::TOOLS);
    while !server.get(&path).await.expect(200).to_string().contains("no container engine answers") {
        wait("lists do not say it").await;
    }
    assert_eq!(ask(&server, &chat, "list_files", json!({})).await.expect(200)["status"], "success");
    podman.again();
    assert_eq!(podman.containers().len(), 1, "nobody could remove it");
    while !podman.containers().is_empty() {
        wait("it is still there").await;
    }
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
}

/// An engine that takes connections and says nothing: lists come, and say so.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_holds_up_nobody() {
    let database = TestDatabase::sqlite();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let program = kitbag_testkit::Program::on(env!("CARGO_BIN_EXE_kitbag"), &database)
        .env("DOCKER_HOST", &format!("unix://{}", socket.display()));
    let server =
        kitbag_testkit::Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))])).await.expect(201);
    // Whoever asks here waits a minute, and an engine has two for an answer.
    let listed = server.get(crate::kit::TOOLS).await.expect(200);
    assert!(listed.to_string().contains("the container engine does not answer"), "{listed}");
    assert_eq!(ask(&server, &new_chat(&server).await, "list_files", json!({})).await.expect(200)["status"], "success");
}
