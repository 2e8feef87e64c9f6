//! Whatever a file says, it is read or refused, and what is read can be written.

use kitbag_formats::import::Options;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value};

use super::{REPLACE, attempt, check, zip};

/// The words of all the formats, so that made-up values reach every room.
const WORDS: [&str; 66] = [
    "mcpServers",
    "servers",
    "inputs",
    "command",
    "args",
    "env",
    "url",
    "headers",
    "type",
    "transport",
    "cwd",
    "disabled",
    "autoApprove",
    "id",
    "default",
    "packages",
    "remotes",
    "registryType",
    "registry_name",
    "identifier",
    "name",
    "version",
    "version_detail",
    "runtimeHint",
    "runtimeArguments",
    "packageArguments",
    "environmentVariables",
    "variables",
    "value",
    "isRequired",
    "isSecret",
    "valueHint",
    "fileSha256",
    "server",
    "mcp_config",
    "entry_point",
    "user_config",
    "manifest_version",
    "platform_overrides",
    "linux",
    "compatibility",
    "platforms",
    "plugins",
    "owner",
    "skills",
    "hooks",
    "userConfig",
    "$schema",
    "description",
    "npm",
    "oci",
    "mcpb",
    "stdio",
    "sse",
    "http",
    "named",
    "positional",
    "node",
    "binary",
    "0.3",
    "1.0.0",
    "https://a.example/mcp",
    "server.schema.json",
    "./x",
    "status",
    "title",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(WORDS.to_vec()).prop_map(ToOwned::to_owned),
        2 => "(\\$\\{(env:|input:|user_config\\.)?[A-Za-z_]{1,5}(:-x)?\\}|[ -~]|\\$|\\{|\\}|é|\u{202e}|\n){0,6}",
        1 => Just("${__dirname}/a".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::btree_map(text(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A value below the keys that make it something.
fn file() -> impl Strategy<Value = Value> {
    let server = prop::collection::btree_map(text(), value(), 0..6).prop_map(|mut map| {
        map.insert("command".to_owned(), "x".into());
        map.into_iter().collect::<Map<_, _>>()
    });
    let servers = prop::collection::btree_map(text(), server.prop_map(Value::Object), 1..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()));
    let root = prop::sample::select(vec!["mcpServers", "servers"]);
    let list = (root, servers).prop_map(|(root, servers)| serde_json::json!({ root: servers, "inputs": [] }));
    let package = prop::collection::btree_map(text(), value(), 0..8).prop_map(|mut map| {
        map.insert("identifier".to_owned(), "p".into());
        map.insert("registryType".to_owned(), "oci".into());
        Value::Object(map.into_iter().collect())
    });
    let registry = (prop::collection::vec(package, 1..3), value())
        .prop_map(|(packages, remote)| serde_json::json!({ "name": "a/b", "packages": packages, "remotes": [remote] }));
    prop_oneof![value(), list, registry]
}

fn good_or_refused(bytes: &[u8]) {
    for options in [Options::default(), REPLACE] {
        match attempt(bytes, "x.json", options) {
            Ok(imported) => check(bytes, &imported),
            Err(refused) => assert!(!refused.problems.is_empty() && !refused.to_string().is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn any_json(value in file()) {
        good_or_refused(value.to_string().as_bytes());
    }

    #[test]
    fn any_json_in_an_archive(value in value(), server in value(), skill in "(---\n)?[ -~\n]{0,40}(---\n)?[a-z]{0,5}") {
        let manifest = serde_json::json!({ "manifest_version": "0.4", "name": value, "server": server }).to_string();
        good_or_refused(&zip(&[("manifest.json", &manifest), ("a", "")]));
        let value = value.to_string();
        good_or_refused(&zip(&[(".claude-plugin/plugin.json", &value), (".mcp.json", &server.to_string()), ("skills/a/SKILL.md", &skill)]));
        good_or_refused(&zip(&[("x/SKILL.md", &skill), ("x/a", &value)]));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        good_or_refused(&bytes);
        good_or_refused(&[b"{\"mcpServers\": {\"a\": {\"command\": \"x\"".as_slice(), &bytes].concat());
    }
}
