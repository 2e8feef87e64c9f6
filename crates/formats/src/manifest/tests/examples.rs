//! Manifests that must be read, and what they mean.

use kitbag_model::{Launch, Override, RemoteKind, ServerType};
use serde_json::json;

use crate::manifest::{Read, read};

pub(super) const EXAMPLE: &str = r#"manifest_version: "1"

id: my-toolset
name: My Toolset
version: "1.0.0"
description: Example toolset with analysis tools

tools:
  - id: analyze_data
    entrypoint: tools.analyze:run
    renderer:
      type: html
      artifact: artifacts/results.html
      data: "$return"

  - id: transform_file
    entrypoint: tools.transform:run
    renderer:
      type: code
      file: "$args.output"
      language: auto
      editable: true

# Canonical overrides (preferred over tools[].renderer)
tool_overrides:
  - tool_id: analyze_data
    renderer: html
    renderer_config:
      artifact: artifacts/results.html
      data: "$return"
  - tool_id: my-mcp-server:search
    name_override: Web Search
    requires_confirmation: false

# Optional: MCP servers to install
mcp_servers:
  - id: my-mcp-server
    command: npx
    args: ["-y", "my-mcp-package"]
    env:
      API_KEY: "${MY_API_KEY}"  # Reference environment variable
"#;

pub(super) const APP_BUILDER: &str = r#"manifest_version: "1"

id: app-builder
name: App Builder
version: "1.0.0"
description: Build and preview web applications

tools:
  - id: write_file
    name: Write File
    description: Write content to a file in the workspace
    entrypoint: tools.files:write_file
    input_schema:
      type: object
      properties:
        path:
          type: string
          description: File path relative to workspace
        content:
          type: string
          description: File content
      required: [path, content]
    renderer:
      type: code
      file: "$args.path"
      language: auto
      editable: true

  - id: run_command
    name: Run Command
    description: Run a shell command in the workspace
    entrypoint: tools.shell:run_command
    input_schema:
      type: object
      properties:
        command:
          type: string
      required: [command]
    requires_confirmation: true
    renderer:
      type: code
      content: "$return.output"
      language: shell
"#;

pub(super) fn good(text: &str) -> Read {
    read(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

/// A manifest with the required fields and some more.
pub(super) fn with(rest: &str) -> String {
    format!("id: app\nname: App\nversion: \"1.0.0\"\n{rest}")
}

fn override_of(read: &Read, key: &str) -> Override {
    let found = read.definition.overrides.iter().find(|(other, _)| other.as_str() == key);
    found.unwrap_or_else(|| panic!("no {key}: {:?}", read.definition.overrides)).1.clone()
}

#[test]
fn the_first_example() {
    let read = good(EXAMPLE);
    let definition = &read.definition;
    assert_eq!((definition.id.as_str(), definition.version.to_string().as_str()), ("my-toolset", "1.0.0"));
    assert_eq!(read.warnings, [], "both ways say the same");
    let keys: Vec<&str> = definition.overrides.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["my-toolset:analyze_data", "my-toolset:transform_file", "my-mcp-server:search"]);
    let rendering = override_of(&read, "my-toolset:transform_file").rendering.unwrap();
    assert_eq!(json!(rendering.config()), json!({"file": "$args.output", "language": "auto", "editable": true}));
    let search = override_of(&read, "my-mcp-server:search");
    assert_eq!((search.name.as_deref(), search.requires_confirmation), (Some("Web Search"), Some(false)));
    let Launch::Stdio { command, args, env, .. } = &definition.servers[0].launch else { panic!("a command") };
    assert_eq!((command.as_str(), args.len(), env["API_KEY"].as_str()), ("npx", 2, "${MY_API_KEY}"));
    let references: Vec<(&str, usize)> =
        read.references.iter().map(|reference| (reference.any_of[0].as_str(), reference.line)).collect();
    let artifact = "artifacts/results.html";
    assert_eq!(references, [("tools/analyze.py", 10), (artifact, 13), ("tools/transform.py", 17), (artifact, 29)]);
}

#[test]
fn the_app_builder() {
    let read = good(APP_BUILDER);
    let [write, run] = read.definition.tools.as_slice() else { panic!("two tools") };
    assert_eq!(write.input_schema.as_ref().unwrap()["required"], json!(["path", "content"]));
    assert_eq!((write.requires_confirmation, run.requires_confirmation), (None, Some(true)));
    assert_eq!(run.name.as_ref().unwrap().as_str(), "Run Command");
    assert_eq!(override_of(&read, "app-builder:run_command").rendering.unwrap().renderer().name(), "code");
    assert!(read.warnings.is_empty());
}

#[test]
fn versions_of_the_format() {
    for head in ["", "manifest_version: \"1\"\n", "manifest_version: 1\n", "manifest_version: '1'\n"] {
        good(&format!("{head}{}", with("")));
    }
    good(&format!("\u{feff}{}", with("")));
    good(&with("").replace('\n', "\r\n"));
    good(&format!("---\n{}", with("description:\ntools:\nmcp_servers: ~\n")));
}

#[test]
fn kinds_of_servers() {
    for (fields, server_type) in [
        ("command: npx", ServerType::Stdio),
        ("command: npx\n    type: stdio", ServerType::Stdio),
        ("url: https://a.example/mcp", ServerType::StreamableHttp),
        ("url: https://a.example/mcp\n    type: http", ServerType::StreamableHttp),
        ("url: https://a.example/mcp\n    server_type: sse", ServerType::Sse),
        ("url: https://a.example/mcp\n    transport: streamable-http", ServerType::StreamableHttp),
    ] {
        let read = good(&with(&format!("mcp_servers:\n  - id: srv\n    {fields}\n")));
        assert_eq!(read.definition.servers[0].launch.server_type(), server_type, "{fields}");
    }
    let text = with(
        "mcp_servers:\n  - id: srv\n    url: https://${HOST}/mcp\n    transport: sse\n    headers: {Authorization: 'Bearer ${ENV:T}'}\n    enabled: false\n    requires_confirmation: false\n",
    );
    let server = &good(&text).definition.servers[0];
    assert!(!server.enabled && server.requires_confirmation == Some(false));
    let Launch::Remote { kind: RemoteKind::Sse, headers, .. } = &server.launch else { panic!("a URL") };
    assert_eq!(headers["Authorization"].names().collect::<Vec<_>>(), ["T"]);
}

#[test]
fn keys_of_overrides_are_normalised() {
    let servers = "mcp_servers:\n  - {id: srv, command: x}\ntools:\n  - {id: analyze, entrypoint: 'a:b'}\n";
    for (written, kept) in [
        ("analyze", "app:analyze"),
        ("app:analyze", "app:analyze"),
        ("mcp:srv:search", "srv:search"),
        ("mcp:app~srv:search", "srv:search"),
        ("srv:*", "srv:*"),
        ("'*:read_*'", "*:read_*"),
    ] {
        let read = good(&with(&format!("{servers}tool_overrides:\n  - {{tool_id: {written}, enabled: false}}\n")));
        assert_eq!(read.definition.overrides[0].0.as_str(), kept);
        assert_eq!(read.warnings, [], "{written}");
    }
    let camel = good(&with(&format!(
        "{servers}tool_overrides:\n  - toolId: analyze\n    renderer: markdown\n    rendererConfig: {{editable: true}}\n    nameOverride: N\n    descriptionOverride: D\n    requiresConfirmation: true\n"
    )));
    let value = &camel.definition.overrides[0].1;
    assert_eq!(value.rendering.as_ref().unwrap().renderer().name(), "document");
    assert_eq!(
        (value.name.as_deref(), value.description.as_deref(), value.requires_confirmation),
        (Some("N"), Some("D"), Some(true))
    );
}

#[test]
fn two_renderers_for_one_tool() {
    let tool = "tools:\n  - id: a\n    entrypoint: m:f\n    renderer: {type: code, file: x}\n";
    let same = good(&with(&format!("{tool}tool_overrides:\n  - {{tool_id: a, name_override: N}}\n")));
    let merged = override_of(&same, "app:a");
    assert_eq!((merged.rendering.unwrap().renderer().name(), merged.name.as_deref()), ("code", Some("N")));
    assert_eq!(same.warnings, []);
    let other = good(&with(&format!("{tool}tool_overrides:\n  - {{tool_id: a, renderer: html}}\n")));
    assert_eq!(override_of(&other, "app:a").rendering.unwrap().renderer().name(), "html");
    assert_eq!(
        other.warnings[0].to_string(),
        "line 9, column 15: the override of \"app:a\" has another renderer than the tool itself (line 7); the override counts\n  9 |   - {tool_id: a, renderer: html}\n    |               ^"
    );
    assert_eq!(other.definition.overrides.len(), 1);
}

#[test]
fn what_may_be_a_slip() {
    let read = good(&with(
        "tool_overrides:\n  - {tool_id: nothing, enabled: false}\n  - {tool_id: 'srv:x', enabled: false}\n  - {tool_id: '*:x'}\n",
    ));
    let messages: Vec<&str> = read.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the override of \"app:nothing\" is for a tool that this manifest does not have",
            "the override of \"srv:x\" is for a server that this manifest does not have",
            "the override of \"*:x\" overrides nothing",
        ]
    );
}

#[test]
fn skills_python_and_permissions() {
    let read = good(&with(
        "skills:\n  - id: pdf\n  - {id: csv, path: ./docs/csv/, enabled: false}\npython:\n  version: \">=3.11\"\n  dependencies: [requests>=2, 'pandas ; python_version < \"3.13\"']\npermissions: {network: true}\n",
    ));
    let definition = &read.definition;
    let paths: Vec<&str> = definition.skills.iter().map(|skill| skill.path.as_str()).collect();
    assert_eq!((paths, definition.skills[1].enabled), (vec!["skills/pdf", "docs/csv"], false));
    assert_eq!(read.references[1].any_of[0].as_str(), "docs/csv/SKILL.md");
    assert_eq!(definition.python.dependencies.len(), 2);
    assert!(definition.permissions.network && !definition.permissions.listen);
}
