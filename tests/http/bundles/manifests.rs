//! Manifests and skills that break a rule.

use super::Case;
use crate::kit::{bundle, manifest, with_manifest};
use crate::zip_build::{stored, zip};

/// A manifest that is well but for these lines.
fn more(lines: &str) -> Vec<u8> {
    with_manifest(&manifest("app", "2.0.0", lines))
}

fn tool(fields: &str) -> Vec<u8> {
    more(&format!("tools: [{{id: x, entrypoint: 't:f', {fields}}}]\n"))
}

fn entrypoint(text: &str) -> Vec<u8> {
    more(&format!("tools: [{{id: x, entrypoint: '{text}'}}]\n"))
}

fn over(fields: &str) -> Vec<u8> {
    more(&format!("tool_overrides: [{{tool_id: x, {fields}}}]\n"))
}

fn server(fields: &str) -> Vec<u8> {
    more(&format!("mcp_servers: [{{id: srv, {fields}}}]\n"))
}

fn remote(fields: &str) -> Vec<u8> {
    server(&format!("url: 'https://a.example/mcp', {fields}"))
}

/// A bundle with a skill that the manifest lists.
fn skill(files: &[(String, String)]) -> Vec<u8> {
    let text = manifest("app", "2.0.0", "skills: [{id: guide}]\n");
    let mut all = vec![("toolset.yaml", text.as_str())];
    all.extend(files.iter().map(|(path, content)| (path.as_str(), content.as_str())));
    bundle(&all)
}

fn page(text: &str) -> (String, String) {
    ("skills/guide/SKILL.md".to_owned(), text.to_owned())
}

fn good_page() -> (String, String) {
    page("---\nname: guide\ndescription: Always.\n---\n")
}

fn with_files(count: usize, size: usize) -> Vec<u8> {
    let file = |number| (format!("skills/guide/f{number}"), "x".repeat(size));
    skill(&[good_page()].into_iter().chain((0..count).map(file)).collect::<Vec<_>>())
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = text_cases();
    all.extend(field_cases());
    all.extend(server_cases());
    all.extend(skill_cases());
    all
}

fn case(what: &'static str, bytes: Vec<u8>, words: &'static str) -> Case {
    Case(what, bytes, "INVALID_MANIFEST", words)
}

fn text_cases() -> Vec<Case> {
    let deep = format!("tools: {}{}\n", "[".repeat(100), "]".repeat(100));
    let many: String = (0..1001).map(|number| format!("  - {{id: t{number}, entrypoint: 't:f'}}\n")).collect();
    let bytes = |bytes: &[u8]| zip([stored("toolset.yaml", bytes)]);
    vec![
        case("not UTF-8", bytes(b"id: app\nname: \xff\n"), "not UTF-8"),
        case("UTF-16", bytes(b"\xff\xfei\0d\0:\0 \0a\0"), "not UTF-8"),
        case("empty", with_manifest(""), "empty"),
        case("a comment only", with_manifest("# nothing\n"), "empty"),
        case("a list", with_manifest("- id: app\n"), "must be a map"),
        case("no YAML", with_manifest("id: [app\n"), "not YAML"),
        case("a tab", with_manifest("id: app\n\tname: x\n"), "YAML"),
        case("an anchor", more("description: &a x\n"), "anchors"),
        case("an alias", more("description: *a\n"), ""),
        case("a merge key", more("python:\n  <<: {version: '3.12'}\n"), "merge keys"),
        case("a key twice", more("name: Another\n"), "\"name\" is there twice"),
        case("a tag", more("description: !!python/object:os.system x\n"), "tags"),
        case("two documents", more("---\nid: other\n"), "second document"),
        case("a NUL", more("description: \"a\0b\"\n"), "control character"),
        case("too large", more(&format!("# {}\n", "x".repeat(1 << 20))), "at most"),
        case("too deep", more(&deep), "nested deeper"),
        case("too many tools", more(&format!("tools:\n{many}")), "at most 1000"),
    ]
}

fn field_cases() -> Vec<Case> {
    let named = |id: &str| with_manifest(&manifest(id, "2.0.0", ""));
    vec![
        case("no id", with_manifest("name: x\nversion: '1.0.0'\n"), "missing required field: id"),
        case("no name", with_manifest("id: app\nversion: '1.0.0'\n"), "missing required field: name"),
        case("no version", with_manifest("id: app\nname: x\n"), "missing required field: version"),
        case("an id in capitals", named("App"), "toolset"),
        case("an id that leads away", named("../app"), "toolset"),
        case("an id with a tilde", named("a~b"), "toolset"),
        case("a long id", named(&"a".repeat(65)), "toolset"),
        case("a number", named("12"), "quotes"),
        case("a reserved id", named("mcp"), "reserved"),
        case("another reserved id", named("builtin"), "reserved"),
        case("a device", named("con"), "reserved"),
        case("half a version", with_manifest(&manifest("app", "1.0", "")), "version"),
        case("a version that is a number", with_manifest("id: app\nname: x\nversion: 1.0\n"), "quotes"),
        case("another format", more("manifest_version: '2'\n"), "Unsupported manifest version: 2"),
        case("a slip in a container", more("containers: [{id: box, imag: x}]\n"), "did you mean \"image\"?"),
        case("a slip at the top", more("tool: []\n"), "did you mean \"tools\"?"),
        case("a slip in a tool", tool("confirmation: true"), "requires_confirmation"),
        case("a slip in an override", over("render: code"), "did you mean \"renderer\"?"),
        case("a slip in a server", server("comand: x"), "did you mean \"command\"?"),
        case("a key nobody knows", more("xyzzy: 1\n"), "the keys are manifest_version, id, name"),
        case("a tool id", more("tools: [{id: 'a b', entrypoint: 't:f'}]\n"), "tools[0].id"),
        case(
            "a tool twice",
            more("tools: [{id: Read, entrypoint: 't:f'}, {id: read, entrypoint: 't:f'}]\n"),
            "there twice",
        ),
        case("tools that are a map", more("tools: {id: x}\n"), "must be a list"),
        case("no such module", entrypoint("none:f"), "no file none.py"),
        case("a module of Python", entrypoint("os:system"), "no file os.py"),
        case("Python's own names", entrypoint("t:__import__"), "two underscores"),
        case("a module of Python's own", entrypoint("__main__:f"), "two underscores"),
        case("a path", entrypoint("../t:f"), "not an entrypoint"),
        case("no function", entrypoint("tools.t"), "not an entrypoint"),
        case("code", entrypoint("t:f()"), "not an entrypoint"),
        case("a schema of a list", tool("input_schema: {type: array}"), "type: object"),
        case("yes is no truth", tool("enabled: 'true'"), "true or false"),
        case("no such renderer", over("renderer: hologram"), "allowed: code, default"),
        case("a renderer's key", over("renderer: code, renderer_config: {colour: 1}"), "allowed: file, content"),
        case("a configuration alone", over("renderer_config: {file: x}"), "requires renderer"),
        case("no such page", over("renderer: html, renderer_config: {artifact: none.html}"), "no file none.html"),
        case("a page outside", over("renderer: html, renderer_config: {artifact: ../x.html}"), "inside the toolset"),
        case(
            "a page of the system",
            over("renderer: html, renderer_config: {artifact: /etc/hosts}"),
            "inside the toolset",
        ),
        case("the old way, no such page", tool("renderer: {type: html, artifact: none.html}"), "no file none.html"),
        case("the old way, no type", tool("renderer: {file: x}"), "type"),
        case("both spellings", over("name_override: a, nameOverride: b"), "means the same"),
        case(
            "an override of others",
            more("tool_overrides: [{tool_id: 'other~srv:x', enabled: false}]\n"),
            "another toolset",
        ),
        case(
            "an override twice",
            more("tool_overrides: [{tool_id: x, enabled: false}, {tool_id: 'app:x', enabled: true}]\n"),
            "there twice",
        ),
        case("an option", more("python: {dependencies: ['--index-url http://evil']}\n"), "not a requirement"),
        case("a package from http", more("python: {dependencies: ['x @ http://evil/x.whl']}\n"), "https"),
        case("a Python version", more("python: {version: latest}\n"), "not a Python version"),
        case("a right nobody knows", more("permissions: {root: true}\n"), "permissions"),
        case("a right that is a text", more("permissions: {network: 'yes'}\n"), "true or false"),
    ]
}

fn server_cases() -> Vec<Case> {
    vec![
        case("both", server("command: x, url: 'https://a.example'"), "both a command and a url"),
        case("neither", server("enabled: true"), "needs a command"),
        case("an empty command", server("command: ' '"), "must have 1 to"),
        case("no URL", server("url: 'a.example/mcp'"), "is not a URL"),
        case("a file", server("url: 'file:///etc/passwd'"), "is not a URL"),
        Case(
            "a password",
            server("url: 'https://me:hunter2@a.example'"),
            "INVALID_MCP_PLACEHOLDER",
            "user name or password",
        ),
        Case("a key", server("url: 'https://a.example/mcp?api_key=hunter2'"), "INVALID_MCP_PLACEHOLDER", "api_key"),
        case("a header in two lines", remote("headers: {X-A: \"a\\r\\nX-B: hunter2\"}"), "line breaks"),
        case("a header's name", remote("headers: {'X A': hunter2}"), "not the name of a header"),
        case("the connection's header", remote("headers: {hOsT: a}"), "set by the connection"),
        case("a header twice", remote("headers: {X-A: a, x-a: b}"), "different case"),
        case("headers of a command", server("command: x, headers: {X-A: hunter2}"), "not for stdio servers"),
        case("a command's environment", remote("env: {A: hunter2}"), "not for streamable-http servers"),
        case("a variable's name", server("command: x, env: {'A=B': hunter2}"), "not the name of a variable"),
        case("a value that is a number", server("command: x, env: {A: 12}"), "quotes"),
        Case("no reference", server("command: x, env: {A: '${1X}'}"), "INVALID_MCP_PLACEHOLDER", "is no variable"),
        Case(
            "an empty reference",
            server("command: x, args: ['${ENV:}']"),
            "INVALID_MCP_PLACEHOLDER",
            "is no variable",
        ),
        Case("an open reference", server("command: x, env: {A: 'hunter2 ${B'}"), "INVALID_MCP_PLACEHOLDER", "without"),
        Case(
            "a command by reference",
            server("command: '${SHELL}'"),
            "INVALID_MCP_PLACEHOLDER",
            "cannot refer to variables",
        ),
        case("another type", server("command: x, type: websocket"), "stdio, sse and streamable-http"),
        case("a type without its URL", server("type: sse"), "required for sse servers"),
        case("a slip beside a secret", server("comand: x, env: {A: hunter2}"), "did you mean \"command\"?"),
        case("an anchor beside a secret", server("command: &a x, env: {A: hunter2}"), "anchors"),
        case("a variable twice", server("command: x, env: {A: hunter2, A: hunter2}"), "there twice"),
        case("a raw NUL", server("command: x, env: {A: \"hunter2\0\"}"), "control character"),
        case("an end that is missing", server("command: x, env: {A: hunter2"), "YAML"),
        case("a NUL in an argument", server("command: x, args: [\"a\\0hunter2\"]"), "NUL"),
        case("a server id", more("mcp_servers: [{id: 'a~b', command: x}]\n"), "mcp_servers[0].id"),
        case("a server twice", more("mcp_servers: [{id: a, command: x}, {id: a, command: y}]\n"), "there twice"),
    ]
}

fn skill_cases() -> Vec<Case> {
    let bad = |what, bytes, words| Case(what, bytes, "INVALID_SKILL_BUNDLE", words);
    vec![
        case("no such skill", more("skills: [{id: guide}]\n"), "no file skills/guide/SKILL.md"),
        case("a skill's id", more("skills: [{id: Guide}]\n"), "skills[0].id"),
        case("a skill outside", more("skills: [{id: guide, path: ../guide}]\n"), "inside the toolset"),
        case("a skill twice", more("skills: [{id: a}, {id: a}]\n"), "there twice"),
        bad("no front matter", skill(&[page("# Guide\n")]), "front matter"),
        bad("no end of it", skill(&[page("---\nname: guide\n")]), "no closing line"),
        bad("no description", skill(&[page("---\nname: guide\n---\n")]), "description"),
        bad("no YAML", skill(&[page("---\nname: [guide\n---\n")]), "YAML"),
        bad("a key twice", skill(&[page("---\nname: guide\nname: guide\ndescription: x\n---\n")]), "twice"),
        bad("513 files", with_files(512, 0), "512 files"),
        bad("a large file", with_files(1, (2 << 20) + 1), "a file of a skill may have"),
        bad("large together", with_files(9, 1_900_000), "a skill may have"),
    ]
}
