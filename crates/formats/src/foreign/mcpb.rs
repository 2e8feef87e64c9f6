//! MCP bundles (`.mcpb`, once `.dxt`): an archive with one server and a `manifest.json`.

use std::collections::BTreeMap;

use kitbag_model::WorkPath;
use serde_json::{Map, Value};

use super::builder::{Builder, Draft, Secretive};
use super::lower::{Declared, Host, Scope, TOOLSET_DIR};
use super::notes::{Notes, listed, shown};
use super::{servers, skill, toolset};
use crate::bundle::{Bundle, Refused};
use crate::import::{Options, Tree};

/// The manifest's name.
pub(crate) const MANIFEST: &str = "manifest.json";
const VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];
/// What a manifest has. That which is not read tells people and stores about the bundle, and does nothing.
const KEYS: [&str; 27] = [
    "$schema",
    "dxt_version",
    "manifest_version",
    "name",
    "display_name",
    "version",
    "description",
    "long_description",
    "author",
    "repository",
    "homepage",
    "documentation",
    "support",
    "icon",
    "icons",
    "screenshots",
    "localization",
    "server",
    "tools",
    "tools_generated",
    "prompts_generated",
    "keywords",
    "license",
    "privacy_policies",
    "compatibility",
    "user_config",
    "_meta",
];

/// Reads a bundle. All its files are taken along but the manifest, which becomes `toolset.yaml`.
pub(crate) fn read(
    tree: Tree<'_, '_>,
    manifest: &Map<String, Value>,
    file: Option<&str>,
    options: Options,
) -> Result<Bundle, Refused> {
    let mut notes = tree.notes(MANIFEST);
    let text = |key: &str| manifest.get(key).and_then(Value::as_str);
    check_version(manifest, &mut notes);
    let others: Vec<&str> = manifest.keys().map(String::as_str).filter(|key| !KEYS.contains(key)).collect();
    if !others.is_empty() {
        notes.warn(format!("not taken: {}", listed(others.into_iter())));
    }
    let name = text("name").unwrap_or_default();
    if name.is_empty() {
        notes.problem("name must be a text and not empty");
    }
    let linux = |platforms: &Value| platforms.as_array().is_none_or(|list| list.iter().any(|name| name == "linux"));
    if manifest.get("compatibility").and_then(|value| value.get("platforms")).is_some_and(|value| !linux(value)) {
        notes.warn("its author does not say that it works on Linux");
    }
    let declared = user_config(manifest.get("user_config"), &mut notes);
    let mut builder = Builder::new(&mut notes, options);
    server(&mut builder, &tree, manifest, name, &declared);
    let servers = builder.servers;
    let stem = file.map(super::name::stem).unwrap_or_default();
    let display = text("display_name").unwrap_or(name);
    let mut made = toolset::Made::new([name, stem], text("version"), display, &mut notes);
    made.describe(text("description"), &mut notes);
    made.definition.servers = servers;
    // A folder that would be a skill in a toolset is one from now on, so that none comes along unseen.
    let skills = skill::found(&tree, &["skills".to_owned()], &mut notes);
    made.list(&skills);
    let mut files = tree.files;
    files.retain(|file| file.path.as_str() != MANIFEST);
    // What is started must be startable; archives made on Windows say of no file that it is.
    if let Some(program) = text_in(manifest, "server", "entry_point").filter(|_| is_binary(manifest)).map(plain_path)
        && let Some(file) = files.iter_mut().find(|file| file.path.as_str() == program)
    {
        file.executable = true;
    }
    made.finish(skills, files, notes)
}

fn is_binary(manifest: &Map<String, Value>) -> bool {
    text_in(manifest, "server", "type") == Some("binary")
}

fn text_in<'v>(manifest: &'v Map<String, Value>, part: &str, key: &str) -> Option<&'v str> {
    manifest.get(part)?.get(key)?.as_str()
}

fn plain_path(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

fn check_version(manifest: &Map<String, Value>, notes: &mut Notes) {
    let version = manifest.get("manifest_version").or_else(|| manifest.get("dxt_version"));
    match version.and_then(Value::as_str) {
        Some(version) if VERSIONS.contains(&version) => {}
        Some(version) => notes.problem(format!(
            "manifest_version \"{}\" is not supported; the versions are {}",
            shown(version),
            VERSIONS.join(", ")
        )),
        None => notes.problem(format!("manifest_version must be a text, one of {}", VERSIONS.join(", "))),
    }
}

/// What the bundle asks its user for.
pub(super) fn user_config(value: Option<&Value>, notes: &mut Notes) -> BTreeMap<String, Declared> {
    let mut declared = BTreeMap::new();
    for (key, option) in value.and_then(Value::as_object).into_iter().flatten() {
        if option.get("required").and_then(Value::as_bool) != Some(true) {
            let variable = super::name::variable(key).unwrap_or_default();
            notes.warn(format!(
                "the option {} may be left out elsewhere; here the variable {variable} must be set where it is used",
                shown(key)
            ));
        }
        let has_default = option.get("default").is_some_and(|value| !value.is_null());
        let several = option.get("multiple").and_then(Value::as_bool) == Some(true);
        declared.insert(key.clone(), Declared { has_default, several, fixed: None });
    }
    declared
}

fn server(
    builder: &mut Builder<'_>,
    tree: &Tree<'_, '_>,
    manifest: &Map<String, Value>,
    name: &str,
    declared: &BTreeMap<String, Declared>,
) {
    let Some(server) = manifest.get("server").and_then(Value::as_object) else {
        builder.notes.problem("server must be an object");
        return;
    };
    let scope = Scope { host: Host::Bundle, declared };
    let kind = server.get("type").and_then(Value::as_str).unwrap_or_default();
    if !["node", "python", "binary", "uv"].contains(&kind) {
        builder.notes.problem("server.type must be node, python, binary or uv");
        return;
    }
    let before = builder.notes.problems.len();
    let entry = entry_point(builder, tree, server);
    let mut draft = Draft::new("server.mcp_config", name);
    match server.get("mcp_config") {
        Some(Value::Object(config)) => configured(builder, tree, &mut draft, config, &scope),
        Some(_) => builder.notes.problem("server.mcp_config must be an object"),
        None => match entry {
            Some(entry) => by_type(&mut draft, kind, &entry),
            None => builder.notes.problem("server has neither mcp_config nor an entry_point that is in the bundle"),
        },
    }
    if builder.notes.problems.len() == before {
        builder.finish(draft);
    }
}

/// The file that is started, if the bundle has it.
fn entry_point(builder: &mut Builder<'_>, tree: &Tree<'_, '_>, server: &Map<String, Value>) -> Option<WorkPath> {
    let text = server.get("entry_point").and_then(Value::as_str)?;
    match plain_path(text).parse::<WorkPath>() {
        Ok(path) if tree.has(path.as_str()) => Some(path),
        Ok(_) => {
            builder.notes.warn(format!("server.entry_point: the bundle has no file {}", shown(text)));
            None
        }
        Err(error) => {
            builder.notes.problem(format!("server.entry_point: {error}"));
            None
        }
    }
}

/// How a server of each type is started where the bundle leaves that to whoever installs it.
fn by_type(draft: &mut Draft, kind: &str, entry: &WorkPath) {
    let path = format!("${{{TOOLSET_DIR}}}/{}", entry.as_str().replace("${", "$${"));
    let folder = format!("${{{TOOLSET_DIR}}}");
    let (command, args) = match kind {
        "node" => ("node", vec![path]),
        "python" => ("python3", vec![path]),
        "uv" => ("uv", vec!["run".to_owned(), "--directory".to_owned(), folder, path]),
        _ => ("env", vec![path]),
    };
    draft.launch.command = Some(command.to_owned());
    draft.launch.args = args;
}

fn configured(
    builder: &mut Builder<'_>,
    tree: &Tree<'_, '_>,
    draft: &mut Draft,
    config: &Map<String, Value>,
    scope: &Scope<'_>,
) {
    let linux = config.get("platform_overrides").and_then(|value| value.get("linux")).and_then(Value::as_object);
    let empty = Map::new();
    let linux = linux.unwrap_or(&empty);
    let field = |key: &str| linux.get(key).or_else(|| config.get(key));
    match field("args") {
        Some(Value::Array(items)) => draft.launch.args = servers::args(builder, "server.mcp_config.args", items, scope),
        None => {}
        Some(_) => builder.notes.problem("server.mcp_config.args must be a list of texts"),
    }
    // A path without the folder before it only works in the folder.
    if draft.launch.args.iter().any(|arg| arg.contains('/') && tree.has(plain_path(arg))) {
        draft.launch.cwd = Some(format!("${{{TOOLSET_DIR}}}"));
    }
    match field("command") {
        Some(Value::String(text)) if text.contains('/') && tree.has(plain_path(text)) => {
            builder.command(draft, &format!("${{__dirname}}/{}", plain_path(text)), scope);
        }
        Some(Value::String(text)) => builder.command(draft, text, scope),
        _ => builder.notes.problem("server.mcp_config.command must be a text"),
    }
    let mut env = Map::new();
    for part in [config.get("env"), linux.get("env")] {
        match part {
            Some(Value::Object(map)) => env.extend(map.clone()),
            None => {}
            Some(_) => builder.notes.problem("server.mcp_config.env must be an object of texts"),
        }
    }
    servers::values(builder, draft, Secretive::Env, &env, scope);
    for key in config.keys().filter(|key| !["command", "args", "env", "platform_overrides"].contains(&key.as_str())) {
        builder.notes.warn(format!("server.mcp_config.{} is not taken", shown(key)));
    }
}
