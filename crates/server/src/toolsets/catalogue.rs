//! All tools that there are, whoever provides them, with what holds for each after the overrides.
//!
//! The order is that of the catalogue everywhere: built-in tools, then toolsets in the order of their installation, each with
//! its tools as its author listed them.

use std::collections::{HashMap, HashSet};

use kitbag_model::overrides::confirmation;
use kitbag_model::resolution::{self, ConfiguredServer, Listed, State};
use kitbag_model::{
    Audience, BUILTINS, Builtin, Chosen, Effective, Installed, InstalledServer, Layers, OrgId, Origin, Override,
    OverrideKey, Pin, PythonTool, Rendering, ServerKey, ToolId, ToolsetId, model_name,
};
use kitbag_python::{Described, Description};
use serde_json::{Map, Value, json};

use super::contained;
use super::provided::Provided;
use super::skills::OfferedSkill;
use super::{ToolsetError, Toolsets, blocking};

/// What provides a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Provider {
    Builtin,
    Python,
    Mcp,
    Container,
}

impl Provider {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Python => "python",
            Self::Mcp => "mcp",
            Self::Container => "container",
        }
    }
}

/// A tool.
pub(crate) struct Tool {
    pub(crate) id: ToolId,
    pub(crate) provider: Provider,
    /// The toolset's id and name; that of the built-in tools is `builtin`.
    pub(crate) toolset: (String, String),
    /// What a model calls it.
    pub(crate) model_name: String,
    pub(crate) input_schema: Value,
    /// What it returns, if its code says so.
    pub(crate) output_schema: Option<Value>,
    /// All that its server says of it, if it is a server's.
    pub(crate) definition: Option<Map<String, Value>>,
    pub(crate) effective: Effective,
    /// Whether its toolset is on.
    pub(crate) toolset_enabled: bool,
    /// Why its code cannot be called.
    pub(crate) problem: Option<String>,
}

impl Tool {
    /// Whether it can be called now: it and its toolset are on, and its code is sound as far as is known.
    pub(crate) fn is_available(&self) -> bool {
        self.toolset_enabled && self.effective.enabled.value && self.problem.is_none()
    }
}

impl Listed for Tool {
    fn id(&self) -> &ToolId {
        &self.id
    }

    fn toolset(&self) -> &str {
        &self.toolset.0
    }

    fn model_name(&self) -> &str {
        &self.model_name
    }

    fn state(&self) -> State<'_> {
        match &self.problem {
            _ if !(self.toolset_enabled && self.effective.enabled.value) => State::Off,
            Some(problem) => State::Problem(problem),
            None => State::Ready,
        }
    }
}

/// What was found in the code of toolsets.
pub(super) type Descriptions = HashMap<ToolsetId, Description>;

/// All tools, and what else a list of tools may name.
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<Tool>,
    /// The ids of all toolsets, `builtin` first.
    toolsets: Vec<String>,
    pub(crate) servers: Vec<ConfiguredServer>,
    /// Tools that their servers had once.
    gone: Vec<ToolId>,
    /// The skills that are on.
    pub(crate) skills: Vec<OfferedSkill>,
    /// The toolsets that have some.
    skilled: Vec<String>,
}

impl Toolsets {
    /// All tools of an organisation that an audience sees. What it does not see is left out before names are given, so that nothing tells of
    /// it.
    pub(crate) async fn catalogue(&self, org: &OrgId, audience: Audience) -> Result<Catalogue, ToolsetError> {
        self.make_catalogue(org, audience, true).await
    }

    /// The same without a look into anybody's code: enough to know which tools there are, and not what they are.
    pub(crate) async fn catalogue_of_names(&self, org: &OrgId, audience: Audience) -> Result<Catalogue, ToolsetError> {
        self.make_catalogue(org, audience, false).await
    }

    async fn make_catalogue(&self, org: &OrgId, audience: Audience, look: bool) -> Result<Catalogue, ToolsetError> {
        let mut tx = self.store.read_beside(org).await?;
        let (builtin, mut installed) = (tx.builtin_overrides().await?, tx.all_installed().await?);
        let mut pins = tx.all_pins().await?;
        drop(tx);
        let hidden: HashSet<ToolsetId> =
            installed.extract_if(.., |one| !audience.sees(&one.toolset)).map(|one| one.toolset.id).collect();
        pins.retain(|pin| !hidden.contains(&pin.server.toolset));
        let described = if look { self.descriptions(org, &installed).await? } else { Descriptions::new() };
        if installed.iter().any(|one| !one.containers.is_empty()) {
            self.containers.look(org).await;
        }
        let no_engine = self.containers.problem(org);
        let (servers, org) = (self.servers.clone(), org.clone());
        // With many patterns this is work.
        Ok(blocking(move || {
            let provided = Provided { servers: &servers, org: &org, pins: &pins };
            Catalogue::new(&builtin, &installed, &described, &provided, no_engine.as_deref())
        })
        .await)
    }
}

impl Catalogue {
    fn new(
        builtin: &[(OverrideKey, Override)],
        installed: &[Installed],
        described: &Descriptions,
        provided: &Provided<'_>,
        no_engine: Option<&str>,
    ) -> Self {
        let mut tools: Vec<Tool> = BUILTINS.iter().map(|tool| of_builtin(tool, builtin)).collect();
        for one in installed {
            let found = described.get(&one.toolset.id);
            tools.extend(one.tools.iter().map(|tool| of_toolset(one, tool, found)));
            tools.extend(contained::all_of(one, no_engine));
            tools.extend(one.servers.iter().flat_map(|server| provided.tools(one, server)));
        }
        let names = model_name::assign(tools.iter().map(|tool| &tool.id));
        for (tool, name) in tools.iter_mut().zip(names) {
            tool.model_name = name;
        }
        let toolsets = installed.iter().map(|one| one.toolset.id.to_string());
        let gone = |pin: &&Pin| !pin.listed;
        let skills: Vec<OfferedSkill> = installed.iter().flat_map(OfferedSkill::all_of).collect();
        let mut skilled: Vec<String> = skills.iter().map(|skill| skill.toolset.to_string()).collect();
        skilled.dedup();
        let servers = configured(installed, &tools);
        Self {
            tools,
            toolsets: ["builtin".to_owned()].into_iter().chain(toolsets).collect(),
            servers,
            gone: provided.pins.iter().filter(gone).map(tool_id).collect(),
            skills,
            skilled,
        }
    }

    /// As lists of tools look at it.
    pub(crate) fn view(&self) -> resolution::Catalogue<'_, Tool> {
        resolution::Catalogue::new(&self.tools, &self.toolsets, &self.servers, &self.gone).with_skills(&self.skilled)
    }

    /// Only the tools that fit all words of a search, by id, name and description.
    pub(crate) fn search(self, query: &str) -> Self {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let fits = |tool: &Tool| {
            let description = tool.effective.description.value.as_deref().unwrap_or_default();
            let text =
                format!("{} {} {} {description}", tool.id, tool.effective.name.value, tool.toolset.1).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        Self { tools: self.tools.into_iter().filter(fits).collect(), ..self }
    }

    /// Only the tools that can be called now.
    pub(crate) fn available(self) -> Self {
        Self { tools: self.tools.into_iter().filter(Tool::is_available).collect(), ..self }
    }

    /// One tool.
    pub(crate) fn find(self, id: &ToolId) -> Option<Tool> {
        self.tools.into_iter().find(|tool| tool.id == *id)
    }
}

/// The server whose tool this is, if it is one's.
pub(crate) fn server_of(id: &ToolId) -> Option<&ServerKey> {
    match id {
        ToolId::Mcp { server, .. } => Some(server),
        ToolId::Builtin(_) | ToolId::Toolset { .. } | ToolId::LegacyMcp { .. } => None,
    }
}

/// The servers of these toolsets.
fn configured(installed: &[Installed], tools: &[Tool]) -> Vec<ConfiguredServer> {
    let with_tools: HashSet<&ServerKey> = tools.iter().filter_map(|tool| server_of(&tool.id)).collect();
    let of_one = |one: &Installed| -> Vec<ConfiguredServer> {
        let server = |server: &InstalledServer| {
            let key = one.server_key(&server.server);
            let seen = server.tools_seen_at.is_some();
            let is_on = one.toolset.enabled && server.is_enabled();
            ConfiguredServer { bare: seen && is_on && !with_tools.contains(&key), seen, key }
        };
        one.servers.iter().map(server).collect()
    };
    installed.iter().flat_map(of_one).collect()
}

fn tool_id(pin: &Pin) -> ToolId {
    ToolId::Mcp { server: pin.server.clone(), tool: pin.tool.clone() }
}

pub(super) fn of_builtin(tool: &Builtin, overrides: &[(OverrideKey, Override)]) -> Tool {
    // A person's own words: there is no bundle that could have brought them.
    let layers = Layers { bundle: &[], user: overrides, trusted: true };
    let id = tool.tool_id();
    let base = Effective {
        name: Chosen::new(tool.name.to_owned(), Origin::Tool),
        description: Chosen::new(Some(tool.description.to_owned()), Origin::Tool),
        rendering: by_name(tool.id),
        requires_confirmation: Chosen::new(tool.requires_confirmation, Origin::Tool),
        enabled: Chosen::new(true, Origin::Default),
    };
    Tool {
        provider: Provider::Builtin,
        toolset: ("builtin".to_owned(), "Built-in".to_owned()),
        model_name: String::new(),
        input_schema: tool.input_schema(),
        output_schema: None,
        definition: None,
        effective: layers.apply(&id, base),
        toolset_enabled: true,
        problem: None,
        id,
    }
}

/// A tool of a toolset: what a person or the toolset overrides, then what its manifest says, then what its code does.
pub(super) fn of_toolset(one: &Installed, tool: &PythonTool, found: Option<&Description>) -> Tool {
    let layers = Layers { bundle: &one.bundle_overrides, user: &one.user_overrides, trusted: one.is_trusted() };
    let found: Option<&Described> =
        found.and_then(|found| found.tools.iter().find(|d| d.entrypoint == tool.entrypoint));
    let sound = found.filter(|found| found.problem.is_none());
    let id = ToolId::Toolset { toolset: one.toolset.id.clone(), tool: tool.id.clone() };
    let name = tool.name.as_ref().map(ToString::to_string).or_else(|| sound?.name.clone());
    let description = tool.description.as_ref().map(ToString::to_string).or_else(|| sound?.description.clone());
    let said = if description.is_some() { Origin::Tool } else { Origin::Default };
    let decorated = sound.and_then(|found| found.requires_confirmation);
    let base = Effective {
        name: match name {
            Some(name) => Chosen::new(name, Origin::Tool),
            None => Chosen::new(tool.id.to_string(), Origin::Default),
        },
        description: Chosen::new(description, said),
        rendering: by_name(tool.id.as_str()),
        requires_confirmation: confirmation(
            false,
            &[(tool.requires_confirmation, Origin::Tool), (decorated, Origin::Tool)],
        ),
        enabled: Chosen::new(tool.enabled, if tool.enabled { Origin::Default } else { Origin::Tool }),
    };
    let schema = sound.map(|found| found.input_schema.clone()).or_else(|| tool.input_schema.clone());
    Tool {
        provider: Provider::Python,
        toolset: (one.toolset.id.to_string(), one.toolset.name.to_string()),
        model_name: String::new(),
        input_schema: schema.map_or_else(|| json!({ "type": "object" }), Value::Object),
        output_schema: sound.and_then(|found| found.output_schema.clone()).map(Value::Object),
        definition: None,
        effective: layers.apply(&id, base),
        toolset_enabled: one.toolset.enabled,
        problem: found.and_then(|found| found.problem.clone()),
        id,
    }
}

/// How the results of a tool of this name are shown if nobody says so.
pub(super) fn by_name(name: &str) -> Chosen<Option<Rendering>> {
    Chosen::new(Rendering::by_tool_name(name), Origin::Default)
}
