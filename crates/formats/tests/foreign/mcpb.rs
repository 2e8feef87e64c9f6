//! MCP bundles.

use kitbag_formats::archive::Limits;
use kitbag_formats::import::{Input, Kind, Options};

use super::{REPLACE, has, import, refused, servers, warnings, zip};

/// A manifest of this server, with more keys.
fn manifest(version: &str, server: &str, more: &str) -> String {
    format!(
        r#"{{"manifest_version": "{version}", "name": "My Extension", "display_name": "My Awesome Extension", "version": "1.2.0",
            "description": "Does things", "author": {{"name": "A"}}, "server": {server}{more}}}"#
    )
}

#[test]
fn node_with_options() {
    let text = manifest(
        "0.3",
        r#"{"type": "node", "entry_point": "server/index.js", "mcp_config": {
            "command": "node", "args": ["${__dirname}/server/index.js", "--dir", "${user_config.allowed_directories}", "${HOME}${/}x"],
            "env": {"API_KEY": "${user_config.api_key}", "MAX": "${user_config.maxFileSize}", "CACHE": "${__dirname}/cache"}}}"#,
        r#", "tools": [{"name": "search"}], "tools_generated": true, "prompts": [{"name": "p", "text": "t"}], "keywords": ["a"],
           "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"node": ">=18"}},
           "user_config": {
             "allowed_directories": {"type": "directory", "title": "t", "description": "d", "multiple": true, "required": true, "default": ["${HOME}/Desktop"]},
             "api_key": {"type": "string", "title": "t", "description": "d", "sensitive": true, "required": false},
             "maxFileSize": {"type": "number", "title": "t", "description": "d", "default": 10, "required": true}}"#,
    );
    let bytes =
        zip(&[("manifest.json", &text), ("server/index.js", "x"), ("icon.png", "y"), ("node_modules/a/b.js", "z")]);
    let imported = import(&bytes, "x.mcpb", Options::default());
    let definition = &imported.bundle.definition;
    assert_eq!(imported.kind, Kind::Mcpb);
    assert_eq!((definition.id.as_str(), definition.name.as_str()), ("my-extension", "My Awesome Extension"));
    assert_eq!(definition.version.to_string(), "1.2.0");
    assert_eq!(definition.description.as_ref().unwrap().as_str(), "Does things");
    assert_eq!(
        servers(&imported),
        r#"  - id: my-extension
    type: stdio
    command: node
    args:
      - "${KITBAG_TOOLSET_DIR}/server/index.js"
      - "--dir"
      - "${ENV:ALLOWED_DIRECTORIES}"
      - "${ENV:HOME}/x"
    env:
      API_KEY: "${ENV:API_KEY}"
      CACHE: "${KITBAG_TOOLSET_DIR}/cache"
      MAX: "${ENV:MAX_FILE_SIZE}"
"#
    );
    assert_eq!(
        warnings(&imported),
        "manifest.json: not taken: prompts\n\
         manifest.json: the option api_key may be left out elsewhere; here the variable API_KEY must be set where it is used\n\
         manifest.json: server.mcp_config.args[2]: the default of the input allowed_directories is not taken; set the variable ALLOWED_DIRECTORIES\n\
         manifest.json: server.mcp_config.args[2]: the input allowed_directories can be several values elsewhere; here it is one\n\
         manifest.json: server.mcp_config.env.MAX: the default of the input maxFileSize is not taken; set the variable MAX_FILE_SIZE\n\
         manifest.json: server.mcp_config: the server is called my-extension here"
    );
    let files: Vec<&str> = imported.bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["icon.png", "node_modules/a/b.js", "server/index.js", "toolset.yaml"]);
}

#[test]
fn the_old_name_and_python_with_its_packages() {
    let text = r#"{"dxt_version": "0.1", "name": "file-manager-python", "version": "0.1", "description": "d", "author": {"name": "A"},
      "server": {"type": "python", "entry_point": "server/main.py", "mcp_config": {"command": "python",
        "args": ["${__dirname}/server/main.py", "--workspace=${user_config.workspace}"],
        "env": {"PYTHONPATH": "${__dirname}/server/lib:${__dirname}/more"}}},
      "user_config": {"workspace": {"type": "directory", "title": "t", "description": "d", "required": true}}}"#;
    let imported = import(&zip(&[("manifest.json", text), ("server/main.py", "")]), "x.dxt", Options::default());
    assert_eq!(
        servers(&imported),
        r#"  - id: file-manager-python
    type: stdio
    command: python
    args:
      - "${KITBAG_TOOLSET_DIR}/server/main.py"
      - "--workspace=${ENV:WORKSPACE}"
    env:
      PYTHONPATH: "${KITBAG_TOOLSET_DIR}/server/lib:${KITBAG_TOOLSET_DIR}/more"
"#
    );
    has(&warnings(&imported), &["the version \"0.1\" is not a semantic one; it becomes 0.1.0"]);
}

#[test]
fn a_program_with_another_one_for_linux() {
    let text = manifest(
        "0.2",
        r#"{"type": "binary", "entry_point": "server/tool", "mcp_config": {"command": "server/tool.exe", "args": ["--all"],
            "env": {"A": "${A}", "B": "${B}"},
            "platform_overrides": {"linux": {"command": "./server/tool", "env": {"B": "${C}"}}, "darwin": {"command": "${bad.x}"}}}}"#,
        r#", "compatibility": {"platforms": ["win32"]}"#,
    );
    let imported = import(&zip(&[("manifest.json", &text), ("server/tool", "")]), "x.mcpb", Options::default());
    has(
        &servers(&imported),
        &[
            "command: env\n    args:\n      - \"${KITBAG_TOOLSET_DIR}/server/tool\"\n      - \"--all\"\n    env:\n      A: \"${ENV:A}\"\n      B: \"${ENV:C}\"",
        ],
    );
    has(&warnings(&imported), &["its author does not say that it works on Linux"]);
    let executable =
        |path: &str| imported.bundle.files.iter().find(|file| file.path.as_str() == path).unwrap().executable;
    assert!(executable("server/tool") && !executable("toolset.yaml"));
}

#[test]
fn started_by_its_type() {
    for (kind, command) in [
        ("node", "command: node\n    args:\n      - \"${KITBAG_TOOLSET_DIR}/src/main\""),
        ("python", "command: python3\n    args:\n      - \"${KITBAG_TOOLSET_DIR}/src/main\""),
        (
            "uv",
            "command: uv\n    args:\n      - run\n      - \"--directory\"\n      - \"${KITBAG_TOOLSET_DIR}\"\n      - \"${KITBAG_TOOLSET_DIR}/src/main\"",
        ),
        ("binary", "command: env\n    args:\n      - \"${KITBAG_TOOLSET_DIR}/src/main\""),
    ] {
        let text = manifest("0.4", &format!(r#"{{"type": "{kind}", "entry_point": "src/main"}}"#), "");
        let imported = import(&zip(&[("manifest.json", &text), ("src/main", "")]), "x.mcpb", Options::default());
        has(&servers(&imported), &[command]);
    }
}

#[test]
fn paths_without_the_folder() {
    let server = r#"{"type": "node", "entry_point": "server/index.js", "mcp_config": {"command": "node", "args": ["server/index.js"]}}"#;
    let imported = import(
        &zip(&[("manifest.json", &manifest("0.3", server, "")), ("server/index.js", "")]),
        "x.mcpb",
        Options::default(),
    );
    has(&servers(&imported), &["- server/index.js\n    cwd: \"${KITBAG_TOOLSET_DIR}\""]);
}

#[test]
fn a_signature_is_taken_off_and_not_believed() {
    let server =
        r#"{"type": "node", "entry_point": "i.js", "mcp_config": {"command": "node", "args": ["${__dirname}/i.js"]}}"#;
    let mut bytes = zip(&[("manifest.json", &manifest("0.3", server, "")), ("i.js", "")]);
    bytes.extend_from_slice(b"MCPB_SIG_V1\x03\x00\x00\x00sigMCPB_SIG_END");
    let input = Input::open(&bytes, &Limits::BUNDLE).unwrap();
    assert_eq!(input.archive().unwrap().entries().len(), 2);
    has(&warnings(&import(&bytes, "x.mcpb", Options::default())), &["the signature is not verified"]);
}

#[test]
fn what_is_refused() {
    let config = |config: &str| format!(r#"{{"type": "node", "entry_point": "i.js", "mcp_config": {config}}}"#);
    for (version, server, wanted) in [
        ("0.5", config(r#"{"command": "node"}"#), "manifest_version \"0.5\" is not supported"),
        ("0.3", r#"{"type": "deno"}"#.to_owned(), "server.type must be node, python, binary or uv"),
        ("0.3", "7".to_owned(), "server must be an object"),
        ("0.3", config("[]"), "server.mcp_config must be an object"),
        ("0.3", config("{}"), "server.mcp_config.command must be a text"),
        ("0.3", config(r#"{"command": "node", "args": "x"}"#), "args must be a list"),
        (
            "0.3",
            config(r#"{"command": "node", "args": ["${__dirname}/../../etc/passwd"]}"#),
            "leads out of the toolset's folder",
        ),
        ("0.3", config(r#"{"command": "${__dirname}/../bin/sh"}"#), "leads out of the toolset's folder"),
        ("0.3", config(r#"{"command": "node", "env": {"TOKEN": "hunter2"}}"#), "env.TOKEN has its value written out"),
        ("0.3", config(r#"{"command": "node", "env": 1}"#), "env must be an object"),
        (
            "0.4",
            r#"{"type": "node", "entry_point": "../i.js"}"#.to_owned(),
            "server.entry_point: the path must not have",
        ),
        (
            "0.4",
            r#"{"type": "node", "entry_point": "/etc/passwd"}"#.to_owned(),
            "server.entry_point: the path must be relative",
        ),
        ("0.4", r#"{"type": "node", "entry_point": "missing.js"}"#.to_owned(), "an entry_point that is in the bundle"),
    ] {
        let message = refused(&zip(&[("manifest.json", &manifest(version, &server, "")), ("i.js", "")]), "x.mcpb");
        has(&message, &[wanted]);
        assert!(!message.contains("hunter2"), "{message}");
    }
    has(
        &refused(&zip(&[("manifest.json", r#"{"server": {}}"#)]), "x.mcpb"),
        &["name must be a text", "manifest_version must be"],
    );
}

#[test]
fn a_value_that_is_replaced_stays_in_no_file() {
    let server =
        r#"{"type": "node", "entry_point": "i.js", "mcp_config": {"command": "node", "env": {"TOKEN": "hunter2"}}}"#;
    let bytes = zip(&[("manifest.json", &manifest("0.3", server, "")), ("i.js", "")]);
    let imported = import(&bytes, "x.mcpb", REPLACE);
    has(&servers(&imported), &["TOKEN: \"${ENV:TOKEN}\""]);
    assert!(imported.bundle.files.iter().all(|file| file.path.as_str() != "manifest.json"));
    assert!(!format!("{imported:?}").contains("hunter2"));
}
