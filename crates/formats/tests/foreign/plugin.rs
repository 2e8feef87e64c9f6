//! Plugins of Claude Code.

use kitbag_formats::bundle::Content;
use kitbag_formats::import::Options;

use super::{REPLACE, has, import, refused, servers, warnings, zip};

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\nallowed-tools: Bash(*), Read\n---\nbody\n")
}

#[test]
fn a_plugin_with_everything() {
    let manifest = r#"{"name": "Deploy Tools", "version": "2.1.0", "description": "Deploys", "author": {"name": "A"},
      "commands": ["./custom/x.md"], "hooks": "./config/hooks.json", "mcpServers": "./mcp-config.json", "skills": ["./extra/"],
      "outputStyles": "./styles/", "lspServers": "./.lsp.json", "experimental": {"monitors": "./monitors.json", "themes": "./t"},
      "userConfig": {"token": {"type": "string", "title": "t", "description": "d", "sensitive": true, "required": true}},
      "channels": [], "dependencies": ["x"], "surprise": 1}"#;
    let hooks = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "curl x | sh"}]}]}}"#;
    let bytes = zip(&[
        (".claude-plugin/plugin.json", manifest),
        (
            ".mcp.json",
            r#"{"db": {"command": "${CLAUDE_PLUGIN_ROOT}/servers/db.sh", "args": ["--config", "${CLAUDE_PLUGIN_ROOT}/c.json"]}}"#,
        ),
        (
            "mcp-config.json",
            r#"{"mcpServers": {"api": {"type": "http", "url": "https://api.example", "headers": {"Authorization": "Bearer ${user_config.token}"}}}}"#,
        ),
        ("skills/deploy/SKILL.md", &skill("deploy")),
        ("skills/deploy/inner/SKILL.md", &skill("inner")),
        ("skills/group/roll-back/SKILL.md", &skill("roll-back")),
        ("skills/Odd Name/SKILL.md", &skill("odd")),
        ("skills/broken/SKILL.md", "no front matter"),
        ("extra/more/SKILL.md", &skill("more")),
        ("elsewhere/SKILL.md", &skill("elsewhere")),
        ("servers/db.sh", "#!/bin/sh"),
        ("hooks/hooks.json", hooks),
        ("commands/a.md", "a"),
        ("agents/b.md", "b"),
    ]);
    let imported = import(&bytes, "x.zip", Options::default());
    let definition = &imported.bundle.definition;
    assert_eq!((definition.id.as_str(), definition.name.as_str()), ("deploy-tools", "Deploy Tools"));
    assert_eq!(
        servers(&imported),
        r#"  - id: db
    type: stdio
    command: env
    args:
      - "${KITBAG_TOOLSET_DIR}/servers/db.sh"
      - "--config"
      - "${KITBAG_TOOLSET_DIR}/c.json"
  - id: api
    type: streamable-http
    url: "https://api.example"
    headers:
      Authorization: "Bearer ${ENV:TOKEN}"
skills:
  - id: more
    path: extra/more
  - id: odd-name
    path: skills/Odd Name
  - id: roll-back
    path: skills/group/roll-back
"#
    );
    let skills: Vec<(&str, bool)> =
        imported.bundle.skills.iter().map(|skill| (skill.reference.id.as_str(), skill.listed)).collect();
    assert_eq!(skills, [("more", true), ("odd-name", true), ("roll-back", true), ("deploy", false)]);
    has(
        &warnings(&imported),
        &[
            "hooks (1 files in hooks/) are not taken: they would run by themselves",
            "commands (1 files in commands/) are not taken",
            "agents (1 files in agents/)",
            "lspServers are not taken",
            "monitors are not taken",
            "outputStyles are not taken",
            "themes are not taken",
            "channels are not taken",
            "dependencies are not taken",
            "not taken: surprise",
            "skills/broken/SKILL.md:1:1: the skill is left out",
            "skills/deploy/SKILL.md: it asks to use Bash(*), Read without asking; that grants nothing",
        ],
    );
    let files: Vec<&str> = imported.bundle.files.iter().map(|file| file.path.as_str()).collect();
    for (path, there) in [
        ("hooks/hooks.json", true),
        ("servers/db.sh", true),
        ("elsewhere/SKILL.md", true),
        ("toolset.yaml", true),
        (".mcp.json", false),
        ("mcp-config.json", false),
        (".claude-plugin/plugin.json", false),
    ] {
        assert_eq!(files.contains(&path), there, "{path}");
    }
    assert!(imported.bundle.files.iter().any(|file| file.path.as_str() == "servers/db.sh" && file.executable));
}

#[test]
fn one_without_a_manifest_in_a_folder() {
    let bytes = zip(&[
        (
            "my-plugin/.mcp.json",
            r#"{"mcpServers": {"telegram": {"command": "tsx", "args": ["${CLAUDE_PLUGIN_ROOT}/server.ts"]}}}"#,
        ),
        ("my-plugin/server.ts", "x"),
    ]);
    let imported = import(&bytes, "x.zip", Options::default());
    assert_eq!(imported.bundle.definition.id.as_str(), "my-plugin");
    has(&servers(&imported), &["id: telegram", "- \"${KITBAG_TOOLSET_DIR}/server.ts\""]);
    let files: Vec<&str> = imported.bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["server.ts", "toolset.yaml"]);
}

#[test]
fn servers_inside_the_manifest() {
    let manifest =
        r#"{"name": "p", "version": "1.0.0", "mcpServers": {"a": {"command": "x", "env": {"K": "hunter2-a"}}}}"#;
    let bytes = zip(&[
        (".claude-plugin/plugin.json", manifest),
        (".mcp.json", r#"{"a": {"command": "y", "env": {"K": "hunter2-b"}}}"#),
    ]);
    let message = refused(&bytes, "x.zip");
    has(&message, &[".claude-plugin/plugin.json: mcpServers.a.env.K has", ".mcp.json: a.env.K has"]);
    let imported = import(&bytes, "x.zip", REPLACE);
    has(&servers(&imported), &["id: a\n", "id: a-server\n", "K: \"${ENV:K}\"", "K: \"${ENV:A_K}\""]);
    assert!(!message.contains("hunter2") && !format!("{imported:?}").contains("hunter2"));
    assert!(
        imported.bundle.files.iter().all(|file| matches!(file.content, Content::Made(_))),
        "{:?}",
        imported.bundle.files
    );
}

#[test]
fn what_is_refused() {
    let with = |manifest: &str| {
        zip(&[(".claude-plugin/plugin.json", manifest), ("skills/s/SKILL.md", &skill("s")), ("bad.json", "[")])
    };
    for (manifest, wanted) in [
        (r#"{"mcpServers": "../../etc/x.json"}"#, "mcpServers: \"../../etc/x.json\": the path must not have"),
        (r#"{"mcpServers": "/etc/x.json"}"#, "mcpServers: \"/etc/x.json\": the path must be relative"),
        (r#"{"mcpServers": "./missing.json"}"#, "missing.json: is named by the plugin and is not in it"),
        (r#"{"mcpServers": ["./bad.json"]}"#, "bad.json:1:1: this is not JSON"),
        (r#"{"mcpServers": 7}"#, "mcpServers must be a path"),
        (r#"{"skills": "../x"}"#, "skills: \"../x\": the path must not have"),
        ("[]", "must be a JSON object"),
        ("{", "this is not JSON"),
    ] {
        has(&refused(&with(manifest), "x.zip"), &[wanted]);
    }
}
