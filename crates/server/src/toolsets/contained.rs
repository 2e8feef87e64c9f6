//! Tools of containers: as they are listed, and ready to be called.

use std::collections::HashSet;

use kitbag_model::overrides::confirmation;
use kitbag_model::run::wire::ContainedTool;
use kitbag_model::{Chosen, ContainerTool, Effective, Installed, InstalledContainer, Layers, OrgId, Origin, ToolId};
use kitbag_store::StoreError;
use serde_json::Value;
use tokio::task::JoinSet;

use super::Toolsets;
use super::callable::{Callable, Refusal, Runs};
use super::catalogue::{Provider, Tool, by_name};
use crate::api::error::{ApiError, Code};
use crate::containers::{Contained, PrepareError, Prepared};

/// The tools of all containers of a toolset. `no_engine` says why none of them can run, if that is so.
pub(super) fn all_of<'a>(one: &'a Installed, no_engine: Option<&'a str>) -> impl Iterator<Item = Tool> + 'a {
    first_of(one).into_iter().map(move |(container, tool)| of_one(one, container, tool, no_engine))
}

/// The tools of all containers of a toolset, the first of each id: an image may say of itself that it has a tool whose id another one has already.
fn first_of(one: &Installed) -> Vec<(&InstalledContainer, &ContainerTool)> {
    let mut taken: HashSet<String> = one.tools.iter().map(|tool| tool.id.folded()).collect();
    let every = one.containers.iter().flat_map(|container| container.tools().iter().map(move |tool| (container, tool)));
    every.filter(|(_, tool)| taken.insert(tool.id.folded())).collect()
}

/// The tool of this id.
fn named<'a>(one: &'a Installed, name: &str) -> Option<(&'a InstalledContainer, &'a ContainerTool)> {
    first_of(one).into_iter().find(|(_, tool)| tool.id.as_str() == name)
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

/// The tools of a container of a toolset that are on, for an agent elsewhere.
pub(super) fn for_agents(one: &Installed, container: &InstalledContainer) -> Vec<ContainedTool> {
    let own = first_of(one).into_iter().filter(|(of, _)| of.container.id == container.container.id);
    let on = own.filter_map(|(container, tool)| {
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
    /// A container's tool, ready to be called. Its image is fetched or built if it is not there; a call does not wait for all of that.
    pub(super) async fn of_container(
        &self,
        org: &OrgId,
        id: &ToolId,
        one: &Installed,
        name: &str,
    ) -> Result<Callable, Refusal> {
        let not_found = || Refusal::NotFound(id.to_string());
        let again;
        let (one, (container, tool)) = match named(one, name) {
            Some(known) => (one, known),
            None => {
                again = self.asked(org, one).await?.ok_or_else(not_found)?;
                (&again, named(&again, name).ok_or_else(not_found)?)
            }
        };
        let mut shown = of_one(one, container, tool, None);
        shown.problem = None;
        if !(shown.toolset_enabled && shown.effective.enabled.value) {
            // Whoever asked is told that it is off, whatever else is wrong with it.
            let what = contained(one, container, tool, String::new());
            return Ok(Callable::new(shown, Runs::Container(Box::new(what)), String::new(), false));
        }
        let prepared = self.containers.prepare_soon(org, &one.toolset.id, &container.container.id).await;
        let Prepared { installed, image } = prepared.map_err(|error| refusal(id, error))?;
        // Everything from what was looked at just now: it may have been pinned, and have other tools, or be another one altogether.
        let (container, tool) = named(&installed, name)
            .filter(|(of, _)| of.container.id == container.container.id)
            .ok_or_else(not_found)?;
        let pinned = container.settled().ok_or_else(not_found)?;
        let generation = format!("{}+{}", container.fingerprint(), pinned.id);
        let shown = of_one(&installed, container, tool, None);
        let what = contained(&installed, container, tool, image);
        Ok(Callable::new(shown, Runs::Container(Box::new(what)), generation, false))
    }

    /// A toolset after those of its containers were asked of which nobody knows yet which tools they have, and that may be. Nothing, if there are
    /// none. All of them together have as long as one.
    async fn asked(&self, org: &OrgId, one: &Installed) -> Result<Option<Installed>, StoreError> {
        let may_say = |one: &&InstalledContainer| {
            one.container.enabled && one.container.tools.is_empty() && one.settled().is_none() && one.is_trusted()
        };
        let toolset = &one.toolset.id;
        let mut asking = JoinSet::new();
        for container in one.containers.iter().filter(may_say) {
            let (containers, org, toolset) = (self.containers.clone(), org.clone(), toolset.clone());
            let id = container.container.id.clone();
            asking.spawn(async move { containers.prepare_soon(&org, &toolset, &id).await.is_ok() });
        }
        let mut any = false;
        while let Some(done) = asking.join_next().await {
            any |= done.unwrap_or(false);
        }
        if any { self.store.read_beside(org).await?.installed(toolset).await } else { Ok(None) }
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
        PrepareError::NotAllowed(_) | PrepareError::Engine(_) | PrepareError::Failed(_) | PrepareError::Busy { .. } => {
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
            PrepareError::NotAllowed(_)
            | PrepareError::Engine(_)
            | PrepareError::Failed(_)
            | PrepareError::Busy { .. } => Code::Unavailable,
            PrepareError::Store(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}
