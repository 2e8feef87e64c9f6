//! Tools that misbehave, each really: time, memory, processes, words, files of this machine, a server that is killed.

use std::os::linux::net::SocketAddrExt;
use std::time::{Duration, Instant};

use kitbag_testkit::TestDatabase;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{CHATS, ask, bundle, call, engine, file, import, manifest, new_chat, serve};

const LIMITS: &str = "    limits: {memory: 64m, pids: 30, seconds: 60, cpus: 0.5}\n";

/// Another container, which may reach the network.
const FAR: &str = "  - id: far
    image: localhost/kb:1
    permissions: {network: true}
    tools: [{id: socket_far, command: [/bin/tool, socket], input_schema: {type: object}}]
";

/// Another container, which has little time.
const QUICK: &str = "  - id: quick
    image: localhost/kb:1
    limits: {seconds: 3}
    tools:
      - {id: hang, command: [/bin/tool, hang], input_schema: {type: object}}
      - {id: none, command: [/bin/none], input_schema: {type: object}}
      - id: typed
        command: [/bin/tool, flood]
        input_schema: {type: object, properties: {n: {type: integer}}}
        output_schema: {type: object}
";

#[tokio::test(flavor = "multi_thread")]
async fn each_is_held_back_and_told_apart() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let words = [
        "eat",
        "fork",
        "flood",
        "breaths",
        "look",
        "link",
        "words",
        "crash",
        "dial",
        "reap",
        "large",
        "nan",
        "big",
        "outgrow",
        "deep",
        "socket",
        "words_for_ever",
    ];
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&words, LIMITS, &format!("{QUICK}{FAR}")))]))
        .await
        .expect(201);
    let chat = new_chat(&server).await;

    // What it sees and may do.
    let look = call(&server, &chat, "look").await;
    assert_eq!(look["status"], "success", "{look}");
    let found = &look["result"];
    assert_eq!((&found["root"], &found["host"]), (&json!("no"), &json!("no")), "{found}");
    let none = json!("0000000000000000 0000000000000000 ");
    assert_eq!((&found["caps"], &found["new"]), (&none, &json!("1")), "none now, and none to be had: {found}");
    assert_eq!((&found["cpus"], &found["files"]), (&json!("50000"), &json!("1024")), "half a processor: {found}");
    assert_eq!(found["links"], "lo ", "no network but its own loopback");
    assert_eq!(look["sandbox"]["layers"], json!(["container"]));

    // Time: killed, and what it did until then is kept.
    let hang = call(&server, &chat, "hang").await;
    assert_eq!(hang["error"]["code"], "TIMEOUT", "{hang}");
    assert_eq!(file(&server, &chat, "started.txt").await.as_deref(), Some("started\n"));

    // The network, and files of this machine: not this server, not its data, nobody's secrets.
    let everywhere = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = everywhere.local_addr().unwrap().port().to_string();
    let dial = ask(&server, &chat, "app:dial", json!({ "port": port })).await.expect(200);
    assert_eq!((&dial["status"], &dial["result"]), (&json!("success"), &json!("no")), "{dial}");
    let data = database.data().display().to_string();
    let reap = ask(&server, &chat, "app:reap", json!({ "data": data })).await.expect(200);
    assert_eq!((&reap["status"], &reap["result"]), (&json!("success"), &json!("none")), "{reap}");

    // A socket without a file, and the server's own process: neither is there, also where the network is.
    let name = format!("kitbag-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    assert!(std::fs::read_to_string("/proc/net/unix").unwrap().contains(&name), "it is there to be seen");
    for tool in ["app:socket", "app:socket_far"] {
        let asked = json!({ "name": name, "pid": server.pid().to_string() });
        let found = ask(&server, &chat, tool, asked).await.expect(200);
        assert_eq!(found["result"], json!({ "seen": "no", "hit": "no" }), "{tool}: {found}");
    }

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
    let words = call(&server, &chat, "words_for_ever").await;
    assert_eq!(words["result"], "said", "{words}");
    assert!(words["logs"].to_string().len() < 1 << 20);
    let breaths = call(&server, &chat, "breaths").await;
    assert_eq!(breaths["result"], "said", "{breaths}");
    assert!(breaths["logs"].to_string().len() < 1 << 20);
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 100 << 10, "200 MB and 40 million lines cost {grown} kB");

    // A result that is a link to a file of this machine, or no JSON.
    let wrong =
        [("link", "a link"), ("words", "not JSON"), ("nan", "not JSON"), ("large", "has more than 16777216 bytes")];
    for (word, why) in wrong {
        let wrong = call(&server, &chat, word).await;
        assert_eq!(wrong["error"]["code"], "TOOL_FAILED", "{wrong}");
        assert!(wrong["error"]["message"].as_str().unwrap().contains(why), "{wrong}");
    }
    // A file that is larger than one may be, more beside the workspace than a result needs, and folders deeper than a stack.
    let big = call(&server, &chat, "big").await;
    assert!(big["result"].as_str().is_none_or(|status| status != "0"), "{big}");
    let outgrow = call(&server, &chat, "outgrow").await;
    assert!(outgrow["error"]["message"].as_str().unwrap().contains("folder for the result"), "{outgrow}");
    call(&server, &chat, "deep").await;
    let none = call(&server, &chat, "none").await;
    assert_eq!(none["error"]["code"], "TOOL_FAILED", "{none}");
    assert!(none["error"]["message"].as_str().unwrap().contains("could not be started"), "{none}");
    let typed = ask(&server, &chat, "app:typed", json!({ "n": "seven" })).await;
    typed.expect_error(400, "INVALID_ARGUMENTS");
    // What does not fit what the tool declares is kept, and said.
    let typed = ask(&server, &chat, "app:typed", json!({ "n": 7 })).await.expect(200);
    assert!(typed["warnings"].to_string().contains("not what the tool declares"), "{typed}");
    assert_eq!(ask(&server, &chat, "list_files", json!({})).await.expect(200)["status"], "success");
    assert_eq!(podman.containers().len(), 0);
    let end = Instant::now() + Duration::from_secs(60);
    while std::fs::read_dir(database.data().join("containers")).unwrap().count() > 0 {
        assert!(Instant::now() < end, "what a tool left is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whoever may reach the network does, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn the_network_is_for_those_who_asked_and_are_trusted() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["look"], "    permissions: {network: true}\n", "");
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    let chat = new_chat(&server).await;
    let look = call(&server, &chat, "look").await;
    let links = look["result"]["links"].as_str().unwrap_or_default();
    assert!(links.split(' ').any(|link| !link.is_empty() && link != "lo"), "{look}");
}

/// A toolset goes while its tool runs: the call is over, and so is its container.
#[tokio::test(flavor = "multi_thread")]
async fn a_toolset_that_goes_ends_its_calls() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["hang"], "", ""))])).await.expect(201);
    let chat = new_chat(&server).await;
    let path = format!("{CHATS}/{chat}/tool-calls");
    let request = server.request(reqwest::Method::POST, &path).header("prefer", "respond-async");
    let hang = request.json(&json!({ "toolId": "app:hang", "args": {} }));
    let hang = kitbag_testkit::Answer::of(hang).await.expect(202);
    let end = Instant::now() + Duration::from_secs(60);
    while podman.running().is_empty() {
        assert!(Instant::now() < end, "no container");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.delete(&format!("{}/app", crate::kit::TOOLSETS)).await.expect(204);
    let over = server.get(&format!("{path}/{}", hang["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(over["error"]["code"], "INTERRUPTED", "{over}");
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

/// A copy of a data folder, as somebody makes one to try something, has its name; what the original runs is not its to remove.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::disallowed_methods, reason = "whoever copies it does so with this")]
async fn a_copied_data_folder_leaves_the_originals_containers_alone() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let mut server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["hang", "nothing"], "", ""))]))
        .await
        .expect(201);
    let chat = new_chat(&server).await;
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
    crate::kit::stop(&mut server);
    let beside = tempfile::tempdir().unwrap();
    let copy = beside.path().join("copy");
    let copied = std::process::Command::new("cp").arg("-a").arg(database.data()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let server = serve(&database, &podman, &[]);
    let path = format!("{CHATS}/{chat}/tool-calls");
    let request = server.request(reqwest::Method::POST, &path).header("prefer", "respond-async");
    let hang = request.json(&json!({ "toolId": "app:hang", "args": {} }));
    kitbag_testkit::Answer::of(hang).await.expect(202);
    let end = Instant::now() + Duration::from_secs(60);
    while podman.running().is_empty() {
        assert!(Instant::now() < end, "no container");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let program = kitbag_testkit::Program::new(env!("CARGO_BIN_EXE_kitbag"), &copy).env("DOCKER_HOST", &podman.host());
    let other = kitbag_testkit::Server::start_program(&program, &copy, &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(call(&other, &new_chat(&other).await, "nothing").await["status"], "success");
    assert_eq!(podman.running().len(), 1, "the original's is gone");
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
