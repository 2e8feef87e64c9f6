//! The rules in tables, and what must hold for all lists.

mod bare;
mod names;
mod properties;
mod requests;
mod skills;
mod tables;

use super::{Catalogue, ConfiguredServer, Listed, Lists, RawLists, Resolved, State};
use crate::model_name;
use crate::tool_id::ToolId;

/// A tool of a catalogue.
pub(super) struct Tool {
    id: ToolId,
    toolset: String,
    model_name: String,
    off: bool,
    problem: Option<String>,
}

impl Listed for Tool {
    fn id(&self) -> &ToolId {
        &self.id
    }

    fn toolset(&self) -> &str {
        &self.toolset
    }

    fn model_name(&self) -> &str {
        &self.model_name
    }

    fn state(&self) -> State<'_> {
        match (self.off, &self.problem) {
            (true, _) => State::Off,
            (false, Some(problem)) => State::Problem(problem),
            (false, None) => State::Ready,
        }
    }
}

/// A whole catalogue, owned.
#[derive(Default)]
pub(super) struct World {
    tools: Vec<Tool>,
    toolsets: Vec<String>,
    servers: Vec<ConfiguredServer>,
    gone: Vec<ToolId>,
}

impl World {
    /// From ids. A `!` in front is a tool that is off, a `?` one with a problem.
    pub(super) fn new(ids: &[&str]) -> Self {
        let mut world = Self::default();
        for text in ids {
            let (off, broken) = (text.starts_with('!'), text.starts_with('?'));
            let id: ToolId = text.trim_start_matches(['!', '?']).parse().unwrap();
            let toolset = match &id {
                ToolId::Builtin(_) | ToolId::LegacyMcp { .. } => "builtin".to_owned(),
                ToolId::Toolset { toolset, .. } => toolset.to_string(),
                ToolId::Mcp { server, .. } => server.toolset.to_string(),
            };
            if let ToolId::Mcp { server, .. } = &id {
                world = world.server(&server.to_string(), true);
            }
            world = world.toolset(&toolset);
            let problem = broken.then(|| "it is broken".to_owned());
            world.tools.push(Tool { id, toolset, model_name: String::new(), off, problem });
        }
        let names = model_name::assign(world.tools.iter().map(|tool| &tool.id));
        for (tool, name) in world.tools.iter_mut().zip(names) {
            tool.model_name = name;
        }
        world
    }

    pub(super) fn toolset(mut self, id: &str) -> Self {
        if !self.toolsets.iter().any(|known| known == id) {
            self.toolsets.push(id.to_owned());
        }
        self
    }

    pub(super) fn server(mut self, key: &str, seen: bool) -> Self {
        let key: crate::name::ServerKey = key.parse().unwrap();
        self = self.toolset(key.toolset.as_str());
        if !self.servers.iter().any(|known| known.key == key) {
            self.servers.push(ConfiguredServer { key, seen, bare: false });
        }
        self
    }

    /// A server that said that it has no tools.
    pub(super) fn bare(mut self, key: &str) -> Self {
        self = self.server(key, true);
        self.servers.iter_mut().filter(|server| server.key.to_string() == key).for_each(|server| server.bare = true);
        self
    }

    pub(super) fn gone(mut self, id: &str) -> Self {
        self.gone.push(id.parse().unwrap());
        self
    }

    pub(super) fn catalogue(&self) -> Catalogue<'_, Tool> {
        Catalogue::new(&self.tools, &self.toolsets, &self.servers, &self.gone)
    }

    /// Which tools lists leave, by id, or all that is wrong with them.
    pub(super) fn global(&self, lists: &Lists) -> Result<String, String> {
        self.catalogue().resolve(lists).map(|left| self.ids(&left)).map_err(|problems| problems.to_string())
    }

    /// The same for a request.
    pub(super) fn request(&self, global: &Lists, request: &Lists) -> Result<String, String> {
        let catalogue = self.catalogue();
        let before = catalogue.resolve(global).map_err(|problems| format!("globally: {problems}"))?;
        let left = catalogue.resolve_within(&before, request);
        left.map(|left| self.ids(&left)).map_err(|problems| problems.to_string())
    }

    fn ids(&self, left: &Resolved) -> String {
        let ids: Vec<String> = left.tools.iter().map(|place| self.tools[*place].id.to_string()).collect();
        ids.join(" ")
    }
}

/// Lists from three texts; `-` is a list that is absent.
pub(super) fn lists(toolsets: &str, enabled: &str, disabled: &str) -> Lists {
    let text = |text| Some(text).filter(|text: &&str| *text != "-");
    let raw = RawLists {
        toolsets: text(toolsets),
        enabled_tools: text(enabled),
        disabled_tools: text(disabled),
        dynamic: None,
    };
    Lists::parse(raw).unwrap_or_else(|problems| panic!("{problems}"))
}
