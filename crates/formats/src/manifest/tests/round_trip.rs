//! Writing and reading are each other's opposite, for every definition there can be.

use std::collections::BTreeMap;

use kitbag_model::{
    Container, ContainerLimits, ContainerTool, Definition, ImageSource, McpServer, Override, OverrideKey, Permissions,
    PythonNeeds, PythonTool, RawLaunch, SkillRef, Template, ToolsetId, renderer,
};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::examples::{APP_BUILDER, EXAMPLE, good};
use crate::manifest::{read, write};

#[test]
fn the_examples() {
    for text in [EXAMPLE, APP_BUILDER] {
        let definition = good(text).definition;
        let written = write(&definition);
        assert_eq!(good(&written).definition, definition, "{written}");
        assert_eq!(write(&good(&written).definition), written);
        assert!(!written.contains("    renderer:\n"), "renderers are written as overrides:\n{written}");
    }
}

#[test]
fn what_is_written() {
    let written = write(&good(EXAMPLE).definition);
    let wanted = r#"manifest_version: "1"
id: my-toolset
name: My Toolset
version: "1.0.0"
description: Example toolset with analysis tools
tools:
  - id: analyze_data
    entrypoint: "tools.analyze:run"
  - id: transform_file
    entrypoint: "tools.transform:run"
tool_overrides:
  - tool_id: "my-toolset:analyze_data"
    renderer: html
    renderer_config:
      artifact: artifacts/results.html
      data: "$return"
  - tool_id: "my-toolset:transform_file"
    renderer: code
    renderer_config:
      file: "$args.output"
      language: auto
      editable: true
  - tool_id: "my-mcp-server:search"
    name_override: Web Search
    requires_confirmation: false
mcp_servers:
  - id: my-mcp-server
    type: stdio
    command: npx
    args:
      - "-y"
      - my-mcp-package
    env:
      API_KEY: "${MY_API_KEY}"
"#;
    assert_eq!(written, wanted);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~éü世]{1,20}",
        Just("yes".to_owned()),
        Just("1.0".to_owned()),
        Just("~".to_owned()),
        Just("a: b #".to_owned())
    ]
}

fn line() -> impl Strategy<Value = String> {
    text().prop_filter("a name", |text| !text.trim().is_empty())
}

fn description() -> impl Strategy<Value = Option<String>> {
    option::of("[ -~\n\té]{0,40}")
}

fn template() -> impl Strategy<Value = String> {
    prop_oneof![text().prop_map(|text| Template::literal(&text).to_string()), Just("Bearer ${ENV:TOKEN}".to_owned())]
}

fn small_map() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::from),
        text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!({"a": [1, {"b": []}]}))
    ];
    prop::collection::btree_map(text(), value, 0..4)
        .prop_map(|map| map.into_iter().chain([("type".to_owned(), json!("object"))]).collect())
        .prop_filter("no merge key", |map: &Map<String, Value>| !map.contains_key("<<"))
}

fn tool() -> impl Strategy<Value = PythonTool> {
    let texts = (
        "[A-Za-z0-9_][A-Za-z0-9_-]{0,9}",
        "[a-z][a-z0-9]{0,5}(\\.[a-z]{1,5})?:[a-z]{1,8}",
        option::of(line()),
        description(),
    );
    (texts, option::of(small_map()), option::of(any::<bool>()), any::<bool>()).prop_map(
        |((id, entrypoint, name, description), input_schema, requires_confirmation, enabled)| PythonTool {
            id: id.parse().unwrap(),
            entrypoint: entrypoint.parse().unwrap(),
            name: name.map(|name| name.parse().unwrap()),
            description: description.map(|text| text.parse().unwrap()),
            input_schema,
            requires_confirmation,
            enabled,
        },
    )
}

fn server() -> impl Strategy<Value = McpServer> {
    let stdio = (
        line(),
        prop::collection::vec(template(), 0..4),
        option::of(template()),
        prop::collection::btree_map("[A-Z_]{1,8}", template(), 0..3),
    )
        .prop_filter("a command", |(command, ..)| !command.contains("${"))
        .prop_map(|(command, args, cwd, env)| RawLaunch {
            command: Some(command),
            args,
            cwd,
            env,
            ..RawLaunch::default()
        });
    let remote = (
        "https://[a-z]{1,8}\\.example/[a-z]{0,5}",
        prop::sample::select(vec!["sse", "http"]),
        prop::collection::btree_map("X-[A-Z]{1,8}", template(), 0..3),
    )
        .prop_map(|(url, kind, headers)| RawLaunch {
            url: Some(url),
            server_type: Some(kind.to_owned()),
            headers,
            ..RawLaunch::default()
        });
    ("[a-z][a-z0-9_-]{4,9}", prop_oneof![stdio, remote], any::<bool>(), option::of(any::<bool>()), description())
        .prop_map(|(id, raw, enabled, requires_confirmation, description)| McpServer {
            id: id.parse().unwrap(),
            launch: raw.check().unwrap(),
            enabled,
            requires_confirmation,
            description: description.map(|text| text.parse().unwrap()),
        })
}

fn container_tool() -> impl Strategy<Value = ContainerTool> {
    let texts = ("[A-Za-z0-9_][A-Za-z0-9_-]{4,9}", option::of(line()), description());
    (
        texts,
        small_map(),
        option::of(small_map()),
        prop::collection::vec(text(), 0..3),
        option::of(any::<bool>()),
        any::<bool>(),
    )
        .prop_map(
            |((id, name, description), input_schema, output_schema, command, requires_confirmation, enabled)| {
                ContainerTool {
                    rendering: None,
                    id: id.parse().unwrap(),
                    name: name.map(|name| name.parse().unwrap()),
                    description: description.map(|text| text.parse().unwrap()),
                    input_schema,
                    output_schema,
                    command,
                    mcp_name: None,
                    requires_confirmation,
                    enabled,
                }
            },
        )
}

fn container() -> impl Strategy<Value = Container> {
    let source = prop_oneof![
        // Not one of hexadecimal digits alone: that is an id.
        "[g-z][a-z]{0,5}(/[a-z]{1,5})?(:[0-9]{1,2})?".prop_map(|name| ImageSource::Image(name.parse().unwrap())),
        "[a-z]{1,5}/[a-z]{1,5}".prop_map(|folder| ImageSource::Build(folder.parse().unwrap())),
    ];
    let limits = (
        option::of(ContainerLimits::MEMORY),
        option::of(ContainerLimits::MILLI_CPUS),
        option::of(ContainerLimits::PIDS),
        option::of(ContainerLimits::SECONDS),
    );
    let rest = (prop::collection::btree_map("[A-Z_]{1,8}", template(), 0..3), any::<bool>(), any::<bool>());
    (
        "[a-z][a-z0-9_-]{4,9}",
        source,
        prop::collection::vec(text(), 0..3),
        limits,
        rest,
        prop::collection::vec(container_tool(), 0..3),
    )
        .prop_map(|(id, source, command, (memory, milli_cpus, pids, seconds), (env, network, enabled), tools)| {
            let tools: BTreeMap<String, ContainerTool> =
                tools.into_iter().map(|tool| (tool.id.folded(), tool)).collect();
            Container {
                id: id.parse().unwrap(),
                source,
                command,
                env: Container::check_env(env).unwrap(),
                network,
                limits: ContainerLimits { memory, milli_cpus, pids, seconds },
                tools: tools.into_values().collect(),
                enabled,
            }
        })
}

fn rendering() -> impl Strategy<Value = Option<renderer::Rendering>> {
    option::of((text(), any::<bool>()).prop_flat_map(|(text, flag)| {
        prop::sample::select(vec![
            ("code", json!({"file": text, "editable": flag})),
            ("html", json!({"artifact": "artifacts/a.html", "data": {"x": [flag, null, 1.5]}})),
            ("frame", json!({"port": "$return.port"})),
            ("terminal", json!({})),
        ])
    }))
    .prop_map(|chosen| chosen.and_then(|(name, config)| renderer::check(Some(name), Some(&config)).unwrap()))
}

fn overrides() -> impl Strategy<Value = Vec<(String, Override)>> {
    let value = (
        rendering(),
        option::of(prop_oneof![line(), Just(String::new())]),
        description(),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
    );
    let value = value.prop_map(|(rendering, name, description, requires_confirmation, enabled)| Override {
        rendering,
        name,
        description,
        requires_confirmation,
        enabled,
    });
    prop::collection::btree_map("[a-z*][a-z0-9*]{0,6}:[ -~é]{0,6}[a-z*]", value, 0..4)
        .prop_map(|map| map.into_iter().collect())
}

/// Its tools, but for those whose ids others have.
fn without_doubles(mut container: Container, taken: &[String]) -> Container {
    container.tools.retain(|tool| !taken.contains(&tool.id.folded()));
    container
}

fn definition() -> impl Strategy<Value = Definition> {
    let top = ("[a-z][a-z0-9_-]{4,9}", line(), "[0-9]\\.[1-9][0-9]?\\.[0-9](-rc\\.[1-9])?", description());
    let parts = (
        prop::collection::vec(tool(), 0..3),
        overrides(),
        prop::collection::vec(server(), 0..3),
        option::of(container()),
    );
    let skills = prop::collection::btree_map(
        "[a-z]{1,6}(-[a-z0-9]{1,4})?",
        (option::of("[a-z]{1,5}/[a-z]{1,5}"), any::<bool>()),
        0..3,
    );
    let rest =
        (option::of(Just(">=3.11")), prop::collection::vec("[a-z]{1,6}(>=[0-9])?", 0..3), any::<bool>(), any::<bool>());
    (top, parts, skills, rest).prop_map(
        |(
            (id, name, version, description),
            (tools, overrides, servers, container),
            skills,
            (python, dependencies, network, listen),
        )| {
            let id: ToolsetId = id.parse().unwrap();
            let tools: BTreeMap<String, PythonTool> = tools.into_iter().map(|tool| (tool.id.folded(), tool)).collect();
            let folded: Vec<String> = tools.keys().cloned().collect();
            let servers: BTreeMap<String, McpServer> =
                servers.into_iter().map(|server| (server.id.to_string(), server)).collect();
            let overrides: BTreeMap<OverrideKey, Override> =
                overrides.into_iter().map(|(key, value)| (OverrideKey::parse(&key, &id).unwrap(), value)).collect();
            let skill = |(id, (path, enabled)): (String, (Option<String>, bool))| {
                let id = id.parse().unwrap();
                let path = path.map_or_else(|| SkillRef::default_path(&id), |path| path.parse().unwrap());
                SkillRef { id, path, enabled }
            };
            Definition {
                name: name.parse().unwrap(),
                version: version.parse().unwrap(),
                description: description.map(|text| text.parse().unwrap()),
                tools: tools.into_values().collect(),
                overrides: overrides.into_iter().collect(),
                servers: servers.into_values().collect(),
                containers: container.into_iter().map(|container| without_doubles(container, &folded)).collect(),
                skills: skills.into_iter().map(skill).collect(),
                python: PythonNeeds {
                    version: python.map(|version| version.parse().unwrap()),
                    dependencies: dependencies.into_iter().map(|text| text.parse().unwrap()).collect(),
                },
                permissions: Permissions { network, listen },
                id,
            }
        },
    )
}

proptest! {
    #[test]
    fn every_definition(definition in definition()) {
        let written = write(&definition);
        let again = good(&written).definition;
        assert_eq!(again, definition, "{written}");
        assert_eq!(write(&again), written);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(cut in 0_usize..2000, bytes in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut text = format!("{EXAMPLE}{APP_BUILDER}").into_bytes();
        let at = cut % text.len();
        text.splice(at..(at + bytes.len()).min(text.len()), bytes);
        let _ = read(&text[..]).map_err(|problems| problems.to_string());
        let _ = read(&text[..EXAMPLE.len()]).map_err(|problems| problems.to_string());
    }
}
