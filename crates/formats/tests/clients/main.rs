//! Servers in the files of other programs.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_formats::clients::{Client, Found, Reader};
use kitbag_model::RawLaunch;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value};

fn read(client: Client, file: &str, text: &str) -> Vec<Found> {
    Reader::default().read(Some(client), text.as_bytes(), file).unwrap()
}

/// A server for short: `name: type command-or-url args | env and headers | off`.
fn short(found: &Found) -> String {
    let readable = match &found.server {
        Ok(readable) => readable,
        Err(why) => return format!("{}: {why}", found.name),
    };
    let raw = RawLaunch::from(&readable.server.launch);
    let mut words = vec![format!("{}:", found.name), raw.server_type.unwrap()];
    words.extend(raw.command.or(raw.url));
    words.extend(raw.args);
    words.extend(raw.cwd.map(|cwd| format!("in {cwd}")));
    words.extend(raw.env.iter().chain(&raw.headers).map(|(name, value)| format!("{name}={value}")));
    words.extend(found.project.as_ref().map(|project| format!("for {project}")));
    words.extend((!readable.server.enabled).then(|| "off".to_owned()));
    words.join(" ")
}

#[test]
fn each_program_in_its_own_words() {
    for (client, file, text, servers) in [
        (
            Client::ClaudeDesktop,
            "claude_desktop_config.json",
            r#"{"globalShortcut": "x", "mcpServers": {"fs": {"command": "npx", "args": ["-y", "pkg", "/home/a"]}}}"#,
            &["fs: stdio npx -y pkg /home/a"][..],
        ),
        (
            Client::ClaudeCode,
            ".claude.json",
            r#"{"numStartups": 3, "mcpServers": {"a": {"type": "stdio", "command": "x", "env": {"MODE": "fast"}}},
               "projects": {"/home/me/p": {"mcpServers": {"b": {"type": "http", "url": "https://b.example/mcp"}}}, "/q": {}}}"#,
            &["a: stdio x MODE=fast", "b: streamable-http https://b.example/mcp for /home/me/p"],
        ),
        (
            Client::Cursor,
            "mcp.json",
            r#"{"mcpServers": {"a": {"url": "https://a.example/sse", "headers": {"Authorization": "Bearer ${env:T}"}}}}"#,
            &["a: streamable-http https://a.example/sse Authorization=Bearer ${ENV:T}"],
        ),
        (
            Client::VsCode,
            "mcp.json",
            "{// comment\n\"inputs\": [{\"id\": \"key\", \"type\": \"promptString\"}],
              \"servers\": {\"a\": {\"command\": \"x\", \"env\": {\"K\": \"${input:key}\"}, \"gallery\": true},}}",
            &["a: stdio x K=${ENV:KEY}"],
        ),
        (
            Client::VsCode,
            "settings.json",
            r#"{"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "x"}}}, "mcpServers": 3}"#,
            &["a: stdio x"],
        ),
        (
            Client::Windsurf,
            "mcp_config.json",
            r#"{"mcpServers": {"a": {"serverUrl": "https://a.example/mcp", "disabled": true}}}"#,
            &["a: streamable-http https://a.example/mcp off"],
        ),
        (
            Client::Gemini,
            "settings.json",
            r#"{"theme": "x", "mcpServers": {"a": {"httpUrl": "https://a.example/mcp", "timeout": 5, "trust": true},
               "b": {"url": "https://b.example/sse"}, "c": {"command": "x", "cwd": "/tmp"}}}"#,
            &["a: streamable-http https://a.example/mcp", "b: sse https://b.example/sse", "c: stdio x in /tmp"],
        ),
        (
            Client::Codex,
            "config.toml",
            "model = \"x\"\n[mcp_servers.a]\ncommand = \"npx\"\nargs = [\"-y\", \"p\"]\nenv_vars = [\"HOME_DIR\"]\nstartup_timeout_sec = 9\n\
             [mcp_servers.a.env]\nMODE = \"1\"\n[mcp_servers.b]\nurl = \"https://b.example/mcp\"\nbearer_token_env_var = \"TOK\"\nenabled = false\n\
             http_headers = { X-A = \"1\" }\nenv_http_headers = { X-B = \"BVAR\" }\n",
            &[
                "a: stdio npx -y p HOME_DIR=${ENV:HOME_DIR} MODE=1",
                "b: streamable-http https://b.example/mcp Authorization=Bearer ${ENV:TOK} X-A=1 X-B=${ENV:BVAR} off",
            ],
        ),
        (
            Client::Zed,
            "settings.json",
            r#"{"context_servers": {"a": {"source": "custom", "command": "x", "args": ["1"], "env": {}},
               "b": {"command": {"path": "y", "args": ["2"], "env": null}}, "c": {"url": "https://c.example"}}, // end
               }"#,
            &["a: stdio x 1", "b: stdio y 2", "c: streamable-http https://c.example"],
        ),
        (
            Client::OpenCode,
            "opencode.jsonc",
            r#"{"$schema": "x", "mcp": {"a": {"type": "local", "command": ["npx", "-y", "p"], "environment": {"K": "{env:MY}"}, "enabled": true},
               "b": {"type": "remote", "url": "https://b.example", "headers": {"Authorization": "Bearer {env:T}"}, "enabled": false}}}"#,
            &[
                "a: stdio npx -y p K=${ENV:MY}",
                "b: streamable-http https://b.example Authorization=Bearer ${ENV:T} off",
            ],
        ),
        (
            Client::Cline,
            "x.json",
            r#"{"mcpServers": {"a": {"url": "https://a.example"}}}"#,
            &["a: sse https://a.example"],
        ),
        (Client::Amp, "settings.json", r#"{"amp.mcpServers": {"a": {"command": "x"}}}"#, &["a: stdio x"]),
        (
            Client::Crush,
            "crush.json",
            r#"{"mcp": {"a": {"type": "http", "url": "https://a.example"}}}"#,
            &["a: streamable-http https://a.example"],
        ),
        (Client::VsCode, "settings.json", r#"{"editor.fontSize": 12}"#, &[]),
    ] {
        let found: Vec<String> = read(client, file, text).iter().map(short).collect();
        assert_eq!(found, servers, "{client:?}");
    }
}

#[test]
fn a_secret_becomes_a_variable_of_its_own_and_is_not_told() {
    let text = r#"{"mcpServers": {
        "git hub": {"command": "x", "env": {"TOKEN": "hunter2", "LOG_LEVEL": "debug"}},
        "gitlab": {"command": "x", "env": {"TOKEN": "other"}},
        "same": {"command": "x", "env": {"TOKEN": "hunter2"}},
        "web": {"url": "https://a.example", "headers": {"Authorization": "Bearer abcdef"}}}}"#;
    let found = read(Client::Cursor, "mcp.json", text);
    assert_eq!(
        found.iter().map(short).collect::<Vec<_>>(),
        [
            "git hub: stdio x LOG_LEVEL=debug TOKEN=${ENV:TOKEN}",
            "gitlab: stdio x TOKEN=${ENV:GITLAB_TOKEN}",
            "same: stdio x TOKEN=${ENV:TOKEN}",
            "web: streamable-http https://a.example Authorization=${ENV:AUTHORIZATION}",
        ]
    );
    let told = format!("{found:?}");
    assert!(!told.contains("hunter2") && !told.contains("abcdef"), "{told}");
    let first = found[0].server.as_ref().unwrap();
    assert_eq!(first.notes.len(), 2, "it says what it is called here, and the variable: {first:?}");
    assert!(
        first.notes.iter().any(|note| note.contains("env.TOKEN") && note.contains("set the variable TOKEN")),
        "{first:?}"
    );
    let kept: Vec<String> = found
        .iter()
        .flat_map(|found| RawLaunch::from(&found.server.as_ref().unwrap().with_values().launch).env.into_values())
        .collect();
    assert_eq!(kept, ["debug", "hunter2", "other", "hunter2"]);
}

#[test]
fn what_cannot_be_taken_is_told_and_the_others_are() {
    let text = r#"{"mcpServers": {"bad": {"args": ["x"]}, "ws": {"type": "ws", "url": "wss://a"}, "good": {"command": "x"}, "none": 3,
        "ref": {"command": "x", "env": {"A": "${B:"}}}}"#;
    let found = read(Client::Cursor, "mcp.json", text);
    let names: Vec<(&str, bool)> = found.iter().map(|found| (found.name.as_str(), found.server.is_ok())).collect();
    assert_eq!(names, [("bad", false), ("ws", false), ("good", true), ("ref", false)]);
    for (file, text) in [("a.json", "{"), ("a.json", "[]"), ("a.toml", "x = hunter2"), ("a.json", "{\"a\": hunter2}")] {
        let message = Reader::default().read(None, text.as_bytes(), file).unwrap_err();
        assert!(!message.contains("hunter2"), "{message}");
    }
}

/// The words of all the programs, so that made-up values reach every room.
fn word() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "mcpServers",
        "servers",
        "mcp",
        "context_servers",
        "mcp_servers",
        "projects",
        "inputs",
        "command",
        "args",
        "env",
        "url",
        "headers",
        "type",
        "transport",
        "httpUrl",
        "serverUrl",
        "environment",
        "enabled",
        "disabled",
        "path",
        "cwd",
        "id",
        "bearer_token_env_var",
        "env_http_headers",
        "env_vars",
        "http_headers",
        "local",
        "remote",
        "API_KEY",
        "hunter2hunter2",
        "${env:A}",
        "{env:A}",
        "https://a.example",
        "a",
        "",
    ];
    prop_oneof![4 => prop::sample::select(KNOWN).prop_map(ToOwned::to_owned), 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        word().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(Value::from(1))
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6).prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_file_says_it_is_read_or_refused(value in value(), client in prop::sample::select(&Client::ALL[..])) {
        let text = value.to_string();
        if let Ok(found) = Reader::default().read(Some(client), text.as_bytes(), "a.json") {
            for readable in found.iter().filter_map(|found| found.server.as_ref().ok()) {
                let kept = readable.with_values();
                assert!(RawLaunch::from(&kept.launch).check().is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>(), toml in any::<bool>()) {
        let _ = Reader::default().read(None, &bytes, if toml { "a.toml" } else { "a.json" });
    }
}

#[test]
fn depth_is_no_danger() {
    for (file, text) in [
        ("a.toml", format!("a = {}", "[".repeat(200_000))),
        ("a.toml", format!("[{}]", vec!["a"; 50_000].join("."))),
        ("a.json", "{\"a\":".repeat(200_000)),
    ] {
        let _ = Reader::default().read(None, text.as_bytes(), file);
    }
}
