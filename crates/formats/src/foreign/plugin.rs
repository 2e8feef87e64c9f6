//! Plugins of Claude Code. Their skills and servers are taken; what runs by itself or speaks only to that program (hooks,
//! commands, agents, language servers, monitors, styles) is named and stays an ordinary file.

use std::collections::BTreeMap;

use kitbag_model::WorkPath;
use serde_json::{Map, Value};

use super::builder::Builder;
use super::lower::{Declared, Host, Scope};
use super::notes::{Notes, listed, shown};
use super::{json, mcpb, servers, skill, toolset};
use crate::bundle::{Bundle, Finding, Refused};
use crate::import::{Options, Tree};

/// The plugin's own description.
pub(crate) const MANIFEST: &str = ".claude-plugin/plugin.json";
/// A list of plugins.
pub(crate) const MARKETPLACE: &str = ".claude-plugin/marketplace.json";
/// The servers of a plugin that says nothing else.
pub(crate) const SERVERS: &str = ".mcp.json";

/// What is not taken: its key in the manifest, where it is by default, and why.
const LEFT: [(&str, &str, &str); 10] = [
    ("hooks", "hooks/", "they would run by themselves"),
    ("commands", "commands/", "they speak to the other program alone"),
    ("agents", "agents/", "they speak to the other program alone"),
    ("lspServers", ".lsp.json", "language servers are for editors"),
    ("monitors", "monitors/", "they would run by themselves"),
    ("outputStyles", "output-styles/", "they speak to the other program alone"),
    ("themes", "themes/", "they speak to the other program alone"),
    ("channels", "channels/", "they speak to the other program alone"),
    ("settings", "settings.json", "they speak to the other program alone"),
    ("dependencies", "", "other plugins are not fetched; import them too"),
];
const KNOWN: [&str; 14] = [
    "name",
    "$schema",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "displayName",
    "skills",
    "mcpServers",
    "userConfig",
    "experimental",
];

/// Reads a plugin.
pub(crate) fn read(mut tree: Tree<'_, '_>, file: Option<&str>, options: Options) -> Result<Bundle, Refused> {
    let mut notes = tree.notes(MANIFEST);
    let manifest = match object(&tree, MANIFEST) {
        Some(found) => found?,
        None => Map::new(),
    };
    let text = |key: &str| manifest.get(key).and_then(Value::as_str);
    left_out(&tree, &manifest, &mut notes);
    let declared = mcpb::user_config(manifest.get("userConfig"), &mut notes);
    let (servers, configuration) = plugin_servers(&tree, &manifest, &declared, &mut notes, options);
    let roots = skill_roots(&manifest, &mut notes);
    let skills = skill::found(&tree, &roots, &mut notes);
    if servers.is_empty() && skills.is_empty() && notes.problems.is_empty() {
        notes.problem("the plugin has neither a server nor a skill, so nothing of it can be used here");
    }
    let stem = file.map(super::name::stem).unwrap_or_default();
    let folder = tree.folder.clone().unwrap_or_default();
    let name = text("name").unwrap_or(if folder.is_empty() { stem } else { &folder });
    let display = text("displayName").unwrap_or(name);
    let mut made = toolset::Made::new([name, folder.as_str(), stem], text("version"), display, &mut notes);
    made.describe(text("description"), &mut notes);
    made.definition.servers = servers;
    made.list(&skills);
    // What these say is in toolset.yaml now, without the values that were written out.
    tree.files.retain(|file| !configuration.iter().any(|path| path == file.path.as_str()));
    made.finish(skills, tree.files, notes)
}

/// A file that must be a JSON object, if it is there.
fn object(tree: &Tree<'_, '_>, path: &str) -> Option<Result<Map<String, Value>, Finding>> {
    tree.has(path).then(|| {
        tree.json(path).and_then(|value| match value {
            Value::Object(map) => Ok(map),
            _ => Err(Finding::new(crate::bundle::Code::InvalidManifest, Some(path), "must be a JSON object")),
        })
    })
}

fn left_out(tree: &Tree<'_, '_>, manifest: &Map<String, Value>, notes: &mut Notes) {
    let experimental = manifest.get("experimental").and_then(Value::as_object);
    for (key, place, why) in LEFT {
        let said = manifest.contains_key(key) || experimental.is_some_and(|map| map.contains_key(key));
        let files = match place {
            "" => 0,
            place if place.ends_with('/') => tree.count_below(place),
            place => usize::from(tree.has(place)),
        };
        if said || files > 0 {
            let count = if files > 0 { format!(" ({files} files in {place})") } else { String::new() };
            notes.warn(format!("{key}{count} are not taken: {why}"));
        }
    }
    let left: Vec<&str> = LEFT.iter().map(|(key, ..)| *key).collect();
    let others: Vec<&str> =
        manifest.keys().map(String::as_str).filter(|key| !KNOWN.contains(key) && !left.contains(key)).collect();
    if !others.is_empty() {
        notes.warn(format!("not taken: {}", listed(others.into_iter())));
    }
}

/// The servers, and the files that they were read from.
fn plugin_servers(
    tree: &Tree<'_, '_>,
    manifest: &Map<String, Value>,
    declared: &BTreeMap<String, Declared>,
    notes: &mut Notes,
    options: Options,
) -> (Vec<kitbag_model::McpServer>, Vec<String>) {
    let scope = Scope { host: Host::Client, declared };
    let mut files = vec![MANIFEST.to_owned()];
    let mut paths = vec![SERVERS.to_owned()];
    let mut builder = Builder::new(notes, options);
    match manifest.get("mcpServers") {
        Some(Value::Object(map)) => servers::entries(&mut builder, "mcpServers", map, &scope),
        Some(Value::String(path)) => paths.extend(relative(builder.notes, "mcpServers", path)),
        Some(Value::Array(items)) => {
            for item in items {
                match item {
                    Value::String(path) => paths.extend(relative(builder.notes, "mcpServers", path)),
                    Value::Object(map) => servers::entries(&mut builder, "mcpServers", map, &scope),
                    _ => builder.notes.problem("mcpServers must hold paths or objects"),
                }
            }
        }
        None | Some(Value::Null) => {}
        Some(_) => builder.notes.problem("mcpServers must be a path, a list of paths or an object"),
    }
    paths.dedup();
    for path in paths {
        if path.ends_with(".mcpb") || path.ends_with(".dxt") {
            builder
                .notes
                .warn(format!("mcpServers: {} is a bundle of its own and is not taken; import it", shown(&path)));
            continue;
        }
        let main = builder.notes.file.replace(path.clone());
        match object(tree, &path) {
            Some(Ok(map)) => {
                match map.get("mcpServers") {
                    Some(Value::Object(inner)) => servers::entries(&mut builder, "mcpServers", inner, &scope),
                    Some(_) => builder.notes.problem("mcpServers must be an object"),
                    None => servers::entries(&mut builder, "", &map, &scope),
                }
                files.push(path);
            }
            Some(Err(finding)) => builder.notes.problems.push(finding),
            None if path == SERVERS => {}
            None => builder.notes.problem("is named by the plugin and is not in it"),
        }
        builder.notes.file = main;
    }
    (builder.servers, files)
}

/// The folders that skills are in.
fn skill_roots(manifest: &Map<String, Value>, notes: &mut Notes) -> Vec<String> {
    let mut roots = vec!["skills".to_owned()];
    let said = match manifest.get("skills") {
        Some(Value::String(path)) => vec![path.as_str()],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for path in said {
        if matches!(path, "." | "./") {
            roots.push(String::new());
        } else {
            roots.extend(relative(notes, "skills", path));
        }
    }
    roots
}

/// A path that a plugin names, which must be inside it.
fn relative(notes: &mut Notes, key: &str, path: &str) -> Option<String> {
    let plain = path.strip_prefix("./").unwrap_or(path);
    let plain = plain.strip_suffix('/').unwrap_or(plain);
    match plain.parse::<WorkPath>() {
        Ok(path) => Some(path.to_string()),
        Err(error) => {
            notes.problem(format!("{key}: \"{}\": {error}", shown(path)));
            None
        }
    }
}

/// Why a list of plugins is not imported, with what is in it.
pub(crate) fn marketplace(top: &Map<String, Value>, file: Option<&str>) -> Refused {
    let plugins = top.get("plugins").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = plugins.iter().filter_map(|plugin| plugin.get("name")?.as_str()).collect();
    let mut notes = Notes::new(file);
    notes.problem(format!(
        "this is a marketplace, a list of {} plugins; import the one you want from its own folder: {}",
        names.len(),
        listed(names.into_iter())
    ));
    notes.refused()
}

/// Reads the list of plugins of an archive.
pub(crate) fn marketplace_of(tree: &Tree<'_, '_>) -> Refused {
    match tree.content(MARKETPLACE).and_then(|bytes| json::parse(&bytes, Some(MARKETPLACE))) {
        Ok(Value::Object(top)) => marketplace(&top, Some(MARKETPLACE)),
        Ok(_) => marketplace(&Map::new(), Some(MARKETPLACE)),
        Err(finding) => finding.into(),
    }
}
