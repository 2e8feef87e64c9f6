//! Files that mean harm.

use kitbag_formats::archive::Limits;
use kitbag_formats::import::{Input, Options};

use super::{REPLACE, attempt, has, refused, zip};

/// A secret in every place that a file has for one.
const SECRET: &str = "hunter2-0123456789abcdef";

#[test]
fn a_secret_is_nowhere() {
    let entry = |place: &str| format!(r#"{{"mcpServers": {{"a": {{"command": "x", {place}}}}}}}"#);
    let registry = |place: &str| {
        format!(
            r#"{{"name": "a/b", "description": "d", "version": "1.0.0", "packages": [{{"registryType": "npm", "identifier": "p", "version": "1.0.0", {place}}}]}}"#
        )
    };
    let files = [
        entry(&format!(r#""env": {{"K": "{SECRET}"}}"#)),
        entry(&format!(r#""env": {{"K": "x ${{A}} {SECRET}"}}"#)),
        entry(&format!(r#""env": {{"K": "${{A:-{SECRET}}}"}}"#)),
        entry(&format!(r#""env": {{"K": "${{{SECRET}}}"}}"#)),
        entry(&format!(r#""env": {{"K": "$${{{SECRET}}}"}}"#)),
        entry(&format!(r#""env": {{"K": ["{SECRET}"]}}"#)),
        entry(&format!(r#""env": "{SECRET}""#)),
        entry(&format!(r#""args": ["${{A:-{SECRET}}}"]"#)),
        entry(&format!(r#""args": ["${{{SECRET}}}"]"#)),
        entry(&format!(r#""oauth": {{"clientSecret": "{SECRET}"}}, "auth": "{SECRET}", "unknown": "{SECRET}""#)),
        entry(&format!(r#""env": {{"K": "{SECRET}" "x""#)),
        format!(r#"{{"mcpServers": {{"a": {{"url": "https://u:{SECRET}@a.example"}}}}}}"#),
        format!(r#"{{"mcpServers": {{"a": {{"url": "https://a.example?token={SECRET}"}}}}}}"#),
        format!(r#"{{"mcpServers": {{"a": {{"url": "{SECRET}"}}}}}}"#),
        format!(
            r#"{{"mcpServers": {{"a": {{"url": "https://a.example", "headers": {{"Host": "{SECRET}", "X": "Bearer {SECRET}", "B": "a\n{SECRET}"}}}}}}}}"#
        ),
        format!(
            r#"{{"inputs": [{{"id": "i", "default": "{SECRET}"}}], "servers": {{"a": {{"command": "x", "env": {{"K": "${{input:i}}"}}}}}}}}"#
        ),
        registry(&format!(
            r#""environmentVariables": [{{"name": "K", "value": "{SECRET}"}}, {{"name": "L", "isRequired": true, "default": "{SECRET}"}}]"#
        )),
        registry(&format!(
            r#""packageArguments": [{{"type": "named", "name": "--k", "value": "{{k}}", "variables": {{"k": {{"isSecret": true, "value": "{SECRET}", "default": "{SECRET}"}}}}}}]"#
        )),
    ];
    for text in files {
        for options in [Options::default(), REPLACE] {
            let shown = match attempt(text.as_bytes(), "x.json", options) {
                Ok(imported) => format!("{imported:?} {imported:#?}"),
                Err(refused) => format!("{refused} {refused:?}"),
            };
            let bytes = format!("{:?}", SECRET.as_bytes()).replace(['[', ']'], "");
            assert!(
                !shown.contains(SECRET) && !shown.contains("hunter2") && !shown.contains(&bytes),
                "{text}\n{shown}"
            );
        }
    }
}

#[test]
fn names_cannot_forge_lines_or_turn_text_around() {
    let name = "a\\u001b[2K\\nfake: line\\u202e";
    let text = format!(
        r#"{{"mcpServers": {{"{name}": {{"command": "x", "{name}": 1, "env": {{"{name}": "v"}}, "type": "{name}"}}}}}}"#
    );
    let message = refused(text.as_bytes(), "x.json");
    assert!(!message.contains(['\u{1b}', '\u{202e}']) && !message.contains("\nfake"), "{message:?}");
}

#[test]
fn archives_with_paths_that_lead_out() {
    // The writer takes no such path, so one of the same length is changed afterwards.
    let bytes = zip(&[("manifest.json", "{\"server\": {}}"), ("xx/evil.sh", "x")]);
    let mut evil = bytes.clone();
    while let Some(at) = evil.windows(3).position(|three| three == b"xx/") {
        evil[at..at + 3].copy_from_slice(b"../");
    }
    assert_ne!(evil, bytes);
    has(&refused(&evil, "x.mcpb"), &["would lead out of the folder"]);
}

#[test]
fn more_than_there_is_room_for() {
    let entries: Vec<String> = (0..1001).map(|number| format!(r#""s{number}": {{"command": "x"}}"#)).collect();
    let text = format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(","));
    has(&refused(text.as_bytes(), "x.json"), &["more than 1000 servers"]);
    let wrong: Vec<String> = (0..5000).map(|number| format!(r#""s{number}": 1"#)).collect();
    let text = format!(r#"{{"mcpServers": {{{}}}}}"#, wrong.join(","));
    assert_eq!(attempt(text.as_bytes(), "x.json", REPLACE).unwrap_err().problems.len(), 200);
    // What can be read as JSON and not written as YAML of an allowed size is refused, not lost later.
    let entries: Vec<String> = (0..900)
        .map(|number| format!(r#""s{number}": {{"command": "x", "args": ["{}"]}}"#, "\u{200b}".repeat(340)))
        .collect();
    let text = format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(","));
    assert!(text.len() < 1 << 20);
    has(&refused(text.as_bytes(), "x.json"), &["too large, or too odd, to be written as toolset.yaml"]);
    let deep = "{\"a\":".repeat(300);
    has(&refused(deep.as_bytes(), "x.json"), &["recursion limit"]);
    assert!(Input::open(&[b'x'; 100], &Limits::BUNDLE).is_err());
}
