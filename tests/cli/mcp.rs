//! MCP servers on the command line, with and without a server.

use std::path::Path;

use kitbag_model::{McpToolName, OrgId, Pinned, ServerKey};
use kitbag_testkit::{Program, Server, TestDatabase, on_both};
use serde_json::{Value, json};

use crate::{BINARY, assert_failed};

/// What a person does with servers.
fn use_servers(program: &Program) {
    let run = |args: &[&str]| program.run(&[&["mcp"], args].concat());
    let json = |args: &[&str]| program.run(&[&["--json", "mcp"], args].concat()).json();
    assert!(run(&["list"]).stdout.contains("kitbag mcp add"));
    let added = run(&[
        "add",
        "My Files",
        "--env",
        "MODE=fast",
        "--env",
        "TOKEN",
        "--cwd",
        "/tmp",
        "--",
        "nopx",
        "-y",
        "it's",
        "--env",
    ]);
    assert!(
        added.code == Some(0) && added.stdout.contains("added my-files~my-files:\n  nopx -y 'it'\\''s' --env"),
        "{added:?}"
    );
    let shown = json(&["show", "my-files"]);
    assert_eq!(
        (&shown["envNames"], &shown["cwd"], &shown["trusted"], &shown["args"]),
        (&json!(["MODE", "TOKEN"]), &json!("/tmp"), &json!(true), &json!(["-y", "it's", "--env"]))
    );
    let text = run(&["show", "my-files"]).stdout;
    for word in ["my-files~my-files  stdio", "in /tmp", "variables: MODE, TOKEN", "asked before each call"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    // Where no server runs nobody has tried to connect it.
    assert!(text.contains("disconnected") || text.contains("MCP_ENV_NOT_SET:TOKEN"), "{text}");
    let web = json(&[
        "add",
        "web",
        "--url",
        "https://a.example/sse",
        "--transport",
        "sse",
        "--header",
        "X-A: hunter2",
        "--header",
        "X-B=b",
        "--disabled",
        "--confirm",
        "false",
    ]);
    assert_eq!(
        (&web["id"], &web["serverType"], &web["headerNames"], &web["enabled"], &web["requiresConfirmation"]),
        (&json!("web~web"), &json!("sse"), &json!(["X-A", "X-B"]), &json!(false), &json!(false))
    );
    assert!(!web.to_string().contains("hunter2"));
    let strict = json(&["add", "web", "--url", "https://b.example", "--strict-records"]);
    assert_eq!((&strict["id"], &strict["strictRecords"]), (&json!("web-1~web-1"), &json!(true)));
    assert_eq!(web["strictRecords"], false);
    assert!(run(&["show", "web-1"]).stdout.contains("recorded before it runs"));
    let list = run(&["list"]).stdout;
    assert!(list.contains("web~web") && list.contains("off") && list.contains("nopx -y 'it'\\''s'"), "{list}");

    assert_eq!(json(&["enable", "web"])["enabled"], true);
    assert_eq!(json(&["disable", "web"])["enabled"], false);
    assert_eq!(json(&["policy", "web", "quarantine"])["pinPolicy"], "quarantine");
    assert_eq!(json(&["policy", "web", "default"])["pinPolicy"], "accept");
    assert_eq!(json(&["rename", "web", "net"])["id"], "net~net");
    assert_failed(&run(&["show", "web"]), 1, "web");
    assert_failed(&run(&["rename", "net", "web-1"]), 1, "taken");
    assert_failed(&run(&["reconnect", "net"]), 1, "turned off");
    assert_eq!(json(&["accept", "net"]), json!({ "accepted": [] }));
    assert_eq!(json(&["remove", "net"]), json!({ "removed": "net" }));
    assert_failed(&run(&["remove", "net"]), 1, "net");

    for (args, word) in [
        (&["add", "x"][..], "--url"),
        (&["add", "x", "--url", "https://a", "--", "nopx"], "--url"),
        (&["add", "x", "--url", "ftp://a"], "http://"),
        (&["add", "x", "--url", "https://a.example", "--header", "hunter2"], "NAME=VALUE"),
        (&["add", "x", "--env", "A=1", "--env", "A=2", "--", "y"], "twice"),
        (&["add", "x", "--transport", "sse", "--", "y"], "sse"),
    ] {
        let failed = run(args);
        assert_failed(&failed, 2, word);
        assert!(!failed.stderr.contains("hunter2"), "{failed:?}");
    }
    assert_eq!(json(&["list"])["items"].as_array().unwrap().len(), 2);
}

fn write(at: &Path, text: &str) {
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, text).unwrap();
}

/// A home with the files of several programs, and a project.
fn furnish(home: &Path) {
    write(
        &home.join(".config/Claude/claude_desktop_config.json"),
        r#"{"mcpServers": {"fs": {"command": "nopx", "args": ["-y", "fs"]}, "broken": {"args": []}}}"#,
    );
    write(
        &home.join(".claude.json"),
        r#"{"mcpServers": {"hub": {"command": "hub", "env": {"HUB_TOKEN": "hunter2", "MODE": "fast"}}},
            "projects": {"/somewhere/p": {"mcpServers": {"proj": {"command": "./run.sh"}}}}}"#,
    );
    write(
        &home.join(".cursor/mcp.json"),
        r#"{"mcpServers": {"fs": {"command": "nopx", "args": ["-y", "fs"]}, "both": {"command": "a"}}}"#,
    );
    write(
        &home.join(".codex/config.toml"),
        "[mcp_servers.web]\nurl = \"https://w.example/mcp\"\nbearer_token_env_var = \"T\"\n[mcp_servers.both]\ncommand = \"b\"\n",
    );
    write(&home.join(".gemini/settings.json"), "this is not JSON: hunter2");
    write(&home.join("project/.mcp.json"), r#"{"mcpServers": {"local": {"command": "./here"}}}"#);
}

fn import_servers(program: &Program) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    furnish(&home);
    let program =
        program.clone().env("HOME", home.to_str().unwrap()).env("XDG_CONFIG_HOME", "").at(&home.join("project"));
    let run = |args: &[&str]| program.run(&[&["mcp", "import"], args].concat());
    let json = |args: &[&str]| program.run(&[&["--json", "mcp", "import"], args].concat()).json();
    let found = json(&[]);
    let items = found["items"].as_array().unwrap();
    let names: Vec<(&str, &str, bool)> = items
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["program"].as_str().unwrap(), one["known"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        names,
        [
            ("fs", "claude-desktop", false),
            ("broken", "claude-desktop", false),
            ("hub", "claude-code", false),
            ("proj", "claude-code", false),
            ("fs", "cursor", true),
            ("both", "cursor", false),
            ("both", "codex", false),
            ("web", "codex", false),
            ("local", "claude-code", false),
        ]
    );
    assert_eq!(items[2]["writtenOut"], json!(["env.HUB_TOKEN"]));
    let told = run(&[]);
    assert!(
        told.code == Some(0) && told.stdout.contains("Claude Desktop") && told.stdout.contains("nopx -y fs"),
        "{told:?}"
    );
    assert!(
        told.stderr.contains(".gemini/settings.json") && !format!("{told:?}{found}").contains("hunter2"),
        "{told:?}"
    );
    assert_eq!(program.run(&["--json", "mcp", "list"]).json()["items"], json!([]), "looking takes nothing");

    assert_failed(&run(&["nobody"]), 1, "nobody");
    assert_failed(&run(&["broken"]), 2, "command");
    assert_failed(&run(&["both"]), 2, "--from");
    assert_failed(&run(&["--from", "nonsense"]), 2, "claude-desktop");
    assert_failed(&run(&["--from", home.join(".gemini/settings.json").to_str().unwrap()]), 2, "not JSON");
    let hub = json(&["hub", "--yes"]);
    assert_eq!(
        (&hub["added"][0]["id"], &hub["added"][0]["envNames"]),
        (&json!("hub~hub"), &json!(["HUB_TOKEN", "MODE"]))
    );
    assert!(hub["notes"][0].as_str().unwrap().contains("set the variable HUB_TOKEN"), "{hub}");
    assert_eq!(json(&["hub", "--yes"])["added"], json!([]), "it is there already");
    assert_eq!(json(&["both", "--from", "codex"])["added"][0]["commandLine"], "b");
    let all = json(&["--all", "--yes"]);
    let added: Vec<(&str, &Value)> =
        all["added"].as_array().unwrap().iter().map(|one| (one["id"].as_str().unwrap(), &one["cwd"])).collect();
    assert_eq!(
        added,
        [
            ("fs~fs", &Value::Null),
            ("proj~proj", &json!("/somewhere/p")),
            ("both-1~both-1", &Value::Null),
            ("web~web", &Value::Null),
        ]
    );
    assert!(all["added"].as_array().unwrap().iter().all(|one| one["trusted"] == true), "{all}");
    assert_eq!(json(&["--all"])["added"], json!([]));
    import_of_a_project(&program, &home);
    // The value itself is kept only where somebody says so; another file is read by what is in it.
    let other = home.join("elsewhere.json");
    write(&other, r#"{"mcpServers": {"kept": {"command": "hub", "env": {"API_KEY": "hunter2"}}}}"#);
    let kept = run(&["--from", other.to_str().unwrap(), "--all", "--keep-values"]);
    assert!(
        kept.code == Some(0) && kept.stdout.contains("added kept~kept") && !format!("{kept:?}").contains("hunter2"),
        "{kept:?}"
    );
    assert_eq!(json(&["--from", other.to_str().unwrap()])["items"][0]["known"], true);
}

/// What a folder's own files name is taken by somebody who says so, and starts nothing before somebody looked at it.
fn import_of_a_project(program: &Program, home: &Path) {
    let run = |args: &[&str]| program.run(&[&["mcp", "import"], args].concat());
    let json = |args: &[&str]| program.run(&[&["--json", "mcp", "import"], args].concat()).json();
    let remove = || assert_eq!(program.run(&["mcp", "remove", "local"]).code, Some(0));
    let left = run(&["--all"]);
    assert!(left.stderr.contains("--project: local"), "{left:?}");
    let file = home.join("project/.mcp.json").display().to_string();
    for (args, trusted) in [
        (&["local"][..], false),
        (&["--all", "--project"], false),
        (&["--all", "--project", "--trust"], true),
        (&["--from", &file, "--all"], false),
        (&["local", "--trust"], true),
    ] {
        let added = json(args)["added"].clone();
        assert_eq!(
            (&added[0]["id"], &added[0]["cwd"]),
            (&json!("local~local"), &json!(home.join("project"))),
            "{args:?}"
        );
        assert_eq!((&added[0]["trusted"], added.as_array().unwrap().len()), (&json!(trusted), 1), "{args:?}");
        remove();
    }
    let told = run(&["local"]);
    assert!(told.stdout.contains("kitbag mcp trust local~local"), "{told:?}");
    // Whoever changes something else about it has not said that it may start.
    let shown = |args: &[&str]| program.run(&[&["--json", "mcp"], args].concat()).json();
    assert_eq!(shown(&["enable", "local"])["trusted"], false);
    assert_failed(&run(&["--project"]), 2, "--all");
    remove();
}

/// As if the server had listed these tools.
async fn see(database: &TestDatabase, server: &str, tools: &[(&str, &str)]) {
    let one = |(name, description): &(&str, &str)| -> (McpToolName, Pinned) {
        let definition = json!({ "name": name, "description": description });
        (name.parse().unwrap(), Pinned::new(definition.as_object().unwrap().clone()))
    };
    let list: Vec<_> = tools.iter().map(one).collect();
    let mut tx = database.open().await.write(&OrgId::local()).await.unwrap();
    let key: ServerKey = server.parse().unwrap();
    tx.see_tools(&key, &list).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

on_both! {
    async fn servers_without_a_server(database: TestDatabase) {
        use_servers(&Program::on(BINARY, &database));
    }

    async fn servers_with_a_server(database: TestDatabase) {
        let _server = Server::start(BINARY, &database, &[]);
        use_servers(&Program::on(BINARY, &database));
    }

    async fn servers_of_other_programs(database: TestDatabase) {
        import_servers(&Program::on(BINARY, &database));
    }

    async fn what_a_server_changed_is_shown_before_it_is_accepted(database: TestDatabase) {
        let program = Program::on(BINARY, &database);
        let run = |args: &[&str]| program.run(&[&["mcp"], args].concat());
        assert_eq!(run(&["add", "srv", "--", "x"]).code, Some(0));
        assert_eq!(run(&["policy", "srv", "quarantine"]).code, Some(0));
        see(&database, "srv~srv", &[("read", "reads"), ("write", "writes")]).await;
        see(&database, "srv~srv", &[("read", "reads\u{1b}[2K\u{202e} and sends"), ("write", "wrote"), ("new", "n")]).await;
        let shown = run(&["show", "srv"]).stdout;
        assert!(shown.contains("quarantined") && shown.contains("kitbag mcp accept srv~srv") && !shown.contains('\u{1b}'), "{shown:?}");
        let asked = run(&["accept", "srv"]);
        assert_failed(&asked, 2, "--yes");
        for word in ["read (changed, quarantined)", "- reads", "+ reads\\u{1b}[2K\\u{202e} and sends", "new (new, quarantined)"] {
            assert!(asked.stderr.contains(word), "{word:?} is not in {}", asked.stderr);
        }
        assert_failed(&run(&["accept", "srv", "nope", "--yes"]), 1, "nope");
        assert_eq!(program.run(&["--json", "mcp", "accept", "srv", "write", "--yes"]).json(), json!({ "accepted": ["write"] }));
        assert_eq!(program.run(&["--json", "mcp", "accept", "srv", "--yes"]).json(), json!({ "accepted": ["read", "new"] }));
        assert!(run(&["accept", "srv"]).stdout.contains("Nothing has changed"));
    }
}
