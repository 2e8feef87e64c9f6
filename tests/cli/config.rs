//! What other programs are told about Kitbag, printed and written into their files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{BINARY, assert_failed};

const TOKENS: &str = "/v1/orgs/local/tokens";

/// Where each program keeps its servers.
const FILES: [(&str, &str); 6] = [
    ("claude-code", ".claude.json"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("codex", ".codex/config.toml"),
    ("opencode", ".config/opencode/opencode.json"),
];

/// A home folder, and the program in it.
fn home(database: &TestDatabase) -> (PathBuf, Program) {
    let home = database.data().canonicalize().unwrap().join("home");
    fs::create_dir_all(&home).unwrap();
    let program = Program::on(BINARY, database).env("HOME", home.to_str().unwrap()).at(&home);
    (home, program)
}

fn config(program: &Program, args: &[&str]) -> Value {
    program.run(&[&["--json", "mcp", "config"], args].concat()).json()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// The token that a configuration holds.
fn token(shown: &Value) -> String {
    let headers = shown["entry"].get("headers").or_else(|| shown["entry"].get("http_headers")).unwrap();
    headers["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

on_both! {
    async fn what_the_page_shows_is_what_the_command_prints(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &[]);
        let (_, program) = home(&database);
        assert_eq!(program.run(&["mcp", "add", "files", "--", "nopx"]).code, Some(0));
        for (query, flags) in [("", &[][..]), ("?toolset=files", &["--toolset", "files"][..])] {
            let shown = server.get(&format!("/v1/orgs/local/connections{query}")).await.expect(200);
            for one in shown["items"].as_array().unwrap() {
                let client = one["client"].as_str().unwrap();
                let flags = if client == "claude-desktop" && !flags.is_empty() { &["--toolsets", "files"] } else { flags };
                let printed = config(&program, &[&[client], flags].concat());
                let mut wanted = printed["configuration"].as_str().unwrap().to_owned();
                if one["needsToken"] == true {
                    wanted = wanted.replace(&token(&printed), shown["tokenPlace"].as_str().unwrap());
                }
                assert_eq!(one["configuration"], wanted, "{client}");
            }
        }
    }

    async fn each_program_gets_an_address_and_a_token_of_its_own(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &[]);
        let (home, program) = home(&database);
        let url = format!("{}/mcp", server.url);
        for (client, file) in FILES.into_iter().filter(|(client, _)| *client != "claude-desktop") {
            let shown = config(&program, &[client, "--toolsets", "builtin", "--chat", "c1", "--dynamic"]);
            assert_eq!((&shown["client"], &shown["url"], &shown["file"]), (&json!(client), &json!(url), &json!(home.join(file))));
            assert_eq!((&shown["installed"], &shown["backup"]), (&json!(false), &Value::Null));
            assert_eq!(shown["token"]["name"], format!("mcp config {client}"));
            let headers = shown["entry"].get("headers").or_else(|| shown["entry"].get("http_headers")).unwrap();
            for (name, value) in [("X-Mcp-Toolsets", "builtin"), ("X-Mcp-Chat", "c1"), ("X-Mcp-Dynamic", "true")] {
                assert_eq!(headers[name], value, "{shown}");
            }
            // It may use tools, and decide nothing.
            let token = token(&shown);
            assert_ne!(token, server.token);
            let ask = |method, path: &str| Answer::of(server.anonymous(method, path).bearer_auth(&token));
            ask(Method::GET, "/v1/orgs/local/tools").await.expect(200);
            ask(Method::GET, TOKENS).await.expect_error(403, "FORBIDDEN");
            assert!(!home.join(file).exists(), "it was only printed");
        }
        // What is printed for people is what to paste, and nothing else.
        let printed = program.run(&["mcp", "config", "cursor"]);
        let pasted: Value = serde_json::from_str(&printed.stdout).unwrap();
        assert_eq!(pasted["mcpServers"]["kitbag"]["url"], url, "{printed:?}");
        assert!(printed.stderr.contains(".cursor/mcp.json") && printed.stderr.contains("mcp config cursor"), "{printed:?}");
        let printed = program.run(&["mcp", "config", "codex"]).stdout;
        assert!(printed.starts_with("[mcp_servers.kitbag]\nurl = ") && printed.contains("\n[mcp_servers.kitbag.http_headers]\n"), "{printed}");
        assert_eq!(program.run(&["mcp", "add", "files", "--", "nopx"]).code, Some(0));
        let one = config(&program, &["vscode", "--toolset", "files"]);
        assert_eq!(one["url"], format!("{}/v1/orgs/local/toolsets/files/mcp", server.url));
    }

    async fn what_is_installed_leaves_everything_else_as_it_was(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &[]);
        let (home, program) = home(&database);
        let before = "{\n    \"theme\": \"dark\",\n    \"cost\": 1.10,\n    \"mcpServers\": {\n        \"mine\": {\"command\": \"x\"}\n    },\n    \"z\": []\n}\n";
        let file = home.join(".claude.json");
        fs::write(&file, before).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let first = config(&program, &["claude-code", "--install"]);
        let backup = home.join(".claude.json.before-kitbag");
        assert_eq!((&first["installed"], &first["backup"]), (&json!(true), &json!(backup)));
        assert_eq!(fs::read_to_string(&backup).unwrap(), before);
        let once = fs::read_to_string(&file).unwrap();
        assert!(once.starts_with(before.split_once("}\n    },").unwrap().0) && once.ends_with("    },\n    \"z\": []\n}\n"), "{once}");
        assert_eq!((mode(&file), mode(&backup)), (0o640, 0o640));

        // Again: one entry, one token that works.
        let second = config(&program, &["claude-code", "--install"]);
        assert_eq!(second["revokedToken"], first["token"]["id"]);
        let twice = fs::read_to_string(&file).unwrap();
        assert_eq!(twice, once.replace(&token(&first), &token(&second)));
        let ask = |token: String| Answer::of(server.anonymous(Method::GET, "/v1/orgs/local/chats").bearer_auth(token));
        ask(token(&first)).await.expect_error(401, "UNAUTHORIZED");
        ask(token(&second)).await.expect(200);

        // Where there is no file yet, one is made that only its owner reads.
        for (client, name) in FILES.into_iter().filter(|(client, _)| *client != "claude-code") {
            let installed = config(&program, &[client, "--install"]);
            assert_eq!((&installed["installed"], &installed["backup"]), (&json!(true), &Value::Null), "{client}");
            assert_eq!(mode(&home.join(name)), 0o600, "{client}");
            let written = fs::read_to_string(home.join(name)).unwrap();
            assert_eq!(written, installed["configuration"].as_str().unwrap(), "{client}");
        }
        let names: Vec<String> = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|name| name.starts_with(".tmp")), "{names:?}");

        // What is a link stays a link.
        let kept = home.join("dotfiles.toml");
        fs::rename(home.join(".codex/config.toml"), &kept).unwrap();
        symlink(&kept, home.join(".codex/config.toml")).unwrap();
        fs::write(&kept, "# mine\nmodel = \"m\"\n").unwrap();
        config(&program, &["codex", "--install"]);
        assert!(home.join(".codex/config.toml").is_symlink());
        assert!(fs::read_to_string(&kept).unwrap().starts_with("# mine\nmodel = \"m\"\n\n[mcp_servers.kitbag]\n"));
    }
}

#[test]
fn a_file_that_a_person_must_change_stays_and_there_is_something_to_paste() {
    let database = TestDatabase::sqlite();
    let (home, program) = home(&database);
    for (client, file, text, word, paste) in [
        ("vscode", ".config/Code/User/mcp.json", "{\n  // mine\n  \"servers\": {}\n}\n", "comments", "\"servers\""),
        ("opencode", ".config/opencode/opencode.jsonc", "{\"mcp\": {},}", "commas", "\"mcp\""),
        (
            "codex",
            ".codex/config.toml",
            "mcp_servers = { kitbag = { url = \"x\" } }\n",
            "mcp_servers.kitbag",
            "[mcp_servers",
        ),
    ] {
        let path = home.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let refused = program.run(&["mcp", "config", client, "--install"]);
        assert_failed(&refused, 1, word);
        assert!(refused.stderr.contains(path.to_str().unwrap()) && refused.stderr.contains("by hand"), "{refused:?}");
        assert!(refused.stdout.contains(paste) && refused.stdout.contains("Bearer "), "{refused:?}");
        let told = program.run(&["--json", "mcp", "config", client, "--install"]);
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(told["installed"], false);
        assert!(told["problem"].as_str().unwrap().contains(word), "{told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{client}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "{client}");
    }
}

/// How many tokens there are.
fn tokens(program: &Program) -> usize {
    program.run(&["--json", "admin", "token", "list"]).json()["items"].as_array().unwrap().len()
}

#[test]
fn a_file_that_cannot_be_changed_is_not_and_no_token_is_made() {
    let database = TestDatabase::sqlite();
    let (home, program) = home(&database);
    let before = tokens(&program);
    for (client, file, text, word) in [
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": hunter2}", "not JSON (line 1)"),
        ("claude-code", ".claude.json", "{\"mcpServers\": []}", "mcpServers is not an object"),
        ("codex", ".codex/config.toml", "a = 1\nkey = hunter2\n", "not TOML (line 2)"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "[]", "not an object"),
    ] {
        let path = home.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let refused = program.run(&["mcp", "config", client, "--install"]);
        assert_failed(&refused, 1, word);
        assert_eq!(refused.stdout, "", "{refused:?}");
        assert!(refused.stderr.contains(path.to_str().unwrap()) && !refused.stderr.contains("hunter2"), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{client}");
        assert_eq!(
            fs::read_dir(path.parent().unwrap())
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().path().is_file())
                .count(),
            1
        );
        fs::remove_file(&path).unwrap();
    }
    symlink(home.join("nowhere"), home.join(".claude.json")).unwrap();
    assert_failed(&program.run(&["mcp", "config", "claude-code", "--install"]), 1, "link");
    assert_failed(&program.run(&["mcp", "config", "cursor", "--toolset", "nope"]), 1, "nope");
    assert_failed(&program.run(&["mcp", "config", "cursor", "--toolsets", "nope"]), 2, "Unknown toolset: nope");
    assert_failed(&program.run(&["mcp", "config", "cursor", "--chat", "a\nb"]), 2, "--chat");
    assert_failed(&program.run(&["mcp", "config", "emacs"]), 2, "claude-desktop");
    assert_failed(&program.run(&["mcp", "config", "cursor", "--toolset", "builtin", "--stdio"]), 2, "--stdio");
    assert_failed(&program.run(&["mcp", "config", "claude-desktop", "--toolset", "builtin"]), 2, "--toolsets");
    assert_eq!(tokens(&program), before);
}

#[test]
fn without_a_server_it_is_the_address_at_which_one_would_be() {
    let database = TestDatabase::sqlite();
    let (_, program) = home(&database);
    assert_eq!(config(&program, &["cursor"])["url"], "http://127.0.0.1:8700/mcp");
    let elsewhere = program.clone().env("KITBAG_LISTEN", "0.0.0.0:9000").env("KITBAG_HEADER_PREFIX", "X-Kit-");
    let shown = config(&elsewhere, &["cursor", "--disabled-tools", "write_file"]);
    assert_eq!(shown["url"], "http://127.0.0.1:9000/mcp");
    assert_eq!(shown["entry"]["headers"]["X-Kit-Disabled-Tools"], "write_file", "{shown}");
    let by_query = program.clone().env("KITBAG_HEADER_PREFIX", "");
    assert_eq!(
        config(&by_query, &["cursor", "--toolsets", "builtin"])["url"],
        "http://127.0.0.1:8700/mcp?toolsets=builtin"
    );
    let anywhere = program.clone().env("KITBAG_LISTEN", "127.0.0.1:0");
    assert_failed(&anywhere.run(&["mcp", "config", "cursor"]), 1, "--stdio");

    // A process needs no address and no token.
    let before = tokens(&program);
    let data = database.data().canonicalize().unwrap();
    for (client, _) in FILES {
        let shown = config(&anywhere, &[client, "--stdio", "--toolsets", "builtin", "--dynamic"]);
        assert_eq!((&shown["url"], &shown["token"]), (&Value::Null, &Value::Null));
        let entry = &shown["entry"];
        let words: Vec<&str> = match entry["command"].as_array() {
            Some(words) => words.iter().map(|word| word.as_str().unwrap()).collect(),
            None => std::iter::once(&entry["command"])
                .chain(entry["args"].as_array().unwrap())
                .map(|word| word.as_str().unwrap())
                .collect(),
        };
        assert_eq!(
            words[1..],
            ["mcp", "stdio", "--data", data.to_str().unwrap(), "--toolsets", "builtin", "--dynamic"],
            "{shown}"
        );
        assert!(Path::new(words[0]).is_absolute() && Path::new(words[0]).is_file(), "{shown}");
    }
    let plain = config(&anywhere, &["cursor", "--stdio", "--dynamic=no"]);
    assert_eq!(plain["entry"]["args"].as_array().unwrap().last().unwrap(), "--dynamic=no");
    assert_eq!(config(&program, &["claude-desktop"])["entry"]["args"][1], "stdio", "it knows no other way");
    assert_eq!(tokens(&program), before);
}
