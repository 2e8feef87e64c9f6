//! Overrides in a manifest: under `tool_overrides`, and in the old way under `tools[].renderer`.

use std::str::FromStr;

use kitbag_model::{
    Container, Description, DisplayName, LocalToolId, McpServer, Override, OverrideKey, PythonTool, RendererError,
    Rendering, ToolId, ToolsetId, renderer,
};
use serde_json::{Map, Value as Json};

use super::read::{Manifest, Seen};
use super::{Reference, keys};
use crate::yaml::{Fields, Node, Place, Value};

/// Every pattern is held against every tool, each time that tools are listed.
const MOST_PATTERNS: usize = 100;

/// What a manifest has that overrides may be about.
pub(super) struct Known<'a> {
    pub(super) tools: &'a [PythonTool],
    pub(super) servers: &'a [McpServer],
    pub(super) containers: &'a [Container],
}

impl Known<'_> {
    /// Whether there is such a tool, or may be: an image may say itself which it has.
    fn has_tool(&self, id: &str) -> bool {
        let of_containers = self.containers.iter().flat_map(|container| &container.tools).map(|tool| &tool.id);
        self.containers.iter().any(|container| container.tools.is_empty())
            || self.tools.iter().map(|tool| &tool.id).chain(of_containers).any(|known| known.as_str() == id)
    }
}

/// A renderer that a tool brings in the old way.
pub(super) struct Legacy {
    key: OverrideKey,
    rendering: Rendering,
    at: Place,
}

impl Legacy {
    pub(super) fn new(toolset: &ToolsetId, tool: &LocalToolId, rendering: Rendering, at: Place) -> Self {
        let tool = ToolId::Toolset { toolset: toolset.clone(), tool: tool.clone() };
        Self { key: OverrideKey::of(&tool), rendering, at }
    }
}

/// The renderer of a tool, in the old way: its `type` among its configuration.
pub(super) fn legacy(manifest: &mut Manifest<'_, '_>, tool: &Fields<'_>) -> Option<(Rendering, Place)> {
    let (node, what) = (tool.get("renderer")?, tool.path("renderer"));
    let fields = manifest.reader.any_fields(node, &what, &[])?;
    let named = manifest.reader.required(&fields, "type")?;
    let name = manifest.reader.text(named, &fields.path("type"))?;
    let mut config = manifest.reader.json_map(node, &what)?;
    config.shift_remove("type");
    let rendering = check(manifest, name, named, &config, Some(node), &what)?;
    Some((rendering, node.at))
}

/// Checks a renderer and its configuration, and tells what is wrong where it is.
fn check(
    manifest: &mut Manifest<'_, '_>,
    name: &str,
    named: &Node,
    config: &Map<String, Json>,
    config_node: Option<&Node>,
    what: &str,
) -> Option<Rendering> {
    let error = match renderer::check(Some(name), Some(&Json::Object(config.clone()))) {
        Ok(rendering) => {
            for path in rendering.iter().flat_map(Rendering::files) {
                let line = config_node.and_then(|node| place_of(node, "artifact")).map_or(named.at.line, |at| at.line);
                manifest.references.push(Reference { what: what.to_owned(), any_of: vec![path], line });
            }
            return rendering;
        }
        Err(error) => error,
    };
    let place = match &error {
        RendererError::UnknownKeys { keys, .. } => keys.first().and_then(|key| place_of(config_node?, key)),
        RendererError::Type { key, .. } | RendererError::Path { key, .. } => place_of(config_node?, key),
        _ => None,
    };
    manifest.reader.problem(place.unwrap_or(named.at), format!("{what}: {error}"));
    None
}

/// Where a map has a key.
fn place_of(node: &Node, key: &str) -> Option<Place> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| entry.at),
        _ => None,
    }
}

/// All overrides of a manifest, the old ones first. Where both ways speak of one tool, `tool_overrides` wins.
pub(super) fn read(
    manifest: &mut Manifest<'_, '_>,
    top: &Fields<'_>,
    toolset: &ToolsetId,
    legacy: Vec<Legacy>,
    known: &Known<'_>,
) -> Vec<(OverrideKey, Override)> {
    let old = |legacy: &Legacy| Override { rendering: Some(legacy.rendering.clone()), ..Override::default() };
    let mut all: Vec<(OverrideKey, Override)> = legacy.iter().map(|legacy| (legacy.key.clone(), old(legacy))).collect();
    let mut seen = Seen::default();
    let mut patterns = 0;
    for (node, what) in manifest.reader.items(top, "tool_overrides") {
        let Some(fields) = manifest.reader.fields(node, &what, keys::OVERRIDE) else { continue };
        let key = key(manifest, &fields, toolset);
        let value = one(manifest, &fields);
        let (Some((key, at)), Some(value)) = (key, value) else { continue };
        if !seen.first(manifest.reader, key.as_str(), at, &format!("the override of \"{key}\"")) {
            continue;
        }
        warn_of_nothing(manifest, &key, at, toolset, known);
        if value.is_empty() {
            manifest.reader.warn(at, format!("the override of \"{key}\" overrides nothing"));
        }
        patterns += usize::from(key.is_pattern());
        if patterns == MOST_PATTERNS + 1 {
            manifest.reader.problem(at, format!("at most {MOST_PATTERNS} overrides may be patterns"));
        }
        match all.iter_mut().find(|(other, _)| *other == key) {
            None => all.push((key, value)),
            Some((_, merged)) => {
                if value.rendering.is_some() && value.rendering != merged.rendering {
                    let line = legacy.iter().find(|legacy| legacy.key == key).map_or(0, |legacy| legacy.at.line);
                    let message = format!(
                        "the override of \"{key}\" has another renderer than the tool itself (line {line}); the override counts"
                    );
                    manifest.reader.warn(at, message);
                }
                *merged = Override { rendering: value.rendering.clone().or(merged.rendering.take()), ..value };
            }
        }
    }
    all
}

fn key(manifest: &mut Manifest<'_, '_>, fields: &Fields<'_>, toolset: &ToolsetId) -> Option<(OverrideKey, Place)> {
    let node = manifest.reader.required(fields, "tool_id")?;
    let text = manifest.reader.text(node, &fields.path("tool_id"))?;
    match OverrideKey::parse(text, toolset) {
        Ok(key) => Some((key, node.at)),
        Err(error) => {
            manifest.reader.problem(node.at, format!("{}: {error}", fields.path("tool_id")));
            None
        }
    }
}

fn one(manifest: &mut Manifest<'_, '_>, fields: &Fields<'_>) -> Option<Override> {
    let name = text::<DisplayName>(manifest, fields, "name_override");
    let description = text::<Description>(manifest, fields, "description_override");
    let requires_confirmation = manifest.reader.bool_of(fields, "requires_confirmation");
    let enabled = manifest.reader.bool_of(fields, "enabled");
    let config_node = fields.get("renderer_config");
    let config = match config_node {
        Some(node) => manifest.reader.json_map(node, &fields.path("renderer_config"))?,
        None => Map::new(),
    };
    let rendering = match (fields.get("renderer"), config_node) {
        (Some(named), _) => {
            let name = manifest.reader.text(named, &fields.path("renderer"))?;
            Some(check(manifest, name, named, &config, config_node, &fields.what)?)
        }
        (None, Some(node)) => {
            manifest.reader.problem(node.at, format!("{}: {}", fields.what, RendererError::ConfigAlone));
            return None;
        }
        (None, None) => None,
    };
    Some(Override { rendering, name, description, requires_confirmation, enabled })
}

/// A text that overrides another, by that one's rule. An empty one overrides nothing and is kept as it is.
fn text<T: FromStr<Err: std::fmt::Display>>(
    manifest: &mut Manifest<'_, '_>,
    fields: &Fields<'_>,
    name: &str,
) -> Option<String> {
    let node = fields.get(name)?;
    let text = manifest.reader.text(node, &fields.path(name))?;
    if let Err(error) = text.parse::<T>()
        && !text.is_empty()
    {
        manifest.reader.problem(node.at, format!("{}: {error}", fields.path(name)));
    }
    Some(text.to_owned())
}

/// An override for a tool that may come later is kept; a slip of the pen looks the same, so it is told.
fn warn_of_nothing(
    manifest: &mut Manifest<'_, '_>,
    key: &OverrideKey,
    at: Place,
    toolset: &ToolsetId,
    known: &Known<'_>,
) {
    let namespace = key.namespace();
    let is_server = known.servers.iter().any(|server| server.id.as_str() == namespace);
    if key.is_pattern() || is_server {
        return;
    }
    if namespace != toolset.as_str() {
        manifest.reader.warn(at, format!("the override of \"{key}\" is for a server that this manifest does not have"));
    } else if !known.has_tool(key.tool()) {
        manifest.reader.warn(at, format!("the override of \"{key}\" is for a tool that this manifest does not have"));
    }
}
