//! The command line from outside.
#![allow(clippy::unwrap_used, missing_docs)]

mod calls;
mod config;
mod gallery;
mod mcp;
mod resolve;
mod runs;
mod toolsets;

use std::path::Path;

use kitbag_testkit::cluster::{APP, Cluster, OWNER};
use kitbag_testkit::{Finished, Program, Server, TestDatabase, on_both};
use rustix::process::Signal;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

#[track_caller]
fn assert_failed(finished: &Finished, code: i32, word: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(finished.stderr.contains(word), "{word:?} is not in {finished:?}");
}

/// What a person does with chats, with or without a server.
fn use_chats(program: &Program) {
    let chat = program.run(&["--json", "chat", "new", "--title", "Notes", "--tool", "toolset:app"]).json();
    let id = chat["id"].as_str().unwrap();
    assert_eq!((&chat["title"], &chat["toolSelectors"]), (&json!("Notes"), &json!(["toolset:app"])));
    let first = program.run(&["--json", "chat", "say", id, "hello"]).json();
    let answer = program.run(&["chat", "say", id, "hi", "--role", "assistant"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let branch = program
        .run(&["--json", "chat", "say", id, "again\u{1b}[31m", "--parent", first["id"].as_str().unwrap()])
        .json();
    let shown = program.run(&["--json", "chat", "show", id]).json();
    assert_eq!(shown["chat"]["activeLeafMessageId"], branch["id"]);
    assert_eq!(shown["messages"].as_array().unwrap().len(), 3);
    let text = program.run(&["chat", "show", id]).stdout;
    assert!(text.contains("Notes") && text.contains("hello") && !text.contains('\u{1b}'), "{text:?}");
    let marked = text.lines().filter(|line| line.starts_with('*')).count();
    assert_eq!(marked, 2, "the way to where the chat stands has two messages\n{text}");

    let list = program.run(&["chat", "list"]);
    assert!(list.stdout.starts_with("CHAT ") && list.stdout.contains(id), "{list:?}");
    assert_eq!(program.run(&["--json", "chat", "list", "--limit", "0"]).json(), json!({ "items": [] }));
    assert_failed(&program.run(&["chat", "show", "nope"]), 1, "nope");
    assert_failed(&program.run(&["chat", "show", "../tokens"]), 1, "../tokens");
    assert_failed(&program.run(&["chat", "new", "--title", ""]), 2, "title");
    assert_failed(&program.run(&["chat", "say", id, "x", "--role", "system"]), 2, "role");
    assert_failed(&program.run(&["chat", "say", id, "x", "--parent", "nope"]), 2, "parentId");
    let failed = program.run(&["--json", "chat", "show", "nope"]);
    assert_eq!(serde_json::from_str::<Value>(&failed.stdout).unwrap()["code"], "NOT_FOUND", "{failed:?}");

    assert_eq!(program.run(&["--json", "chat", "delete", id]).json(), json!({ "deleted": id }));
    assert_failed(&program.run(&["chat", "delete", id]), 1, id);
}

/// What a person does with files.
fn use_workspace(program: &Program, data: &std::path::Path) {
    let chat = program.run(&["--json", "chat", "new"]).json()["id"].as_str().unwrap().to_owned();
    let run = |args: &[&str]| program.run(&[&["workspace", "--chat", &chat], args].concat());
    let json = |args: &[&str]| program.run(&[&["--json", "workspace", "--chat", &chat], args].concat()).json();
    assert!(run(&["ls"]).stdout.starts_with("There are no files yet"));
    let source = data.join("source.txt");
    std::fs::write(&source, "one\ntwo\n").unwrap();
    let written = json(&["put", "notes/a b.txt", source.to_str().unwrap()]);
    let first = written["manifestId"].as_str().unwrap().to_owned();
    assert_eq!(run(&["cat", "notes/a b.txt"]).stdout, "one\ntwo\n");
    std::fs::write(data.join("chats").join(&chat).join("workspace/notes/a b.txt"), "one\n2\n").unwrap();
    let second = run(&["snapshot"]).stdout.trim().to_owned();
    let diff = run(&["diff", &first, &second]).stdout;
    assert!(diff.contains("-two\n+2"), "{diff}");
    assert!(run(&["ls"]).stdout.contains("100644  6     notes/a b.txt"), "{:?}", run(&["ls"]));
    assert_eq!(run(&["checkout", &first]).code, Some(0));
    assert_eq!(run(&["cat", "notes/a b.txt"]).stdout, "one\ntwo\n");
    assert_eq!(run(&["cat", "notes/a b.txt", "--manifest", &second]).stdout, "one\n2\n");
    assert_eq!(json(&["log"])["items"].as_array().unwrap().len(), 3);
    assert!(run(&["log", "--limit", "1"]).stdout.contains("edit"));
    assert_eq!(run(&["mv", "notes/a b.txt", "c/d"]).code, Some(0));
    assert_failed(&run(&["mv", "notes/a b.txt", "x"]), 1, "notes/a b.txt");
    assert_eq!(run(&["restore", "notes/a b.txt", "--manifest", &second]).code, Some(0));
    assert_eq!(
        (run(&["cat", "notes/a b.txt"]).stdout.as_str(), run(&["cat", "c/d"]).stdout.as_str()),
        ("one\n2\n", "one\ntwo\n")
    );
    assert!(run(&["fsck"]).stdout.ends_with("Everything is whole.\n"));
    assert_eq!(json(&["gc", "--grace", "0"]), json!({ "nodes": 0, "blobs": 0, "bytes": 0 }));
    assert_eq!(run(&["rm", "notes/a b.txt"]).code, Some(0));
    assert_failed(&run(&["cat", "notes/a b.txt"]), 1, "notes/a b.txt");
    assert_failed(&run(&["rm", "nope"]), 1, "nope");
    assert_failed(&run(&["put", "../evil", source.to_str().unwrap()]), 2, "../evil");
    assert_failed(&run(&["put", "x", "/nonexistent"]), 2, "/nonexistent");
    assert_failed(&run(&["checkout", "nope"]), 1, "nope");
    assert_failed(&program.run(&["workspace", "ls"]), 2, "--chat");
}

on_both! {
    async fn workspaces_without_a_server(database: TestDatabase) {
        use_workspace(&Program::on(BINARY, &database), database.data());
    }

    async fn workspaces_with_a_server(database: TestDatabase) {
        let _server = Server::start(BINARY, &database, &[]);
        use_workspace(&Program::on(BINARY, &database), database.data());
    }

    async fn chats_without_a_server(database: TestDatabase) {
        use_chats(&Program::on(BINARY, &database));
    }

    async fn chats_with_a_server(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &[]);
        use_chats(&Program::on(BINARY, &database));
        let asked = server.log().lines().filter(|line| line.contains("\"answered\"")).count();
        assert!(asked > 10, "the commands did not go to the server:\n{}", server.log());
    }

    async fn tokens(database: TestDatabase) {
        let program = Program::on(BINARY, &database);
        let made = program.run(&["admin", "token", "new", "--name", "agent", "--scope", "use"]);
        assert_eq!(made.code, Some(0), "{made:?}");
        let listed = program.run(&["--json", "admin", "token", "list"]).json();
        let id = listed["items"][0]["id"].as_str().unwrap();
        let mut server = Server::start(BINARY, &database, &[]);
        server.token = made.stdout.trim().to_owned();
        server.get("/v1/orgs/local/chats").await.expect(200);
        server.get("/v1/orgs/local/tokens").await.expect_error(403, "FORBIDDEN");
        assert_eq!(program.run(&["admin", "token", "revoke", id]).code, Some(0));
        server.get("/v1/orgs/local/chats").await.expect_error(401, "UNAUTHORIZED");
        assert_failed(&program.run(&["admin", "token", "revoke", id]), 1, id);
        assert_failed(&program.run(&["admin", "token", "new", "--name", "x", "--scope", "all"]), 2, "scopes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_makes_a_database_that_can_be_served() {
    let cluster = Cluster::get().await;
    let name = cluster.empty_database().await;
    let data = tempfile::tempdir().unwrap();
    let program = Program::new(BINARY, data.path());
    let (owner, app) = (cluster.url(OWNER, &name), cluster.url(APP, &name));
    let refused = program.run(&["serve", "--listen", "127.0.0.1:0", "--database", app.expose()]);
    assert_failed(&refused, 2, "kitbag admin migrate");
    let done = program.run(&["--json", "admin", "migrate", "--database", owner.expose()]).json();
    assert_eq!((&done["from"], &done["madeRole"]), (&json!(0), &json!(false)));
    let again = program.run(&["admin", "migrate", "--database", owner.expose()]);
    assert!(again.stdout.contains("up to date"), "{again:?}");
    let server =
        Server::start_program(&program, data.path(), &["serve", "--listen", "127.0.0.1:0", "--database", app.expose()]);
    server.get("/readyz").await.expect(200);
    assert_failed(&program.run(&["admin", "migrate", "--database", "mysql://u:hunter2@h/d"]), 2, "postgres://");
    let refused = program.run(&["admin", "migrate", "--database", owner.expose(), "--app-role", "nobody_made_this"]);
    assert_failed(&refused, 2, "CREATE ROLE");
}

#[test]
fn the_doctor_looks_at_everything() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let report = program.run(&["--json", "doctor"]).json();
    let names: Vec<_> =
        report["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "data folder",
            "disk",
            "database",
            "python",
            "uv",
            "containers",
            "namespaces",
            "own user",
            "control group",
            "landlock",
            "seccomp"
        ]
    );
    for check in report["checks"].as_array().unwrap() {
        assert_eq!(check["status"] == "ok", check["advice"] == "", "{check}");
        assert_ne!(check["found"], "", "{check}");
    }
    // Without programs to find, it says so and what to do, and does not fail: Kitbag itself runs.
    let bare = program.clone().env("PATH", "/nowhere").run(&["doctor"]);
    assert_eq!(bare.code, Some(0), "{bare:?}");
    assert!(bare.stdout.contains("pip install uv"), "{bare:?}");
    // Where namespaces are not to be had, it says why, and how to do without.
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let confined = program.clone().inside(&["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
    let confined = confined.run(&["doctor"]);
    assert_eq!(confined.code, Some(0), "{confined:?}");
    for word in ["user namespaces: ", "not without namespaces", "kernel.unprivileged_userns_clone", "--sandbox relaxed"]
    {
        assert!(confined.stdout.contains(word), "{word:?} is not in {confined:?}");
    }
    // Without a database it does fail.
    std::fs::write(database.data().join("kitbag.db"), "no database ".repeat(100)).unwrap();
    let broken = program.run(&["doctor"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    assert!(broken.stdout.contains("kitbag.db"), "{broken:?}");
}

#[test]
fn the_doctor_asks_the_running_server() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &[]);
    let report = Program::on(BINARY, &database).run(&["doctor"]);
    assert!(report.stdout.contains(&server.url), "{report:?}");
    server.signal(Signal::TERM);
}

#[test]
fn help_version_and_completions() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let help = program.run(&["--help"]).stdout;
    for command in [
        "serve",
        "chat",
        "workspace",
        "toolset",
        "tool",
        "mcp",
        "admin",
        "doctor",
        "completions",
        "run",
        "runs",
        "executor",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    let version = program.run(&["--version"]).stdout;
    let commit = version.trim().strip_prefix("kitbag 0.1.0 (").and_then(|rest| rest.strip_suffix(')'));
    assert!(commit.is_some_and(|commit| commit == "unknown" || commit.len() == 12), "{version}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(program.run(&["completions", shell]).stdout.contains("kitbag"), "{shell}");
    }
    assert_failed(&program.run(&["chta"]), 2, "chat");
    assert_failed(&program.run(&["run"]), 2, "PROMPT");
    assert_failed(&program.run(&[]), 2, "Usage");
    // A reader that stops early is no error.
    assert_eq!(program.run(&["serve", "--help"]).code, Some(0));
}

#[test]
fn a_data_folder_that_cannot_be() {
    let database = TestDatabase::sqlite();
    let file = database.data().join("file");
    std::fs::write(&file, "").unwrap();
    let finished = Program::new(BINARY, &file).run(&["chat", "list"]);
    assert_failed(&finished, 2, file.to_str().unwrap());
}

/// The page's types, and whoever reads the repository, go by the file.
#[test]
fn the_document_of_the_api_is_kept() {
    let printed = Program::new(BINARY, Path::new("unused")).run(&["openapi"]);
    let kept = include_str!("../../docs/openapi.json");
    assert!(printed.stdout == kept, "docs/openapi.json is not what the API is: write it anew with `make api`");
}
