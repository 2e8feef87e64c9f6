//! Manifests that are refused, with the message and its place.

use super::examples::with;
use crate::manifest::read;

/// The problems, one line each.
fn problems(text: &str) -> Vec<String> {
    match read(text.as_bytes()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(|p| format!("{}:{}: {}", p.line, p.column, p.message)).collect(),
    }
}

#[test]
fn all_at_once_and_readable() {
    let text = "id: My App\nname: x\nversion: 1.0\ntools:\n  - id: a\n    entrypont: m:f\n    requires_confirmation: maybe\n  - id: A\n    entrypoint: os.path:__import__\ncontainers: {}\n";
    let wanted = "line 1, column 5: id: not a valid toolset id: it must match ^[a-z0-9][a-z0-9_-]{0,63}$
  1 | id: My App
    |     ^
line 3, column 10: version must be a text, not a number; write it in quotes: \"1.0\"
  3 | version: 1.0
    |          ^
line 5, column 5: tools[0] missing required field: entrypoint
  5 |   - id: a
    |     ^
line 6, column 5: tools[0] has no key \"entrypont\"; did you mean \"entrypoint\"?
  6 |     entrypont: m:f
    |     ^
line 7, column 28: tools[0].requires_confirmation must be true or false, not a text
  7 |     requires_confirmation: maybe
    |                            ^
line 8, column 9: the tool id \"A\" is there twice; the first one is in line 5
  8 |   - id: A
    |         ^
line 9, column 17: tools[1].entrypoint: not an entrypoint: names that begin with two underscores are Python's own
  9 |     entrypoint: os.path:__import__
    |                 ^
line 10, column 13: containers must be a list, not a map
  10 | containers: {}
     |             ^";
    assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), wanted);
}

#[test]
fn the_text_itself() {
    assert_eq!(problems(""), ["1:1: the manifest is empty; it needs at least id, name and version"]);
    assert_eq!(problems("# nothing\n"), ["1:1: the manifest is empty; it needs at least id, name and version"]);
    assert_eq!(problems("- a"), ["1:1: Manifest must be a map, not a list"]);
    assert_eq!(problems("just text"), ["1:1: Manifest must be a map, not a text"]);
    let latin = read(b"id: app\nname: \xe9\n").unwrap_err();
    assert_eq!(latin.to_string(), "line 2, column 7: the manifest is not UTF-8 text");
    let utf16 = read(b"\xff\xfei\0d\0").unwrap_err();
    assert_eq!(utf16.to_string(), "line 1, column 1: the manifest is not UTF-8 text");
    let large = format!("{}#{}", with(""), "x".repeat(1024 * 1024));
    assert!(problems(&large)[0].contains("at most 1048576 are allowed"));
}

#[test]
fn the_top() {
    let missing = "1:1: Manifest missing required field:";
    assert_eq!(
        problems("description: x"),
        [format!("{missing} id"), format!("{missing} name"), format!("{missing} version")]
    );
    for (text, wanted) in [
        ("id: mcp\nname: x\nversion: 1.0.0", "1:5: id: \"mcp\" is reserved and cannot be a toolset id"),
        ("id: con\nname: x\nversion: 1.0.0", "1:5: id: \"con\" is reserved and cannot be a toolset id"),
        ("id: a~b\nname: x\nversion: 1.0.0", "1:5: id: not a valid toolset id"),
        ("id: 1\nname: x\nversion: 1.0.0", "1:5: id must be a text, not a number; write it in quotes: \"1\""),
        ("id: a\nname: ''\nversion: 1.0.0", "2:7: name: must not be empty"),
        ("id: a\nname: true\nversion: 1.0.0", "2:7: name must be a text, not true; write it in quotes: \"true\""),
        ("id: a\nname: [x]\nversion: 1.0.0", "2:7: name must be a text, not a list"),
        ("id: a\nname: x\nversion: v1", "3:10: version: not a semantic version"),
        ("manifest_version: \"2\"\nid: a\nname: x\nversion: 1.0.0", "1:19: Unsupported manifest version: 2"),
        ("manifest_version: 1.0\nid: a\nname: x\nversion: 1.0.0", "1:19: Unsupported manifest version: 1.0"),
        ("manifest_version: [1]\nid: a\nname: x\nversion: 1.0.0", "1:19: Unsupported manifest version"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].starts_with(wanted), "{text}\n{found:?}");
    }
}

#[test]
fn containers() {
    let container = |rest: &str| with(&format!("containers: [{{id: box, {rest}}}]"));
    for (text, wanted) in [
        (container("image: app, imge: b"), "containers[0] has no key \"imge\"; did you mean \"image\"?"),
        (container("image: app, build: b"), "containers[0] needs image or build; not both"),
        (container("enabled: true"), "containers[0] needs image or build; it has neither"),
        (container("image: 'a b'"), "containers[0].image: must name an image"),
        // What an engine would take for something else than a name.
        (container("image: x/../../containers/other"), "containers[0].image: must name an image"),
        (container("image: 4f3c9a"), "not by its id"),
        (container("image: 'sha256:4f3c9a'"), "not by its id"),
        (container("build: ../x"), "containers[0].build must be a folder inside the toolset"),
        (container("image: app, command: sh"), "containers[0].command must be a list, not a text"),
        (container("image: app, limits: {memory: 1m}"), "containers[0].limits.memory must be bytes"),
        (container("image: app, limits: {cpus: 0}"), "containers[0].limits.cpus must be a number from 0.01"),
        (container("image: app, limits: {memory: -1}"), "containers[0].limits.memory must be bytes"),
        (container("image: app, limits: {memory: 64q}"), "containers[0].limits.memory must be bytes"),
        // More than a number of 64 bits holds, which must not become a small one.
        (container("image: app, limits: {memory: 99999999999g}"), "containers[0].limits.memory must be bytes"),
        (container("image: app, limits: {memory: 18446744073709551616}"), "containers[0].limits.memory"),
        (container("image: app, limits: {cpus: 1025}"), "containers[0].limits.cpus must be a number from 0.01 to 1024"),
        (container("image: app, limits: {cpus: -1}"), "containers[0].limits.cpus must be"),
        (container("image: app, limits: {cpus: many}"), "containers[0].limits.cpus must be"),
        (
            container("image: app, limits: {pids: 0}"),
            "containers[0].limits.pids must be a whole number from 1 to 65536",
        ),
        (container("image: app, limits: {pids: 65537}"), "containers[0].limits.pids must be"),
        (container("image: app, limits: {pids: 1.5}"), "containers[0].limits.pids must be"),
        (
            container("image: app, limits: {seconds: 0}"),
            "containers[0].limits.seconds must be a whole number from 1 to 86400",
        ),
        (container("image: app, limits: {seconds: 86401}"), "containers[0].limits.seconds must be"),
        (container("image: app, limits: {pid: 5}"), "did you mean \"pids\"?"),
        (container("image: app, permissions: {listen: true}"), "containers[0].permissions has no key \"listen\""),
        (container("image: app, env: {A: '${'}"), "containers[0].env.A"),
        (container("image: app, tools: [{id: x}]"), "containers[0].tools[0] missing required field: input_schema"),
        (
            container("image: app, tools: [{id: x, input_schema: {}}, {id: X, input_schema: {}}]"),
            "the tool id \"X\" is there twice",
        ),
        (
            container("image: app, tools: [{id: x, input_schema: {}, renderer: {type: cod}}]"),
            "containers[0].tools[0].renderer",
        ),
    ] {
        let found = problems(&text);
        assert!(found.len() == 1 && found[0].contains(wanted), "{text}\n{found:?}");
    }
    let good = container("image: app, limits: {memory: 64m, cpus: 0.25, pids: 9, seconds: 7}");
    let read = read(good.as_bytes()).unwrap();
    let limits = read.definition.containers[0].limits;
    assert_eq!(
        (limits.memory, limits.milli_cpus, limits.pids, limits.seconds),
        (Some(64 << 20), Some(250), Some(9), Some(7))
    );
}

#[test]
fn everything_below() {
    let tool = |rest: &str| format!("tools:\n  - id: a\n    entrypoint: m:f\n{rest}");
    let server = |rest: &str| format!("mcp_servers:\n  - id: srv\n{rest}");
    let over = |rest: &str| format!("tool_overrides:\n  - tool_id: a\n{rest}");
    for (rest, wanted) in [
        // Keys.
        (
            "tool_override: []".to_owned(),
            "4:1: Manifest has no key \"tool_override\"; did you mean \"tool_overrides\"?",
        ),
        ("mcpServers: {}".to_owned(), "4:1: Manifest has no key \"mcpServers\"; did you mean \"mcp_servers\"?"),
        (
            "frobnicate: 1".to_owned(),
            "4:1: Manifest has no key \"frobnicate\"; the keys are manifest_version, id, name",
        ),
        ("tools: {}".to_owned(), "4:8: tools must be a list, not a map"),
        ("tools: [x]".to_owned(), "4:9: tools[0] must be a map, not a text"),
        ("python: {pip: x}".to_owned(), "4:10: python has no key \"pip\"; the keys are version, dependencies"),
        ("permissions: {net: true}".to_owned(), "4:15: permissions has no key \"net\""),
        ("permissions: {network: yes}".to_owned(), "4:24: permissions.network must be true or false, not a text"),
        // Tools.
        (tool("    enabled: 1\n"), "7:14: tools[0].enabled must be true or false, not a number"),
        (tool("    input_schema: []\n"), "7:19: tools[0].input_schema must be a map, not a list"),
        (tool("    input_schema: {type: string}\n"), "7:19: tools[0].input_schema must be the schema of an object"),
        (tool("    input_schema: {maximum: .inf}\n"), "7:29: tools[0].input_schema has the number .inf"),
        ("tools:\n  - {id: 'a b', entrypoint: 'm:f'}".to_owned(), "5:10: tools[0].id: not a valid tool id"),
        (
            "tools:\n  - {id: a, entrypoint: '..tools:x'}".to_owned(),
            "5:25: tools[0].entrypoint: not an entrypoint: write",
        ),
        // Renderers.
        (tool("    renderer: code\n"), "7:15: tools[0].renderer must be a map, not a text"),
        (tool("    renderer: {file: x}\n"), "7:15: tools[0].renderer missing required field: type"),
        (
            tool("    renderer: {type: codes}\n"),
            "7:22: tools[0].renderer: renderer 'codes' is unsupported (allowed: code,",
        ),
        (
            tool("    renderer: {type: code, url: x}\n"),
            "7:28: tools[0].renderer: renderer_config has unknown key(s) for renderer 'code': url",
        ),
        (
            tool("    renderer: {type: code, editable: x}\n"),
            "7:28: tools[0].renderer: renderer_config.editable must be a boolean",
        ),
        (
            over("    renderer: html\n    renderer_config: {artifact: ../x}\n"),
            "7:23: tool_overrides[0]: renderer_config.artifact must be a path inside",
        ),
        (
            over("    renderer: html\n    renderer_config: {artifact: /etc/passwd}\n"),
            "7:23: tool_overrides[0]: renderer_config.artifact must be a path inside",
        ),
        (over("    renderer_config: {file: x}\n"), "6:22: tool_overrides[0]: renderer_config requires renderer"),
        (
            over("    renderer: code\n    renderer_config: x\n"),
            "7:22: tool_overrides[0].renderer_config must be a map, not a text",
        ),
        // Overrides.
        (over("    name_override: \"a\\nb\"\n"), "6:20: tool_overrides[0].name_override: must not have control"),
        (
            over("    renderer: code\n    nameOverride: x\n    name_override: y\n"),
            "8:5: \"name_override\" means the same as \"nameOverride\"; keep one of them",
        ),
        (over("  - tool_id: app:a\n"), "6:14: the override of \"app:a\" is there twice; the first one is in line 5"),
        (
            "tool_overrides:\n  - {tool_id: 'other~srv:x'}".to_owned(),
            "5:15: tool_overrides[0].tool_id: other~srv belongs to another toolset",
        ),
        ("tool_overrides:\n  - {enabled: false}".to_owned(), "5:5: tool_overrides[0] missing required field: tool_id"),
        // Servers.
        (server(""), "5:5: mcp_servers[0] needs a command (to start) or a url (to dial)"),
        (server("    command: x\n    url: https://a.example\n"), "5:5: mcp_servers[0] has both a command and a url"),
        (server("    command: x\n    type: ws\n"), "7:5: mcp_servers[0].type: unknown server type"),
        (
            server("    command: x\n    type: stdio\n    transport: stdio\n"),
            "8:5: \"transport\" means the same as \"type\"; keep one of them",
        ),
        (server("    command: x\n    headers: {A: b}\n"), "7:5: mcp_servers[0].headers is not for stdio servers"),
        (
            server("    command: x\n    args: [--port, 3000]\n"),
            "7:20: mcp_servers[0].args[1] must be a text, not a number; write it in quotes",
        ),
        (server("    command: x\n    args: ['${A']\n"), "7:12: mcp_servers[0].args[0] \"${\" without \"}\""),
        (
            server("    command: x\n    env: {PORT: 3000}\n"),
            "7:17: mcp_servers[0].env.PORT must be a text, not a number",
        ),
        (
            server("    command: x\n    env:\n      A: ok\n      B: ${ENV:}\n"),
            "9:7: mcp_servers[0].env.B what is between the braces is no variable",
        ),
        (server("    url: https://me:pw@a.example\n"), "6:5: mcp_servers[0].url must not have a user name or password"),
        (server("    url: https://a.example?token=abc\n"), "6:5: mcp_servers[0].url must not hold a secret"),
        (server("    url: https://a.example\n    headers: {Host: x}\n"), "7:15: mcp_servers[0].headers.Host is set by"),
        (
            server("    command: x\n  - id: srv\n    command: y\n"),
            "7:9: the server id \"srv\" is there twice; the first one is in line 5",
        ),
        // Skills and Python.
        ("skills: [{id: A_b}]".to_owned(), "4:15: skills[0].id: not a valid skill id"),
        ("skills: [{id: a, path: ../x}]".to_owned(), "4:24: skills[0].path must be a folder inside the toolset"),
        ("skills: [{id: a}, {id: a, path: b}]".to_owned(), "4:24: the skill id \"a\" is there twice"),
        (
            "python: {version: 3.12}".to_owned(),
            "4:19: python.version must be a text, not a number; write it in quotes: \"3.12\"",
        ),
        ("python: {dependencies: [--index-url x]}".to_owned(), "4:25: python.dependencies[0]: not a requirement"),
    ] {
        let found = problems(&with(&rest));
        assert!(found.len() == 1 && found[0].starts_with(wanted), "{rest}\nwanted {wanted}\nfound {found:#?}");
    }
}

#[test]
fn too_much_of_everything() {
    let unknown: String = (0..50_000).map(|i| format!("key{i}: 1\n")).collect();
    let found = problems(&with(&unknown));
    assert_eq!((found.len(), found[100].as_str()), (101, "103:1: and 49900 more problems, which are not shown"));
    let many = with(&format!("tool_overrides:\n{}", "  - {tool_id: a}\n".repeat(1001)));
    assert_eq!(problems(&many), ["5:3: tool_overrides must have at most 1000 items, not 1001"]);
}

#[test]
fn values_that_may_be_secrets_are_not_repeated() {
    for rest in [
        "command: x\n    env:\n      A: sk-hunter2${\n",
        "command: x\n    args: ['--token=sk-hunter2${']\n",
        "url: https://a.example?token=sk-hunter2\n",
        "url: https://me:sk-hunter2@a.example\n",
        "command: x\n    args: [12, sk-hunter2]\n",
        "command: x\n    env: {A: 12, B: sk-hunter2}\n",
        "command: x\n    env:\n      A: 1\n      A: sk-hunter2\n",
        "command: x\n    env:\n      A: sk-hunter2: x\n",
        "command: x\n    env: {A: &a sk-hunter2}\n",
        "url: !t sk-hunter2\n",
        "url: https://a.example\n    headers: {X: 'sk-hunter2${'}\n",
    ] {
        let text = with(&format!("mcp_servers:\n  - id: srv\n    {rest}"));
        let shown = read(text.as_bytes()).unwrap_err().to_string();
        assert!(shown.starts_with("line ") && !shown.contains("hunter2"), "{shown}");
    }
}
