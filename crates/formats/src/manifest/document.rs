//! A manifest as it is written, for writing it and for its JSON Schema. Reading is apart, because a derived reader stops
//! at the first mistake; a test holds the keys of both together.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::keys;
use crate::yaml::Key;

/// A toolset: tools, MCP servers, skills, and how they appear and behave.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "toolset.yaml", deny_unknown_fields)]
pub(super) struct Document {
    /// The version of this format. Always "1".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "manifest_version")]
    pub manifest_version: Option<String>,
    /// The toolset's id: part of the ids of its tools, and the name of its folder. `mcp`, `toolset`, `builtin` and `all` are reserved.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,63}$"))]
    pub id: String,
    /// What people call it.
    #[schemars(length(min = 1, max = 120))]
    pub name: String,
    /// Its semantic version, in quotes: "1.0.0".
    #[schemars(regex(pattern = r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"))]
    pub version: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Tools that are Python functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub tools: Vec<Tool>,
    /// What is changed about tools: those of this toolset and those of its MCP servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub tool_overrides: Vec<ToolOverride>,
    /// MCP servers whose tools belong to this toolset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub mcp_servers: Vec<Server>,
    /// Containers whose tools belong to this toolset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub containers: Vec<Container>,
    /// Agent Skills. Folders below `skills/` with a `SKILL.md` are found without being listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub skills: Vec<Skill>,
    /// What the Python tools need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// What the tools may do besides reading and writing the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
}

/// A tool that is a Python function.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Tool {
    /// Its id inside the toolset, unique without regard to case.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"))]
    pub id: String,
    /// The function: `package.module:function`, relative to the toolset or to its `tools/` folder.
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"))]
    pub entrypoint: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 120))]
    pub name: Option<String>,
    /// What a model reads about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments. Only for plain functions: a decorated one brings its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Map<String, Value>>,
    /// Whether a person is asked before each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// Whether it is there at all; true unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The old way to set a renderer: its `type` and its configuration together. Prefer `tool_overrides`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "legacy_renderer")]
    pub renderer: Option<Map<String, Value>>,
}

/// What is changed about a tool, or about all tools that a pattern fits.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolOverride {
    /// A tool's id, `server:tool`, or a pattern with `*`.
    #[schemars(length(min = 1))]
    pub tool_id: String,
    /// How results are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "renderer_name")]
    pub renderer: Option<String>,
    /// The renderer's configuration; texts may have expressions such as `$args.path` and `$return.url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renderer_config: Option<Map<String, Value>>,
    /// A title. Models keep calling the tool by its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 120))]
    pub name_override: Option<String>,
    /// What a model reads about the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description_override: Option<String>,
    /// Whether a person is asked before each call. Lowering it takes effect when the toolset is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// False hides the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// An MCP server: a command to start, or a URL to dial. Texts may refer to variables: `${VAR}`.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Server {
    /// Its id inside the toolset.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,63}$"))]
    pub id: String,
    /// How it is reached; follows from `command` or `url` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "server_type")]
    pub r#type: Option<String>,
    /// The program to start. No shell is involved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(max = 200))]
    pub args: Vec<String>,
    /// The folder it is started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// Where to dial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What every request carries.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether it is used; true unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether a person is asked before each call of its tools; true unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// An image whose programs are tools. Its variables may refer to others: `${VAR}`.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("oneOf" = [{ "required": ["image"] }, { "required": ["build"] }]))]
pub(super) struct Container {
    /// Its id inside the toolset.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,63}$"))]
    pub id: String,
    /// The image, by name or by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// A folder of the bundle with a `Containerfile` or a `Dockerfile`, in place of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub build: Option<String>,
    /// What is started; what the image says if absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(max = 200))]
    pub command: Vec<String>,
    /// Its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// What it may do besides reading and writing the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<ContainerPermissions>,
    /// What it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Its tools. If there are none, they are what the image says in its label `io.kitbag.tools`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(max = 500))]
    pub tools: Vec<ContainerTool>,
    /// Whether it is used; true unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A tool that is a command in a container. It reads its arguments as JSON from its standard input, or from the file that `KITBAG_ARGS_FILE`
/// names, and writes its result as JSON to the file that `KITBAG_RESULT_FILE` names.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ContainerTool {
    /// Its id inside the toolset, unique without regard to case.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"))]
    pub id: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 120))]
    pub name: Option<String>,
    /// What a model reads about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub input_schema: Map<String, Value>,
    /// The JSON Schema of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// What is started, in place of the container's own command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(max = 200))]
    pub command: Vec<String>,
    /// Whether a person is asked before each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// Whether it is there at all; true unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How its results are shown: a renderer's `type` and its configuration together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "legacy_renderer")]
    pub renderer: Option<Map<String, Value>>,
}

/// What a container may do besides reading and writing the workspace.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ContainerPermissions {
    /// Reach the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
}

/// What a container may use.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Limits {
    /// Memory in bytes, or as `256m` or `2g`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "memory")]
    pub memory: Option<Value>,
    /// Processors, in parts if need be: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "cpus")]
    pub cpus: Option<Value>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub pids: Option<u64>,
    /// Seconds that a call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub seconds: Option<u64>,
}

/// A folder with a `SKILL.md`.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Skill {
    /// Its id, which is also the `name` in its `SKILL.md`.
    #[schemars(length(max = 64), regex(pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$"))]
    pub id: String,
    /// The folder; `skills/<id>` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it is used; true unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What the Python tools need.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Python {
    /// Which interpreters will do: "3.12" or ">=3.11".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Packages, as PEP 508 writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(max = 500))]
    pub dependencies: Vec<String>,
}

/// What the tools may do besides reading and writing the workspace.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Permissions {
    /// Reach the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Leave processes behind that outlive a call and belong to its chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<bool>,
}

fn manifest_version(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": ["1", 1], "default": "1" })
}

fn memory(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [{ "type": "integer", "minimum": 6_291_456 }, { "type": "string", "pattern": "^[0-9]+[kKmMgG]?$" }]
    })
}

fn cpus(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "number", "minimum": 0.01, "maximum": 1024 })
}

fn server_type(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": ["stdio", "sse", "streamable-http", "http"] })
}

fn renderer_names() -> Vec<&'static str> {
    kitbag_model::renderer::RENDERERS
        .iter()
        .flat_map(|spec| [&spec.name].into_iter().chain(spec.aliases))
        .copied()
        .collect()
}

fn renderer_name(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": renderer_names() })
}

fn legacy_renderer(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "enum": renderer_names() } },
        "deprecated": true,
    })
}

/// The JSON Schema of `toolset.yaml`, for editors.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Document).to_value();
    for (part, keys) in PARTS {
        let pointer = if part.is_empty() { String::new() } else { format!("/$defs/{part}") };
        if let Some(Value::Object(object)) = schema.pointer_mut(&pointer) {
            add_aliases(object, keys);
        }
    }
    schema
}

/// The parts of a manifest, as the schema calls them, with their keys.
pub(super) const PARTS: [(&str, &[Key]); 11] = [
    ("", keys::TOP),
    ("Tool", keys::TOOL),
    ("ToolOverride", keys::OVERRIDE),
    ("Server", keys::SERVER),
    ("Container", keys::CONTAINER),
    ("ContainerTool", keys::CONTAINER_TOOL),
    ("ContainerPermissions", keys::CONTAINER_PERMISSIONS),
    ("Limits", keys::LIMITS),
    ("Skill", keys::SKILL),
    ("Python", keys::PYTHON),
    ("Permissions", keys::PERMISSIONS),
];

/// Other spellings that are read too. An editor strikes them through instead of marking them as wrong.
fn add_aliases(object: &mut Map<String, Value>, keys: &[Key]) {
    for key in keys {
        for alias in key.aliases {
            if let Some(mut property) = object["properties"].get(key.name).cloned() {
                property["deprecated"] = json!(true);
                object["properties"][alias] = property;
            }
        }
        let required = object.get_mut("required").and_then(Value::as_array_mut);
        let position = required.as_deref().and_then(|names| names.iter().position(|name| name == key.name));
        if let (Some(names), Some(position), false) = (required, position, key.aliases.is_empty()) {
            names.remove(position);
            let spellings = [&key.name].into_iter().chain(key.aliases);
            object.insert("anyOf".to_owned(), spellings.map(|name| json!({ "required": [name] })).collect());
        }
    }
}
