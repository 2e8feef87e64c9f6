//! Servers in the sandbox: always those of organisations that share a machine, and a person's own if that person wants it.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::chown;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::BINARY;
use crate::kit::{bundle, installed, kill, node, processes_with, until_so, with};

const PROBE: &str = include_str!("../../crates/mcp/tests/twins/probe_server.py");

/// The folder that the servers from npm are in.
fn programs() -> String {
    installed("KITBAG_TEST_NODE_MODULES", "..")
}

fn serve(database: &TestDatabase, more: &[&str]) -> Server {
    let programs = PathBuf::from(programs()).canonicalize().unwrap();
    let mut args = vec!["--sandbox-programs", programs.to_str().unwrap()];
    args.extend(more);
    Server::start(BINARY, database, &args)
}

/// One who may do everything in one organisation.
struct Manager<'a> {
    server: &'a Server,
    org: &'static str,
    token: String,
    data: PathBuf,
}

impl<'a> Manager<'a> {
    async fn of_another(server: &'a Server, database: &TestDatabase, org: &'static str) -> Self {
        let store = database.open().await;
        let token = add_token(&store, &add_organization(&store, org).await, "use manage").await;
        Self { server, org, token, data: database.data().to_owned() }
    }

    fn local(server: &'a Server, data: &Path) -> Self {
        Self { server, org: "local", token: server.token.clone(), data: data.to_owned() }
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> Answer {
        let path = format!("/v1/orgs/{}{path}", self.org);
        Answer::of(self.server.anonymous(method, &path).bearer_auth(&self.token).json(&body)).await
    }

    /// The folder that a server keeps, as the machine sees it.
    fn home(&self, id: &str) -> PathBuf {
        let org = if self.org == "local" { self.data.clone() } else { self.data.join("orgs").join(self.org) };
        org.join("servers").join(format!("{id}~{id}"))
    }

    async fn until(&self, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1200 {
            let shown = self.ask(Method::GET, &format!("/mcp-servers/{id}"), json!({})).await.expect(200);
            if fits(&shown) {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let shown = self.ask(Method::GET, &format!("/mcp-servers/{id}"), json!({})).await;
        panic!("{id} stayed {}", shown.body);
    }

    async fn connected(&self, id: &str) -> Value {
        self.until(id, |shown| shown["status"] == "connected" && !shown["toolsSeenAt"].is_null()).await
    }

    async fn add(&self, id: &str, launch: Value) -> Value {
        let body = with(json!({ "id": id, "requiresConfirmation": false }), launch);
        self.ask(Method::POST, "/mcp-servers", body).await.expect(201)
    }

    /// Installs a probe whose command line has `mark` in it.
    async fn probe(&self, id: &str, mark: &str) -> Value {
        self.install(id, mark).await;
        self.connected(id).await
    }

    async fn install(&self, id: &str, mark: &str) {
        let servers = format!(
            "mcp_servers:\n  - {{id: {id}, command: python3, args: [-I, -S, \"${{KITBAG_TOOLSET_DIR}}/server.py\", \"{mark}\"], \
             requires_confirmation: false}}\n"
        );
        let bytes = bundle(id, "1.0.0", &servers, &[("server.py", PROBE)]);
        let request = self.server.anonymous(Method::POST, &format!("/v1/orgs/{}/toolsets/import", self.org));
        let request = request.bearer_auth(&self.token).header(header::CONTENT_TYPE, "application/zip").body(bytes);
        let answer = Answer::of(request).await;
        assert!(answer.status.is_success(), "{answer:?}");
        self.ask(Method::POST, &format!("/mcp-servers/{id}/trust"), json!({})).await.expect(200);
    }

    async fn call(&self, id: &str, tool: &str, args: Value) -> Value {
        let chat = self.ask(Method::POST, "/chats", json!({})).await.expect(201)["id"].clone();
        let body = json!({ "toolId": format!("mcp:{id}~{id}:{tool}"), "args": args });
        let path = format!("/chats/{}/tool-calls", chat.as_str().unwrap());
        self.ask(Method::POST, &path, body).await.expect(200)
    }

    /// The text of a call that goes well.
    async fn text(&self, id: &str, tool: &str, args: Value) -> String {
        let call = self.call(id, tool, args).await;
        assert_eq!(call["status"], "success", "{call}");
        call["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Waits until a probe that was just killed answers again. A call that comes before its end was noticed ends with it, and says so.
    async fn answers_again(&self, id: &str) {
        for _ in 0..200 {
            let call = self.call(id, "look", json!({})).await;
            if call["status"] == "success" {
                return;
            }
            assert_eq!(call["error"]["code"], "MCP_SERVER_NOT_CONNECTED", "{call}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{id} never answered again");
    }

    /// What a probe says.
    async fn say(&self, id: &str, tool: &str, args: Value) -> Value {
        serde_json::from_str(&self.text(id, tool, args).await).unwrap()
    }
}

/// Something that no other test's command lines have.
fn mark(database: &TestDatabase) -> String {
    format!("mark-{}", database.data().file_name().unwrap().display())
}

on_both! {
    async fn another_organisation_uses_the_servers_that_everybody_uses(database: TestDatabase) {
        let server = serve(&database, &[]);
        let theirs = Manager::of_another(&server, &database, "other").await;
        // What the field says changes nothing for them.
        let added = theirs.add("everything", with(node("server-everything", &["stdio"]), json!({ "sandbox": false }))).await;
        assert_eq!(added["sandbox"], true, "{added}");
        let shown = theirs.connected("everything").await;
        assert!(shown["toolCount"].as_u64().unwrap() > 10 && shown["sandbox"] == true, "{shown}");
        let echo = theirs.text("everything", "echo", json!({ "message": "from within" })).await;
        assert!(echo.contains("from within"), "{echo}");
        let environment: Value = serde_json::from_str(&theirs.text("everything", "get-env", json!({})).await).unwrap();
        assert_eq!((&environment["HOME"], &environment["TMPDIR"]), (&json!("/server"), &json!("/tmp")), "{environment}");
        assert!(environment.as_object().unwrap().keys().all(|name| !name.starts_with("KITBAG_")), "{environment}");

        theirs.add("files", node("server-filesystem", &["/server"])).await;
        theirs.connected("files").await;
        theirs.text("files", "write_file", json!({ "path": "/server/a.txt", "content": "kept" })).await;
        assert_eq!(fs::read_to_string(theirs.home("files").join("a.txt")).unwrap(), "kept");
        assert_eq!(theirs.text("files", "read_text_file", json!({ "path": "/server/a.txt" })).await, "kept");
        // What it keeps goes along with another name, and goes with it.
        theirs.ask(Method::PUT, "/mcp-servers/files", json!({ "id": "papers" })).await.expect(200);
        assert_eq!(theirs.text("papers", "read_text_file", json!({ "path": "/server/a.txt" })).await, "kept");
        theirs.ask(Method::DELETE, "/mcp-servers/papers", json!({})).await.expect(204);
        until_so("the folder is gone", || !theirs.home("papers").exists() && !theirs.home("files").exists()).await;
        theirs.add("papers", node("server-filesystem", &["/server"])).await;
        theirs.connected("papers").await;
        let listed = theirs.text("papers", "list_directory", json!({ "path": "/server" })).await;
        assert!(!listed.contains("a.txt"), "{listed}");
    }

    async fn what_is_not_its_own_is_not_there(database: TestDatabase) {
        let server = serve(&database, &[]);
        let theirs = Manager::of_another(&server, &database, "other").await;
        let elsewhere = Manager::of_another(&server, &database, "third").await;
        let mark = mark(&database);
        elsewhere.probe("neighbour", &mark).await;
        theirs.probe("second", &mark).await;
        theirs.probe("probe", &mark).await;
        for manager in [&elsewhere, &theirs] {
            let id = if manager.org == "third" { "neighbour" } else { "second" };
            assert_eq!(manager.say(id, "write", json!({ "paths": ["/server/secret"] })).await, json!(["/server/secret"]));
            assert!(manager.home(id).join("secret").exists());
        }
        let text = |path: &Path| path.display().to_string();
        let secret = tempfile::NamedTempFile::new().unwrap();
        let mut hidden = vec![
            text(database.data()),
            text(&database.data().join("kitbag.db")),
            text(&database.data().join("orgs/other/toolsets")),
            text(&theirs.home("second")),
            text(&theirs.home("second").join("secret")),
            text(&elsewhere.home("neighbour").join("secret")),
            text(&theirs.home("probe")),
            text(secret.path()),
            "/server/../second~second".to_owned(),
            "/server/../../toolsets".to_owned(),
            "/proc/1/root/etc/shadow".to_owned(),
            "/proc/1/environ".to_owned(),
            "/proc/1/cwd".to_owned(),
        ];
        hidden.extend(["/etc/shadow", "/root/.ssh", "/home", "/sys", "/run", "/var", "/opt", "/workspace"].map(str::to_owned));
        let found = theirs.say("probe", "read", json!({ "paths": hidden })).await;
        for (path, found) in found.as_object().unwrap() {
            assert!(found.is_null(), "{path}: {found}");
        }
        // What the operator shows is below the home of whoever runs the tests; nothing else of that is there.
        let home = text(Path::new(&std::env::var("HOME").unwrap()));
        let own = theirs.say("probe", "read", json!({ "paths": ["/toolset", "/server", "/tmp", "/etc/passwd", home] })).await;
        assert_eq!((&own["/toolset"], &own["/server"], &own["/tmp"]), (&json!(["server.py", "toolset.yaml"]), &json!([]), &json!([])));
        assert_eq!(own["/etc/passwd"], "server:x:1000:1000::/server:/bin/sh\n");
        let at_home: Vec<&str> = own[&home].as_array().map(|names| names.iter().filter_map(Value::as_str).collect()).unwrap_or_default();
        assert!(at_home.iter().all(|name| *name == ".cache"), "{at_home:?}");

        let paths = ["/server/a", "a", "/tmp/a", "/dev/shm/b", "/dev/null", "/toolset/a", "/usr/a", "/etc/a", "/etc/passwd", "/a", "/dev/a",
            "/proc/sys/kernel/hostname"];
        let written = theirs.say("probe", "write", json!({ "paths": paths })).await;
        assert_eq!(written, json!(["/server/a", "a", "/tmp/a", "/dev/shm/b", "/dev/null"]));

        let seen = theirs.say("probe", "look", json!({})).await;
        assert_eq!((&seen["pids"], &seen["uid"], &seen["folder"]), (&json!([1, 2]), &json!(1000), &json!("/server")), "{seen}");
        assert_eq!((&seen["caps"], &seen["privileges"], &seen["seccomp"]), (&json!("0".repeat(64)), &json!("1"), &json!("2")), "{seen}");
        assert_eq!((&seen["interfaces"], &seen["descriptors"]), (&json!(["lo"]), &json!([0, 1, 2])), "{seen}");
        let known = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ", "USER"];
        for name in seen["environment"].as_object().unwrap().keys() {
            assert!(known.contains(&name.as_str()), "{name}");
        }

        let tried = theirs.say("probe", "escape", json!({})).await;
        let mut expected = json!({
            "unshare user": "EPERM", "unshare mounts": "EPERM", "mount": "EPERM", "remount": "EPERM", "unmount": "EPERM",
            "chroot": "EPERM", "ptrace": "EPERM", "another's descriptor": "EPERM", "vsock": "EPERM", "packet": "EPERM",
            "set-id file": "EPERM", "priority": "EPERM", "unshare in a child": true,
        });
        if tried["priority"] == "EACCES" {
            expected["priority"] = json!("EACCES");
        }
        assert_eq!(tried, expected);
        let processes = theirs.say("probe", "hoard", json!({})).await.as_u64().unwrap();
        assert!((400..=512).contains(&processes), "{processes}");
    }

    async fn nobody_answers_unless_the_operator_says_so(database: TestDatabase) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let name = format!("{}-socket", mark(&database));
        let _nameless = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let addresses = |server: &Server| {
            let own: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
            json!({ "addresses": [["127.0.0.1", port], ["127.0.0.1", own], [name, null]] })
        };
        let server = serve(&database, &[]);
        let theirs = Manager::of_another(&server, &database, "other").await;
        theirs.probe("probe", "closed").await;
        assert_eq!(theirs.say("probe", "connect", addresses(&server)).await, json!([]));
        let token = theirs.token.clone();
        drop(server);

        let server = serve(&database, &["--sandbox-network"]);
        let theirs = Manager { server: &server, org: "other", token, data: database.data().to_owned() };
        let reached = theirs.say("probe", "connect", addresses(&server)).await;
        let own: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
        // Sockets without files are for nobody inside.
        assert_eq!(reached, json!([["127.0.0.1", port], ["127.0.0.1", own]]));
    }

    async fn it_ends_whole_and_comes_back(database: TestDatabase) {
        let mut server = serve(&database, &[]);
        let mark = mark(&database);
        let theirs = Manager::of_another(&server, &database, "other").await;
        theirs.probe("probe", &mark).await;
        let hide = async || {
            let hidden = theirs.say("probe", "hide", json!({})).await.as_str().unwrap().to_owned();
            until_so("it is hidden", || processes_with(&hidden).len() == 1).await;
            hidden
        };
        // Killed: noticed at once, ended with what hid, and there again.
        let (hidden, first) = (hide().await, processes_with(&mark));
        assert_eq!(first.len(), 1);
        kill(first[0]);
        until_so("what hid is gone", || processes_with(&hidden).is_empty()).await;
        until_so("it is there again", || processes_with(&mark).len() == 1 && processes_with(&mark) != first).await;
        theirs.answers_again("probe").await;
        // The keeper is killed, and everything with it; both come back.
        let hidden = hide().await;
        let keeper = format!("guard-keeper\0{}", database.data().display());
        processes_with(&keeper).into_iter().for_each(|pid| { let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL); });
        until_so("what hid is gone", || processes_with(&hidden).is_empty()).await;
        theirs.answers_again("probe").await;
        // Turned off.
        let hidden = hide().await;
        theirs.ask(Method::PUT, "/mcp-servers/probe", json!({ "enabled": false })).await.expect(200);
        until_so("all is gone", || processes_with(&hidden).is_empty() && processes_with(&mark).is_empty()).await;
        theirs.ask(Method::PUT, "/mcp-servers/probe", json!({ "enabled": true })).await.expect(200);
        // The program ends in good order, and is killed.
        let hidden = hide().await;
        server.signal(rustix::process::Signal::TERM);
        let token = theirs.token.clone();
        assert!(server.wait().success());
        assert!(processes_with(&hidden).is_empty() && processes_with(&mark).is_empty());
        let server = serve(&database, &[]);
        let theirs = Manager { server: &server, org: "other", token, data: database.data().to_owned() };
        let hidden = theirs.say("probe", "hide", json!({})).await.as_str().unwrap().to_owned();
        drop(server);
        until_so("all is gone", || processes_with(&hidden).is_empty() && processes_with(&mark).is_empty()).await;
    }

    async fn a_person_may_want_it_for_a_server_of_their_own(database: TestDatabase) {
        let server = serve(&database, &[]);
        let mine = Manager::local(&server, database.data());
        let data = database.data().display().to_string();
        let sees = async || !mine.say("probe", "read", json!({ "paths": [data] })).await[&data].is_null();
        let shown = mine.probe("probe", "option").await;
        assert_eq!(shown["sandbox"], false, "{shown}");
        assert!(sees().await);
        for (sandbox, free) in [(true, false), (false, true), (true, false)] {
            let shown = mine.ask(Method::PUT, "/mcp-servers/probe", json!({ "sandbox": sandbox })).await.expect(200);
            assert_eq!((&shown["sandbox"], &shown["trusted"]), (&json!(sandbox), &json!(true)), "{shown}");
            assert_eq!(sees().await, free);
        }
        assert!(mine.home("probe").is_dir());
        // A new version of the toolset does not undo it.
        let servers = "mcp_servers:\n  - {id: probe, command: python3, args: [-I, -S, \"${KITBAG_TOOLSET_DIR}/server.py\", new], requires_confirmation: false}\n";
        let bytes = bundle("probe", "1.0.1", servers, &[("server.py", PROBE)]);
        crate::kit::import(&server, bytes).await;
        mine.ask(Method::POST, "/mcp-servers/probe/trust", json!({})).await.expect(200);
        assert!(!sees().await);
        // A person's own servers reach what that person reaches.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = json!(["127.0.0.1", listener.local_addr().unwrap().port()]);
        assert_eq!(mine.say("probe", "connect", json!({ "addresses": [address] })).await, json!([address]));
        // Two of one launch, of which one is confined, are two.
        let launch = crate::kit::twin(&["--linger"]);
        mine.add("free", launch.clone()).await;
        let fenced = mine.add("fenced", with(launch, json!({ "sandbox": true }))).await;
        assert_eq!(fenced["sandbox"], true, "{fenced}");
        mine.connected("free").await;
        // The twin is below the folder of the sources, which the sandbox does not show.
        let shown = mine.until("fenced", |shown| shown["status"] == "error").await;
        let renamed = mine.ask(Method::PUT, "/mcp-servers/fenced", json!({ "id": "renamed" })).await.expect(200);
        assert_eq!(renamed["sandbox"], true, "{renamed}");
        assert_eq!(mine.ask(Method::GET, "/mcp-servers/free", json!({})).await.expect(200)["status"], "connected", "{shown}");
    }

    async fn what_the_sandbox_does_not_show_is_said(database: TestDatabase) {
        let server = serve(&database, &[]);
        let theirs = Manager::of_another(&server, &database, "other").await;
        let program = tempfile::NamedTempFile::new().unwrap();
        for (id, launch, words) in [
            ("hidden", json!({ "command": program.path() }), "--sandbox-programs"),
            ("missing", json!({ "command": "no-such-program-here" }), "`no-such-program-here` is not there"),
            ("folder", json!({ "command": "cat", "cwd": "/root/nowhere" }), "the folder `/root/nowhere` is not there"),
        ] {
            theirs.add(id, launch).await;
            let shown = theirs.until(id, |shown| shown["status"] == "error").await;
            let error = shown["error"].as_str().unwrap();
            assert!(error.contains("in the sandbox alone") && error.contains(words), "{error}");
        }
    }
}

#[test]
fn the_command_line_says_so_and_shows_nothing_of_the_data_folder() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let added = program.run(&["--json", "mcp", "add", "own", "--sandbox", "--", "cat"]).json();
    assert_eq!(added["sandbox"], true, "{added}");
    let shown = program.run(&["mcp", "show", "own"]);
    assert!(shown.stdout.contains("in the sandbox"), "{shown:?}");
    let inside = database.data().join("servers");
    fs::create_dir_all(&inside).unwrap();
    for folder in [
        database.data(),
        &inside,
        Path::new("/"),
        Path::new("/no/such/folder"),
        Path::new("relative"),
        Path::new("/dev"),
    ] {
        let refused =
            program.run(&["serve", "--listen", "127.0.0.1:0", "--sandbox-programs", folder.to_str().unwrap()]);
        assert_eq!(refused.code, Some(2), "{}: {refused:?}", folder.display());
        assert!(refused.stderr.contains("sandbox-programs"), "{refused:?}");
    }
}

/// Whoever runs the program, root or not, there is a sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_user_has_it_too() {
    const ORDINARY: u32 = 47_110;
    let database = TestDatabase::sqlite();
    let mut program = Program::on(BINARY, &database).env("HOME", database.data().to_str().unwrap());
    if rustix::process::getuid().is_root() {
        chown(database.data(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        // The program may lie where others may not look; whoever has it open may start it.
        let script = format!(
            "exec 9<\"$0\" && exec setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups /proc/self/fd/9 \"$@\""
        );
        program = program.at(Path::new("/")).inside(&["sh", "-c", &script]);
    }
    let server = Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    let mine = Manager::local(&server, database.data());
    mine.install("probe", "ordinary").await;
    mine.ask(Method::PUT, "/mcp-servers/probe", json!({ "sandbox": true })).await.expect(200);
    let data = database.data().display().to_string();
    let found = mine.say("probe", "read", json!({ "paths": [data, "/toolset"] })).await;
    assert_eq!(found, json!({ data: null, "/toolset": ["server.py", "toolset.yaml"] }));
    assert_eq!(mine.say("probe", "write", json!({ "paths": ["/server/a", "/toolset/a"] })).await, json!(["/server/a"]));
    assert!(mine.home("probe").join("a").exists());
    let seen = mine.say("probe", "look", json!({})).await;
    assert_eq!(
        (&seen["pids"], &seen["uid"], &seen["caps"]),
        (&json!([1, 2]), &json!(1000), &json!("0".repeat(64))),
        "{seen}"
    );
    let hidden = mine.say("probe", "hide", json!({})).await.as_str().unwrap().to_owned();
    until_so("it is hidden", || processes_with(&hidden).len() == 1).await;
    mine.ask(Method::PUT, "/mcp-servers/probe", json!({ "enabled": false })).await.expect(200);
    until_so("all is gone", || processes_with(&hidden).is_empty()).await;
}

/// Where there are no namespaces nothing starts, unless the operator says that walls will do.
#[tokio::test(flavor = "multi_thread")]
async fn without_namespaces_it_does_not_start_or_has_walls() {
    let database = TestDatabase::sqlite();
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let program = Program::on(BINARY, &database)
        // Without a root of its own it finds interpreters that it cannot read.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .inside(&["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
    let server = Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    let mine = Manager::local(&server, database.data());
    mine.install("probe", "nowhere").await;
    mine.ask(Method::PUT, "/mcp-servers/probe", json!({ "sandbox": true })).await.expect(200);
    // It may have told its tools before it was to be in the sandbox, and then waits to be used.
    mine.ask(Method::POST, "/mcp-servers/probe/reconnect", json!({})).await.expect(200);
    let shown = mine.until("probe", |shown| shown["status"] == "error").await;
    let error = shown["error"].as_str().unwrap();
    assert!(error.contains("user namespaces") && error.contains("kitbag doctor"), "{error}");
    drop(server);

    let args = ["serve", "--listen", "127.0.0.1:0", "--sandbox", "relaxed"];
    let server = Server::start_program(&program, database.data(), &args);
    let mine = Manager::local(&server, database.data());
    // Its tools are known, so it starts when it is called.
    let home = mine.home("probe").display().to_string();
    let kept = format!("{home}/a");
    let data = database.data().display().to_string();
    let hidden = [
        data.clone(),
        format!("{data}/kitbag.db"),
        "/etc/shadow".to_owned(),
        "/root".to_owned(),
        "/proc/1/environ".to_owned(),
    ];
    let found = mine.say("probe", "read", json!({ "paths": hidden })).await;
    assert!(found.as_object().unwrap().values().all(Value::is_null), "{found}");
    let written = mine.say("probe", "write", json!({ "paths": [kept, format!("{data}/a"), "/tmp/a"] })).await;
    assert_eq!(written, json!([kept]));
    let environment = mine.say("probe", "read", json!({ "paths": [home] })).await;
    assert_eq!(environment[&home], json!(["a"]));

    // Walls are for whoever took that risk: others run nothing.
    let theirs = Manager::of_another(&server, &database, "other").await;
    theirs.install("probe", "theirs-without-walls").await;
    let _ = theirs.ask(Method::POST, "/mcp-servers/probe/reconnect", json!({})).await;
    let shown = theirs.until("probe", |shown| shown["status"] == "error").await;
    assert!(shown["error"].as_str().unwrap().contains("user namespaces"), "{shown}");
    assert!(processes_with("theirs-without-walls").is_empty());
}
