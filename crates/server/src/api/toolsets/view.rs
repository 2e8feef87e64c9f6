//! Toolsets as the API shows them.

use std::collections::BTreeMap;

use kitbag_model::{
    AdoptedFrom, ContainerTool, ImageSource, Installed, InstalledContainer, InstalledSkill, SourceType, Toolset,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::mcp_servers::{ServerView, Viewer};
use crate::api::tools::ToolView;

/// A toolset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Toolset)]
pub(crate) struct ToolsetView {
    id: String,
    name: String,
    version: String,
    #[schema(required)]
    description: Option<String>,
    /// Whether any of its tools is there at all.
    enabled: bool,
    /// Whether it was made for one MCP server that a person added.
    user_mcp: bool,
    #[schema(format = DateTime)]
    installed_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// `zip`, `local` or `url`.
    source_type: String,
    /// Where it came from.
    #[schema(required)]
    source_ref: Option<String>,
    /// Always `1`.
    manifest_version: &'static str,
    /// `private`, `org` or `public`.
    visibility: String,
    /// What it is published as, while it is.
    #[schema(required)]
    public_slug: Option<String>,
    /// Since when it is published.
    #[schema(required, format = DateTime)]
    published_at: Option<String>,
    /// The published toolset that it is a copy of.
    #[schema(required)]
    adopted_from: Option<AdoptedFromView>,
}

/// The published toolset that another one is a copy of.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AdoptedFrom)]
pub(crate) struct AdoptedFromView {
    /// Its id where it was published.
    toolset_id: String,
    /// What it was published as.
    public_slug: String,
    /// The version that was copied.
    version: String,
}

impl From<AdoptedFrom> for AdoptedFromView {
    fn from(from: AdoptedFrom) -> Self {
        let (toolset_id, public_slug) = (from.toolset_id.to_string(), from.public_slug.to_string());
        Self { toolset_id, public_slug, version: from.version }
    }
}

impl From<Toolset> for ToolsetView {
    fn from(toolset: Toolset) -> Self {
        Self {
            id: toolset.id.to_string(),
            name: toolset.name.to_string(),
            version: toolset.version.to_string(),
            description: toolset.description.map(|text| text.to_string()),
            enabled: toolset.enabled,
            user_mcp: toolset.user_mcp,
            installed_at: toolset.installed_at.to_string(),
            updated_at: toolset.updated_at.to_string(),
            source_type: toolset.source_type.to_string(),
            // A URL may have a query, and the query a token.
            source_ref: toolset.source_ref.map(|text| match toolset.source_type {
                SourceType::Url => text.split(['?', '#']).next().unwrap_or_default().to_owned(),
                _ => text,
            }),
            manifest_version: "1",
            visibility: toolset.visibility.to_string(),
            public_slug: toolset.public_slug.map(|slug| slug.to_string()),
            published_at: toolset.published_at.map(|at| at.to_string()),
            adopted_from: toolset.adopted_from.map(AdoptedFromView::from),
        }
    }
}

/// A skill of a toolset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentSkill)]
pub(crate) struct SkillView {
    id: String,
    name: String,
    #[schema(required)]
    description: Option<String>,
    /// Its folder in the toolset.
    path: String,
    enabled: bool,
}

impl From<&InstalledSkill> for SkillView {
    fn from(skill: &InstalledSkill) -> Self {
        Self {
            id: skill.skill.reference.id.to_string(),
            name: skill.skill.name.clone(),
            description: skill.skill.description.clone(),
            path: skill.skill.reference.path.to_string(),
            enabled: skill.is_enabled(),
        }
    }
}

/// A container of a toolset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Container)]
pub(crate) struct ContainerView {
    id: String,
    /// The image, by name or digest; null: it is built.
    #[schema(required)]
    image: Option<String>,
    /// The folder of the toolset that its image is built from.
    #[schema(required)]
    build: Option<String>,
    command: Vec<String>,
    /// What is started in place of that, by the ids of the tools for which it is something else.
    tool_commands: BTreeMap<String, Vec<String>>,
    /// The names of its variables.
    env_names: Vec<String>,
    /// Whether it reaches the network.
    network: bool,
    /// What it may use: `memory` in bytes, `milliCpus`, `pids`, `seconds`.
    #[schema(value_type = Object)]
    limits: serde_json::Value,
    enabled: bool,
    /// Whether a person trusts it as it is now.
    trusted: bool,
    /// The image that it was found to be when it was trusted.
    #[schema(required)]
    image_id: Option<String>,
    /// The image that its name means now, if that is another one.
    #[schema(required)]
    moved_to: Option<String>,
    /// Whether its image said in MCP which tools it has, and is called in it, in a container that stays.
    speaks_mcp: bool,
    /// Why its image could not be had, or does not say which tools it has, when that was last looked for.
    #[schema(required)]
    problem: Option<String>,
    /// The ids of its tools inside the toolset.
    tools: Vec<String>,
}

impl ContainerView {
    fn new(viewer: &Viewer<'_>, installed: &Installed, one: &InstalledContainer) -> Self {
        let why_not = viewer.app.containers().why_not(viewer.org, &installed.toolset.id, &one.container.id);
        let container = &one.container;
        let (image, build) = match &container.source {
            ImageSource::Image(name) => (Some(name.to_string()), None),
            ImageSource::Build(folder) => (None, Some(folder.to_string())),
        };
        Self {
            id: container.id.to_string(),
            image,
            build,
            command: container.command.clone(),
            tool_commands: tool_commands(one.tools()),
            env_names: container.env.keys().cloned().collect(),
            network: container.network,
            limits: serde_json::json!(container.limits),
            enabled: container.enabled,
            trusted: one.is_trusted(),
            image_id: one.pinned.as_ref().map(|pinned| pinned.id.clone()),
            moved_to: one.moved_to.clone(),
            speaks_mcp: one.speaks_mcp(),
            problem: why_not,
            tools: one.tools().iter().map(|tool| tool.id.to_string()).collect(),
        }
    }
}

/// The commands of tools that have one of their own.
pub(super) fn tool_commands(tools: &[ContainerTool]) -> BTreeMap<String, Vec<String>> {
    let own = tools.iter().filter(|tool| !tool.command.is_empty());
    own.map(|tool| (tool.id.to_string(), tool.command.clone())).collect()
}

/// A file of a toolset.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolsetFile)]
pub(crate) struct FileView {
    path: String,
    /// `python`, `artifact`, `asset` or `config`.
    kind: String,
    sha256: String,
    size: u64,
    executable: bool,
}

impl From<kitbag_model::ToolsetFile> for FileView {
    fn from(file: kitbag_model::ToolsetFile) -> Self {
        Self {
            path: file.path.to_string(),
            kind: file.kind.to_string(),
            sha256: file.sha256.to_string(),
            size: file.size,
            executable: file.executable,
        }
    }
}

/// A toolset with everything in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolsetDetail {
    #[serde(flatten)]
    toolset: ToolsetView,
    tools: Vec<ToolView>,
    mcp_servers: Vec<ServerView>,
    containers: Vec<ContainerView>,
    agent_skills: Vec<SkillView>,
    /// The first 1,000; `…/files` lists all.
    files: Vec<FileView>,
    /// Whether a person trusts it: then what it says about questions before calls counts.
    trusted: bool,
    /// What its tools may do: reach the network, leave processes behind.
    #[schema(value_type = Object)]
    permissions: serde_json::Value,
    /// What its Python tools need.
    #[schema(value_type = Object)]
    python: serde_json::Value,
}

impl ToolsetDetail {
    pub(crate) fn new(viewer: &Viewer<'_>, installed: Installed, tools: Vec<ToolView>, files: Vec<FileView>) -> Self {
        Self {
            tools,
            mcp_servers: installed.servers.iter().map(|server| ServerView::new(viewer, &installed, server)).collect(),
            containers: installed.containers.iter().map(|one| ContainerView::new(viewer, &installed, one)).collect(),
            agent_skills: installed.skills.iter().map(SkillView::from).collect(),
            files,
            trusted: installed.is_trusted(),
            permissions: serde_json::json!(installed.permissions),
            python: serde_json::json!(installed.python),
            toolset: installed.toolset.into(),
        }
    }
}
