//! What a file is.

use serde_json::{Map, Value};

use super::{Kind, Tree};
use crate::archive::Archive;
use crate::bundle::{Code, Finding};
use crate::foreign::{mcpb, plugin};
use crate::skill::ENTRY;

/// What an archive can be, in the order in which that is asked.
pub(super) const ARCHIVES: [Kind; 5] = [Kind::Toolset, Kind::Mcpb, Kind::Marketplace, Kind::Plugin, Kind::Skill];

/// What an archive is, and its files as seen from the top, or from the one folder that everything is in.
pub(super) fn archive<'a, 'b>(archive: &'a Archive<'b>) -> Result<Option<(Kind, Tree<'a, 'b>)>, Finding> {
    let tree = Tree::new(archive);
    if let Some(kind) = kind(&tree)? {
        return Ok(Some((kind, tree)));
    }
    let Some(tree) = tree.inside() else { return Ok(None) };
    Ok(kind(&tree)?.map(|kind| (kind, tree)))
}

fn kind(tree: &Tree<'_, '_>) -> Result<Option<Kind>, Finding> {
    let mut kinds = Vec::new();
    for kind in ARCHIVES {
        let is = match kind {
            Kind::Toolset => tree.has("toolset.yaml") || tree.has("toolset.yml"),
            Kind::Mcpb => is_mcpb(tree)?,
            Kind::Marketplace => tree.has(plugin::MARKETPLACE),
            // Servers and skills alone make a plugin only of what is nothing else: a toolset has skills too.
            Kind::Plugin => {
                let alone = kinds.is_empty() && (tree.has(plugin::SERVERS) || tree.count_below("skills/") > 0);
                tree.has(plugin::MANIFEST) || alone
            }
            Kind::Skill => tree.has(ENTRY),
            Kind::McpServersJson | Kind::ServerJson => false,
        };
        if is {
            kinds.push(kind);
        }
    }
    match kinds.as_slice() {
        [] => Ok(None),
        [kind] => Ok(Some(*kind)),
        [one, other, ..] => {
            let message = format!(
                "this can be read in two ways: as {} and as {}; remove what makes it one of them",
                one.as_str(),
                other.as_str()
            );
            Err(Finding::new(Code::InvalidBundle, None, message))
        }
    }
}

/// Many things have a `manifest.json`; that of an MCP bundle has a server.
fn is_mcpb(tree: &Tree<'_, '_>) -> Result<bool, Finding> {
    if !tree.has(mcpb::MANIFEST) {
        return Ok(false);
    }
    let others = ["toolset.yaml", "toolset.yml", plugin::MANIFEST, plugin::MARKETPLACE, plugin::SERVERS, ENTRY];
    match tree.json(mcpb::MANIFEST) {
        Ok(value) => Ok(value.get("server").is_some()),
        // Beside something else it is that thing's own file, and may be anything.
        Err(_) if others.iter().any(|path| tree.has(path)) || tree.count_below("skills/") > 0 => Ok(false),
        Err(finding) => Err(finding),
    }
}

/// What a JSON file can be.
pub(super) enum Json {
    /// A list of servers below this key, or as the file itself.
    Servers(Option<&'static str>),
    Registry,
    Marketplace,
}

/// What a JSON file is, or why that cannot be said.
pub(super) fn json(top: &Map<String, Value>) -> Result<Json, String> {
    let has = |key: &str| top.contains_key(key);
    let schema = top.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let editor = top
        .get("servers")
        .and_then(Value::as_object)
        .is_some_and(|map| has("inputs") || are_servers(map, &["type", "command", "url"]));
    let found = [
        ("a list of MCP servers (mcpServers)", has("mcpServers"), Json::Servers(Some("mcpServers"))),
        ("a list of MCP servers (servers)", editor, Json::Servers(Some("servers"))),
        (
            "a registry entry (packages or remotes)",
            schema.contains("server.schema.json") || has("packages") || has("remotes"),
            Json::Registry,
        ),
        ("a marketplace (plugins and owner)", has("plugins") && has("owner"), Json::Marketplace),
    ];
    let mut found: Vec<(&str, Json)> =
        found.into_iter().filter(|(_, is, _)| *is).map(|(what, _, json)| (what, json)).collect();
    match found.as_slice() {
        [] if are_servers(top, &["command", "url"]) => Ok(Json::Servers(None)),
        [] if has("server") && (has("manifest_version") || has("dxt_version")) => {
            Err("this is the manifest of an MCP bundle; import the bundle, which has its files too".to_owned())
        }
        [] => Err(format!(
            "this is nothing that can be imported; a JSON file can be {} or {}",
            Kind::McpServersJson.as_str(),
            Kind::ServerJson.as_str()
        )),
        [_] => Ok(found.remove(0).1),
        [(one, _), (other, _), ..] => {
            Err(format!("this can be read in two ways: as {one} and as {other}; remove one of them"))
        }
    }
}

/// Whether every value is a server: an object with one of these keys.
fn are_servers(map: &Map<String, Value>, keys: &[&str]) -> bool {
    let is_server = |value: &Value| keys.iter().any(|key| value.get(key).is_some_and(Value::is_string));
    !map.is_empty() && map.values().all(is_server)
}
