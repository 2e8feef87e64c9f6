//! Faults of the surroundings: a full disk, a log that nobody reads, commands in the way.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kitbag_testkit::{Program, Server, TestDatabase};
use serde_json::json;

use crate::{BINARY, serve};

const CHATS: &str = "/v1/orgs/local/chats";

/// A shell that knows nothing but the data folder, and where rows and bytes are.
fn sh(database: &TestDatabase, script: &str) -> Command {
    let mut shell = Command::new("sh");
    let known = Program::on(BINARY, database).command(&[]);
    shell.args(["-c", script]).env_clear().envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", "/usr/bin:/bin");
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

/// A server whose data folder is a disk of three megabytes, in a mount namespace of its own. The folder as seen from here.
fn serve_on_a_small_disk(database: &TestDatabase) -> (Server, PathBuf) {
    let disk = database.data().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size=3m none '{}' && exec \"$@\"", disk.display());
    let program = Program::new(BINARY, &disk).inside(&[
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &mount,
        "sh",
    ]);
    let server = Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    let seen = PathBuf::from(format!("/proc/{}/root", server.pid())).join(disk.strip_prefix("/").unwrap());
    (server, seen)
}

#[tokio::test]
async fn a_full_disk_stops_writes_until_there_is_room() {
    let database = TestDatabase::sqlite();
    let (server, disk) = serve_on_a_small_disk(&database);
    // What somebody will remove to make room. A deletion leaves a line in the audit, so it takes some itself.
    fs::write(disk.join("spare"), vec![0; 300_000]).unwrap();
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let messages = format!("{CHATS}/{chat}/messages");
    let large = json!({ "role": "user", "content": "x".repeat(300_000) });
    let mut kept = 0;
    loop {
        let answer = server.post(&messages, &large).await;
        if answer.status.as_u16() != 201 {
            answer.expect_error(503, "UNAVAILABLE");
            break;
        }
        kept += 1;
        assert!(kept < 100, "the disk is larger than it should be");
    }
    fs::write(disk.join("rest"), vec![0; 4_000_000]).unwrap_err();
    server.post(&messages, &large).await.expect_error(503, "UNAVAILABLE");
    assert_eq!(server.get(&format!("{CHATS}/{chat}")).await.expect(200)["id"], chat.as_str(), "reading goes on");
    fs::remove_file(disk.join("rest")).unwrap();
    fs::remove_file(disk.join("spare")).unwrap();
    // More room than there was: the database itself has filled the disk.
    server.delete(&format!("{CHATS}/{chat}")).await.expect(204);
    for _ in 0..3 {
        server.post(CHATS, &json!({})).await.expect(201);
    }
    server.get("/readyz").await.expect(200);
}

/// Calls of MCP servers are answered before they are recorded: what the disk has no room for is kept until it has.
#[tokio::test]
async fn calls_that_a_full_disk_has_no_room_for_are_recorded_later() {
    let database = TestDatabase::sqlite();
    let (server, disk) = serve_on_a_small_disk(&database);
    let twin = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/twins/manager_server.py");
    let launch =
        json!({ "id": "twin", "requiresConfirmation": false, "command": "python3", "args": ["-I", "-S", twin] });
    server.post("/v1/orgs/local/mcp-servers", &launch).await.expect(201);
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let calls = format!("{CHATS}/{chat}/tool-calls");
    let call = |text: String| json!({ "toolId": "mcp:twin~twin:echo", "args": { "text": text } });
    let first = server.post(&calls, &call("first".to_owned())).await.expect(200);
    assert_eq!(server.get(&format!("{calls}/{}", first["id"].as_str().unwrap())).await.expect(200), first);

    fs::write(disk.join("rest"), vec![0; 4_000_000]).unwrap_err();
    let large = server.post(&calls, &call("x".repeat(200_000))).await.expect(200);
    assert_eq!(large["status"], "success");
    let at = format!("{calls}/{}", large["id"].as_str().unwrap());
    server.get(&at).await.expect_error(503, "UNAVAILABLE");
    // From now on none is taken that could not be recorded.
    server.post(&calls, &call("small".to_owned())).await.expect_error(503, "UNAVAILABLE");
    fs::remove_file(disk.join("rest")).unwrap();
    assert_eq!(server.get(&at).await.expect(200), large, "it is there as it was answered");
    let last = server.post(&calls, &call("last".to_owned())).await.expect(200);
    let listed = server.get(&calls).await.expect(200);
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
    assert_eq!(ids, [&first["id"], &large["id"], &last["id"]]);
}

#[tokio::test]
async fn a_log_that_nobody_reads_any_more_stops_nothing() {
    let database = TestDatabase::sqlite();
    // The shell's reader ends at once; from then on every line that is logged meets a closed pipe.
    let script = format!(
        "'{BINARY}' serve --listen 127.0.0.1:0 2>&1 >'{0}/out' | true; exec sleep 600",
        database.data().display()
    );
    let mut shell = sh(&database, &script).spawn().unwrap();
    let listed = loop {
        let listed = Program::on(BINARY, &database).run(&["--json", "chat", "list"]);
        if fs::exists(database.data().join("server.json")).unwrap() {
            break listed;
        }
        assert_eq!(shell.try_wait().unwrap(), None);
    };
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for _ in 0..3 {
        let made = Program::on(BINARY, &database).run(&["--json", "chat", "new"]);
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let said: serde_json::Value =
        serde_json::from_slice(&fs::read(database.data().join("server.json")).unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(said["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    for broken in ["2>/dev/full", "2>&-"] {
        let script = format!("'{BINARY}' chat show nope {broken}");
        let status = sh(&database, &script).status().unwrap();
        assert_eq!(status.code(), Some(1), "{broken}");
    }
}

/// Another process, a command say, has the folder open and does not let go.
#[tokio::test]
async fn a_workspace_in_use_elsewhere_is_an_error_in_time() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let home = database.data().join("chats").join(&chat);
    fs::create_dir_all(&home).unwrap();
    let lock = fs::File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let files = format!("{CHATS}/{chat}/workspace/files");
    server.get(&files).await.expect_error(503, "UNAVAILABLE");
    drop(lock);
    server.get(&files).await.expect(200);
}

/// Commands that come one after another must not keep a server out.
#[tokio::test]
async fn a_server_gets_its_turn_between_commands() {
    let database = TestDatabase::sqlite();
    let script = format!("while :; do '{BINARY}' chat list >/dev/null; done");
    let shells: Vec<_> = (0..3).map(|_| sh(&database, &script).spawn().unwrap()).collect();
    let server = serve(&database);
    server.get("/readyz").await.expect(200);
    for mut shell in shells {
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}

/// What a killed server said of itself leads nowhere: another program may listen there now, and would get the token.
#[tokio::test]
async fn nobody_talks_to_the_address_of_a_dead_server() {
    let database = TestDatabase::sqlite();
    let mut first = serve(&database);
    first.signal(rustix::process::Signal::KILL);
    first.wait();
    let rogue = std::net::TcpListener::bind(first.url.trim_start_matches("http://")).unwrap();
    rogue.set_nonblocking(true).unwrap();
    // A server that holds the folder and has not said yet where it is: it waits for a database that does not come.
    let waiting = Program::on(BINARY, &database).env("KITBAG_DATABASE", "postgres://u@127.0.0.1:1/x");
    let mut waiting = waiting.start(&["serve", "--listen", "127.0.0.1:0"]);
    while fs::exists(database.data().join("server.json")).unwrap() {
        assert!(waiting.try_wait().unwrap().is_none());
        tokio::task::yield_now().await;
    }
    let listed = Program::on(BINARY, &database).run(&["chat", "list"]);
    assert_eq!(listed.code, Some(1), "{listed:?}");
    assert!(listed.stderr.contains("does not say where"), "{listed:?}");
    assert!(rogue.accept().is_err(), "somebody talked to the rogue");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}
