//! Tools of containers: as they are listed, and ready to be called.

use kitbag_model::overrides::confirmation;
use kitbag_model::run::wire::ContainedTool;
use kitbag_model::{Chosen, ContainerTool, Effective, Installed, InstalledContainer, Layers, OrgId, Origin, ToolId};
use serde_json::Value;

use super::Toolsets;
use super::callable::{Callable, Refusal, Runs};
use super::catalogue::{Provider, Tool, by_name};
use crate::api::error::{ApiError, Code};
use crate::containers::{Contained, PrepareError, Prepared};

/// The tools of all containers of a toolset. `no_engine` says why none of them can run, if that is so.
pub(super) fn all_of<'a>(one: &'a Installed, no_engine: Option<&'a str>) -> impl Iterator<Item = Tool> + 'a {
    let mut taken: Vec<String> = one.tools.iter().map(|tool| tool.id.folded()).collect();
    let every = one.containers.iter().flat_map(|container| container.tools().iter().map(move |tool| (container, tool)));
    // An image may say of itself that it has a tool whose id another one has already.
    let first: Vec<_> = every
        .filter(|(_, tool)| {
            let (id, is_new) = (tool.id.folded(), !taken.contains(&tool.id.folded()));
            taken.push(id);
            is_new
        })
        .collect();
    first.into_iter().map(move |(container, tool)| of_one(one, container, tool, no_engine))
}

fn of_one(one: &Installed, container: &InstalledContainer, tool: &ContainerTool, no_engine: Option<&str>) -> Tool {
    let layers = Layers { bundle: &one.bundle_overrides, user: &one.user_overrides, trusted: one.is_trusted() };
    let id = ToolId::Toolset { toolset: one.toolset.id.clone(), tool: tool.id.clone() };
    let description = tool.description.as_ref().map(ToString::to_string);
    let said = if description.is_some() { Origin::Tool } else { Origin::Default };
    let enabled = tool.enabled && container.container.enabled;
    let base = Effective {
        name: match &tool.name {
            Some(name) => Chosen::new(name.to_string(), Origin::Tool),
            None => Chosen::new(tool.id.to_string(), Origin::Default),
        },
        description: Chosen::new(description, said),
        rendering: match &tool.rendering {
            Some(rendering) => Chosen::new(Some(rendering.clone()), Origin::Tool),
            None => by_name(tool.id.as_str()),
        },
        requires_confirmation: confirmation(false, &[(tool.requires_confirmation, Origin::Tool)]),
        enabled: Chosen::new(enabled, if enabled { Origin::Default } else { Origin::Tool }),
    };
    Tool {
        provider: Provider::Container,
        toolset: (one.toolset.id.to_string(), one.toolset.name.to_string()),
        model_name: String::new(),
        input_schema: Value::Object(tool.input_schema.clone()),
        output_schema: tool.output_schema.clone().map(Value::Object),
        definition: None,
        effective: layers.apply(&id, base),
        toolset_enabled: one.toolset.enabled,
        problem: problem(container, no_engine),
        id,
    }
}

/// The tools of a container that are on, for an agent elsewhere.
pub(super) fn for_agents(one: &Installed, container: &InstalledContainer) -> Vec<ContainedTool> {
    let is_python = |tool: &ContainerTool| one.tools.iter().any(|own| own.id.folded() == tool.id.folded());
    let tools = container.tools().iter().filter(|tool| !is_python(tool));
    let on = tools.filter_map(|tool| {
        let shown = of_one(one, container, tool, None).effective;
        shown.enabled.value.then(|| ContainedTool {
            id: tool.id.clone(),
            mcp_name: tool.mcp_name.clone(),
            command: tool.command.clone(),
            title: shown.name.value,
            description: shown.description.value.unwrap_or_default(),
            input_schema: tool.input_schema.clone(),
            output_schema: tool.output_schema.clone(),
            requires_confirmation: shown.requires_confirmation.value,
        })
    });
    on.collect()
}

/// Why a container's tools cannot be called now.
pub(crate) fn problem(one: &InstalledContainer, no_engine: Option<&str>) -> Option<String> {
    let id = &one.container.id;
    match (&one.moved_to, &one.pinned) {
        _ if !one.is_trusted() => Some(format!("the container {id} may not start before somebody trusts its toolset")),
        (Some(now), Some(pinned)) => Some(format!(
            "the image of the container {id} is not the one that was trusted: it was {} and is now {now}; look at it, then trust \
             the toolset again",
            pinned.id
        )),
        _ => no_engine.map(ToOwned::to_owned),
    }
}

impl Toolsets {
    /// A container's tool, ready to be called. Its image is fetched or built if it is not there, however long that takes.
    pub(super) async fn of_container(
        &self,
        org: &OrgId,
        id: &ToolId,
        one: &Installed,
        name: &str,
    ) -> Result<Callable, Refusal> {
        let not_found = || Refusal::NotFound(id.to_string());
        let has = |container: &InstalledContainer| container.tools().iter().any(|tool| tool.id.as_str() == name);
        let asked;
        let container = match one.containers.iter().find(|container| has(container)) {
            Some(container) => container,
            None => {
                asked = self.asked(org, one).await;
                asked.iter().find(|container| has(container)).ok_or_else(not_found)?
            }
        };
        let tool = container.tools().iter().find(|tool| tool.id.as_str() == name).ok_or_else(not_found)?;
        let mut shown = of_one(one, container, tool, None);
        shown.problem = None;
        if !(shown.toolset_enabled && shown.effective.enabled.value) {
            // Whoever asked is told that it is off, whatever else is wrong with it.
            let what = contained(one, container, tool, String::new());
            return Ok(Callable::new(shown, Runs::Container(Box::new(what)), String::new(), false));
        }
        let prepared = self.containers.prepare_soon(org, one, &container.container.id).await;
        let Prepared { pinned, image } = prepared.map_err(|error| refusal(id, error))?;
        let generation = format!("{}+{}", container.fingerprint(), pinned.id);
        // It may have been pinned just now, and have other tools than it had.
        let container = InstalledContainer { pinned: Some(pinned), moved_to: None, ..container.clone() };
        let tool = container.tools().iter().find(|tool| tool.id.as_str() == name).ok_or_else(not_found)?;
        let shown = of_one(one, &container, tool, None);
        let what = contained(one, &container, tool, image);
        Ok(Callable::new(shown, Runs::Container(Box::new(what)), generation, false))
    }
}

impl Toolsets {
    /// The containers of which nobody knows yet which tools they have, and that may be asked. They are, which may take a while.
    async fn asked(&self, org: &OrgId, one: &Installed) -> Vec<InstalledContainer> {
        let may_say = |one: &&InstalledContainer| {
            one.container.enabled && one.container.tools.is_empty() && one.settled().is_none() && one.is_trusted()
        };
        let mut asked = Vec::new();
        for container in one.containers.iter().filter(may_say) {
            if let Ok(Prepared { pinned, .. }) = self.containers.prepare_soon(org, one, &container.container.id).await {
                asked.push(InstalledContainer { pinned: Some(pinned), ..container.clone() });
            }
        }
        asked
    }
}

fn contained(one: &Installed, container: &InstalledContainer, tool: &ContainerTool, image: String) -> Contained {
    Contained { toolset: one.toolset.id.clone(), container: container.clone(), tool: tool.clone(), image }
}

fn refusal(id: &ToolId, error: PrepareError) -> Refusal {
    match error {
        PrepareError::NeedsTrust(_) => Refusal::NeedsTrust(error.to_string()),
        PrepareError::Moved { .. } => Refusal::Quarantined(error.to_string()),
        PrepareError::Bad(problem) => Refusal::Problem { id: id.clone(), problem },
        PrepareError::NotAllowed(_) | PrepareError::Engine(_) | PrepareError::Busy { .. } => {
            Refusal::Unavailable { id: id.clone(), reason: error.to_string() }
        }
        PrepareError::Store(error) => Refusal::Store(error),
    }
}

impl From<PrepareError> for ApiError {
    fn from(error: PrepareError) -> Self {
        let code = match error {
            PrepareError::NeedsTrust(_) => Code::NeedsTrust,
            PrepareError::Moved { .. } => Code::Quarantined,
            PrepareError::Bad(_) => Code::Conflict,
            PrepareError::NotAllowed(_) | PrepareError::Engine(_) | PrepareError::Busy { .. } => Code::Unavailable,
            PrepareError::Store(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}
