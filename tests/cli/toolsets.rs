//! Toolsets on the command line, with and without a server.

use std::path::Path;

use kitbag_testkit::{Program, Server, TestDatabase, on_both};
use serde_json::{Value, json};

use crate::{BINARY, assert_failed};

/// A folder with a toolset.
fn folder(at: &Path, manifest: &str) -> String {
    std::fs::create_dir_all(at.join("tools")).unwrap();
    std::fs::write(at.join("toolset.yaml"), manifest).unwrap();
    std::fs::write(at.join("tools/t.py"), "def f(workspace): pass\n").unwrap();
    at.to_str().unwrap().to_owned()
}

fn manifest(version: &str, more: &str) -> String {
    format!("id: app\nname: App\nversion: '{version}'\n{more}")
}

/// What a person does with toolsets.
fn use_toolsets(program: &Program) {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| program.run(args);
    let json = |args: &[&str]| program.run(&[&["--json"], args].concat()).json();
    assert!(run(&["toolset", "list"]).stdout.contains("kitbag toolset new"));
    let source = folder(
        &home.path().join("app"),
        &manifest(
            "1.0.0",
            "tools: [{id: a, entrypoint: 't:f'}]\nmcp_servers: [{id: srv, command: nopx, args: [it's]}]\n",
        ),
    );

    let valid = run(&["toolset", "validate", &source]);
    assert!(
        valid.code == Some(0)
            && valid.stdout.contains("would install app 1.0.0")
            && valid.stdout.contains("Nothing is wrong"),
        "{valid:?}"
    );
    assert_eq!(json(&["toolset", "list"]), json!({ "items": [] }), "validating installs nothing");
    let done = run(&["toolset", "import", &source]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for word in ["installed app 1.0.0", "1 tools, 2 files", "+ tool a", "nopx 'it'\\''s'", "only once it is trusted"] {
        assert!(done.stdout.contains(word), "{word:?} is not in {done:?}");
    }
    let shown = json(&["toolset", "show", "app"]);
    assert_eq!(
        (&shown["sourceType"], &shown["sourceRef"]),
        (&json!("local"), &json!(home.path().join("app").canonicalize().unwrap()))
    );
    assert_eq!(shown["mcpServers"][0]["trusted"], false);
    assert!(run(&["toolset", "show", "app"]).stdout.contains("not trusted"));
    assert_eq!(json(&["mcp", "trust", "srv"])["trusted"], true);

    // The difference is shown before it is installed.
    folder(
        &home.path().join("app"),
        &manifest(
            "1.1.0",
            "tools: [{id: b, entrypoint: 't:f'}]\nmcp_servers: [{id: srv, command: nopx, args: [other]}]\n",
        ),
    );
    let dry = run(&["toolset", "update", "app", "--dry-run"]);
    for word in ["would change app from 1.0.0 to 1.1.0 (upgrade)", "+ tool b", "- tool a", "~ server srv", "nopx other"]
    {
        assert!(dry.code == Some(0) && dry.stderr.contains(word), "{word:?} is not in {dry:?}");
    }
    assert_eq!(json(&["toolset", "show", "app"])["version"], "1.0.0");
    let updated = run(&["toolset", "update", "app"]);
    assert!(
        updated.stderr.contains("- tool a") && updated.stdout.contains("changed app from 1.0.0 to 1.1.0 (upgrade)"),
        "{updated:?}"
    );
    assert_eq!(json(&["toolset", "show", "app"])["mcpServers"][0]["trusted"], false, "what it runs has changed");
    folder(&home.path().join("app"), &manifest("1.0.0", ""));
    assert_failed(&run(&["toolset", "update", "app"]), 1, "older version 1.0.0");
    assert_eq!(json(&["toolset", "update", "app", "--force"])["change"], "downgrade");
    folder(&home.path().join("app"), "id: other\nname: x\nversion: '9.0.0'\n");
    assert_failed(&run(&["toolset", "update", "app"]), 2, "other");
    assert_eq!(json(&["toolset", "list"])["items"].as_array().unwrap().len(), 1);
    std::fs::remove_dir_all(home.path().join("app")).unwrap();
    assert_failed(&run(&["toolset", "update", "app"]), 2, "app");

    assert_eq!(json(&["toolset", "override", "app", "x", "--name", "Mine", "--enabled", "false"])["key"], "app:x");
    assert!(run(&["toolset", "overrides", "app"]).stdout.contains("nameOverride=\"Mine\""));
    assert_failed(&run(&["toolset", "override", "app", "x", "--renderer", "hologram"]), 2, "allowed: code");
    assert_eq!(json(&["toolset", "override", "app", "x", "--clear"]), json!({ "cleared": "x" }));
    assert_eq!(json(&["toolset", "disable", "app"])["enabled"], false);
    assert_eq!(json(&["toolset", "enable", "app"])["enabled"], true);

    let zip = home.path().join("out.zip");
    let saved = json(&["toolset", "export", "app", "--output", zip.to_str().unwrap()]);
    assert_eq!(saved["size"], std::fs::metadata(&zip).unwrap().len());
    assert_eq!(json(&["toolset", "uninstall", "app"]), json!({ "uninstalled": "app" }));
    assert_eq!(json(&["toolset", "import", zip.to_str().unwrap()])["change"], "install");
    for args in [
        ["toolset", "show", "nope"],
        ["toolset", "uninstall", "nope"],
        ["toolset", "export", "nope"],
        ["toolset", "update", "nope"],
        ["toolset", "enable", "nope"],
    ] {
        assert_failed(&run(&args), 1, "nope");
    }
    assert_failed(&run(&["toolset", "import", "/nonexistent"]), 2, "/nonexistent");
    std::fs::write(&zip, "no archive").unwrap();
    assert_failed(&run(&["toolset", "import", zip.to_str().unwrap()]), 2, "not a ZIP");
    assert_eq!(json(&["toolset", "list"])["items"].as_array().unwrap().len(), 1);
}

on_both! {
    async fn toolsets_without_a_server(database: TestDatabase) {
        use_toolsets(&Program::on(BINARY, &database));
    }

    async fn toolsets_with_a_server(database: TestDatabase) {
        let _server = Server::start(BINARY, &database, &[]);
        use_toolsets(&Program::on(BINARY, &database));
    }
}

#[test]
fn everything_that_is_wrong_is_shown_where_it_is() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let home = tempfile::tempdir().unwrap();
    let source = folder(
        &home.path().join("app"),
        "id: app\nname: App\nversion: 1.0\ntools:\n  - id: a\n    entry_point: t:f\nmcp_servers:\n  - id: s\n    command: x\n    env: {A: hunter2, A: x}\n",
    );
    let refused = program.run(&["toolset", "validate", &source]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    for shown in [
        "toolset.yaml:3:10: version must be a text",
        "  3 | version: 1.0\n    |          ^",
        "toolset.yaml:6:5: tools[0] has no key \"entry_point\"; did you mean \"entrypoint\"?",
        "  6 |     entry_point: t:f\n    |     ^",
        "toolset.yaml:10:",
    ] {
        assert!(refused.stderr.contains(shown), "{shown:?} is not in\n{}", refused.stderr);
    }
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    let machine = program.run(&["--json", "toolset", "validate", &source]);
    assert_eq!(machine.code, Some(2), "{machine:?}");
    let answer: Value = serde_json::from_str(&machine.stdout).unwrap();
    assert_eq!(answer["code"], "INVALID_MANIFEST");
    let lines: Vec<u64> =
        answer["details"]["problems"].as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 5, 6, 10], "{answer}");
    // A link in a folder is refused, not followed.
    let linked = folder(&home.path().join("linked"), &manifest("1.0.0", ""));
    std::os::unix::fs::symlink("/etc/passwd", Path::new(&linked).join("passwd")).unwrap();
    assert_failed(&program.run(&["toolset", "import", &linked]), 2, "passwd is a link");
    assert_eq!(program.run(&["--json", "toolset", "list"]).json(), json!({ "items": [] }));
}

/// Whatever people call their toolset, what is made from it has nothing to complain about.
#[test]
fn a_scaffold_of_any_name_is_valid() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    let home = tempfile::tempdir().unwrap();
    let long = "x".repeat(64);
    let names =
        ["2048", "true", "null", "My \"Tools\": a # test", "a__b", "a-_b_", "1e3", "Ünï côde", "x {{id}}", &long];
    for (number, name) in names.into_iter().enumerate() {
        let at = home.path().join(number.to_string());
        let made = program.run(&["--json", "toolset", "new", name, "--folder", at.to_str().unwrap()]).json();
        let report = program.run(&["--json", "toolset", "validate", at.to_str().unwrap()]).json();
        assert_eq!((&report["id"], &report["name"]), (&made["id"], &json!(name)));
        assert_eq!(report["warnings"], json!([]), "{name}");
        assert_eq!(report["agentSkills"]["added"].as_array().unwrap().len(), 1, "{name}");
    }
    for (name, word) in
        [("mcp", "reserved"), ("", "cannot be the name"), ("***", "cannot be the name"), ("__x", "cannot be the name")]
    {
        let at = home.path().join("refused");
        assert_failed(&program.run(&["toolset", "new", name, "--folder", at.to_str().unwrap()]), 2, word);
        assert!(!at.exists());
    }
    let taken = home.path().join("0");
    assert_failed(&program.run(&["toolset", "new", "x", "--folder", taken.to_str().unwrap()]), 2, "not empty");
}

/// What would run in containers is told before anybody trusts it, and trusting says what was told.
#[tokio::test(flavor = "multi_thread")]
async fn containers_are_shown_as_they_would_run() {
    let (database, home) = (TestDatabase::sqlite(), tempfile::tempdir().unwrap());
    let server = Server::start(BINARY, &database, &["--containers", "off"]);
    let program = Program::on(BINARY, &database);
    let containers = "containers:
  - id: draw
    image: registry.example/draw:1
    command: [/bin/draw]
    env: {DRAW_KEY: '${DRAW_KEY}'}
    permissions: {network: true}
    limits: {memory: 256m, cpus: 0.5, pids: 64, seconds: 60}
    tools: [{id: circle, command: [/bin/draw, circle], input_schema: {type: object}}]
";
    let source = folder(&home.path().join("app"), &manifest("1.0.0", containers));
    let said = [
        "registry.example/draw:1",
        "starts /bin/draw\n",
        "circle starts /bin/draw circle",
        "DRAW_KEY",
        "reaches the network",
        "256 MiB of memory, 0.5 processors, 64 processes, 60 seconds",
    ];
    let told = program.run(&["toolset", "import", &source]);
    let shown = program.run(&["toolset", "show", "app"]);
    for word in said {
        assert!(told.stdout.contains(word), "{word:?} is not in {told:?}");
        assert!(shown.stdout.contains(word), "{word:?} is not in {shown:?}");
    }
    let trusted = program.run(&["--json", "toolset", "trust", "app"]).json();
    assert_eq!(trusted["containers"][0]["trusted"], true, "{trusted}");
    drop(server);
}
