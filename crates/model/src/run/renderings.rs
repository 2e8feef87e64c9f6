//! How the results of a run's tools are shown: as it was said when the run was made, whatever is said, or installed, since.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::wire::{FileRef, ToolsetSnapshot};
use crate::builtin::Builtin;
use crate::name::{LocalToolId, ServerId, ServerKey, ToolsetId};
use crate::override_key::OverrideKey;
use crate::overrides::{Layers, Override};
use crate::path::WorkPath;
use crate::renderer::Rendering;
use crate::tool_id::ToolId;

/// What an engine puts before the tools of MCP servers, and between a server and its tool.
const OF_SERVER: &str = "mcp__";
const BETWEEN: &str = "__";

/// The server that has a toolset's own tools, and those that are built in.
const OWN_SERVER: &str = "kitbag";

/// What engines call tools of their own, beside the names that tools have everywhere.
const OF_ENGINES: [(&str, &str); 2] = [("write", "write_file"), ("multiedit", "edit_file")];

/// What is said of how results are shown: by overrides alone, since which tools a server has is known on its machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunRenderings {
    /// By the toolset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bundle: Vec<(OverrideKey, Override)>,
    /// By a person, of the toolset's tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    user: Vec<(OverrideKey, Override)>,
    /// By a person, of the built-in tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    builtin: Vec<(OverrideKey, Override)>,
    /// The files of the toolset that may be shown, where the agent does not have them all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<WorkPath, FileRef>,
}

impl RunRenderings {
    /// What layers of overrides say; of the rest of them nothing is kept.
    pub fn new(toolset: Layers<'_>, builtin: &[(OverrideKey, Override)]) -> Self {
        Self {
            bundle: renderings(toolset.bundle),
            user: renderings(toolset.user),
            builtin: renderings(builtin),
            pages: BTreeMap::new(),
        }
    }

    /// All that is said of the toolset's tools.
    pub fn of_toolset(&self) -> impl Iterator<Item = &Rendering> {
        self.bundle.iter().chain(&self.user).filter_map(|(_, over)| over.rendering.as_ref())
    }

    /// The rendering of a tool, by the name that the agent has for it and the id that this means; none is shown by its shape.
    pub fn find(&self, name: &str, id: Option<&ToolId>) -> Option<Rendering> {
        let layer = |bundle, user| Layers { bundle, user, trusted: true };
        let (said, name) = match id {
            Some(id @ ToolId::Builtin(tool)) => (layer(&[], &self.builtin).rendering(id), tool.as_str()),
            Some(id) => (layer(&self.bundle, &self.user).rendering(id), id.override_parts().1),
            None => (None, engines_own(name)),
        };
        said.map(|chosen| chosen.value).or_else(|| Rendering::by_tool_name(name))
    }
}

fn renderings(layer: &[(OverrideKey, Override)]) -> Vec<(OverrideKey, Override)> {
    let only = |rendering: &Rendering| Override { rendering: Some(rendering.clone()), ..Override::default() };
    layer.iter().filter_map(|(key, over)| Some((key.clone(), only(over.rendering.as_ref()?)))).collect()
}

/// The name by which a tool is known everywhere, of one that nothing more is known of.
fn engines_own(name: &str) -> &str {
    let bare = name.strip_prefix(OF_SERVER).and_then(|rest| rest.split_once(BETWEEN)).map_or(name, |(_, tool)| tool);
    OF_ENGINES.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(bare)).map_or(bare, |(_, known)| known)
}

impl ToolsetSnapshot {
    /// The file of it that is at this path, of those that an agent has with its code.
    pub fn program_file(&self, path: &WorkPath) -> Option<&FileRef> {
        self.program.as_ref()?.files.get(path)
    }

    fn has_tool(&self, id: &LocalToolId) -> bool {
        self.program.iter().flat_map(|program| &program.tools).any(|tool| tool.id == *id)
            || self.containers.iter().flat_map(|container| &container.tools).any(|tool| tool.id == *id)
    }
}

/// The tool that an agent's name for it means, in a run with this toolset; none for one of the agent's own.
pub fn tool_id(toolset: Option<&ToolsetSnapshot>, name: &str) -> Option<ToolId> {
    let rest = name.strip_prefix(OF_SERVER)?;
    let id: Option<ToolsetId> = toolset.and_then(|toolset| toolset.id.parse().ok());
    if let Some(tool) = rest.strip_prefix(OWN_SERVER).and_then(|rest| rest.strip_prefix(BETWEEN)) {
        let tool: LocalToolId = tool.parse().ok()?;
        return match id.filter(|_| toolset.is_some_and(|toolset| toolset.has_tool(&tool))) {
            Some(toolset) => Some(ToolId::Toolset { toolset, tool }),
            None => Builtin::find(&tool).map(Builtin::tool_id),
        };
    }
    // An id may have what stands between in it: the longest that fits is meant.
    let fits = |server: &str| rest.strip_prefix(server)?.strip_prefix(BETWEEN);
    let servers = toolset?.mcp_servers.iter().filter_map(|server| Some((&server.id, fits(&server.id)?)));
    let (server, tool) = servers.max_by_key(|(server, _)| server.len())?;
    let server: ServerId = server.parse().ok()?;
    Some(ToolId::Mcp { server: ServerKey { toolset: id?, server }, tool: tool.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn toolset() -> ToolsetSnapshot {
        let server = |id: &str| json!({ "id": id, "serverType": "stdio", "enabled": true });
        let tool = json!({
            "id": "draw", "entrypoint": "tools:draw", "title": "Draw", "description": "", "inputSchema": {}, "requiresConfirmation": false,
        });
        let needs = serde_json::to_value(crate::python::PythonNeeds::default()).unwrap();
        serde_json::from_value(json!({
            "id": "studio", "name": "Studio", "version": "1.0.0", "agentSkills": [],
            "mcpServers": [server("a"), server("a__b")],
            "program": { "generation": "g", "files": {}, "tools": [tool], "needs": needs, "network": false, "trusted": false },
        }))
        .unwrap()
    }

    fn over(key: &str, renderer: &str) -> (OverrideKey, Override) {
        let toolset = "studio".parse().unwrap();
        let over = json!({ "renderer": renderer, "nameOverride": "Other", "enabled": false });
        (OverrideKey::parse(key, &toolset).unwrap(), serde_json::from_value(over).unwrap())
    }

    #[test]
    fn what_an_agents_names_mean() {
        let toolset = toolset();
        for (name, with, without) in [
            ("mcp__kitbag__draw", Some("studio:draw"), None),
            ("mcp__kitbag__read_file", Some("read_file"), Some("read_file")),
            ("mcp__kitbag__nothing", None, None),
            ("mcp__a__list", Some("mcp:studio~a:list"), None),
            ("mcp__a__b__list", Some("mcp:studio~a__b:list"), None),
            ("mcp__a__", None, None),
            ("mcp__other__list", None, None),
            ("Bash", None, None),
        ] {
            let found = |toolset| tool_id(toolset, name).map(|id| id.to_string());
            assert_eq!((found(Some(&toolset)).as_deref(), found(None).as_deref()), (with, without), "{name}");
        }
    }

    #[test]
    fn what_was_said_is_what_is_shown() {
        let bundle = [over("draw", "html"), over("a:*", "key-value"), over("mcp:mcp:*", "task")];
        let user = [over("a:list", "code")];
        let builtin = [over("builtin:read_file", "document")];
        let kept = RunRenderings::new(Layers { bundle: &bundle, user: &user, trusted: false }, &builtin);
        let text = serde_json::to_string(&kept).unwrap();
        assert!(!text.contains("Other") && !text.contains("pages"), "{text}");
        let kept: RunRenderings = serde_json::from_str(&text).unwrap();
        assert_eq!(kept.bundle[2].0, bundle[2].0);
        assert_eq!(kept.of_toolset().count(), 4);
        let toolset = toolset();
        for (name, renderer) in [
            ("mcp__kitbag__draw", Some("html")),
            ("mcp__kitbag__read_file", Some("document")),
            ("mcp__kitbag__run_command", Some("terminal")),
            ("mcp__a__list", Some("code")),
            ("mcp__a__get", Some("key-value")),
            ("mcp__a__b__read", Some("file-read")),
            ("mcp__other__search", Some("web-search")),
            ("MultiEdit", Some("file-diff")),
            ("Write", Some("file-diff")),
            ("Bash", Some("terminal")),
            ("Skill", None),
        ] {
            let id = tool_id(Some(&toolset), name);
            let found = kept.find(name, id.as_ref());
            assert_eq!(found.map(|rendering| rendering.renderer().name()), renderer, "{name}");
        }
        // Of a run that was made before any of this was kept.
        let nothing: RunRenderings = serde_json::from_str("{}").unwrap();
        assert_eq!(nothing.find("mcp__kitbag__draw", None), None);
    }
}
