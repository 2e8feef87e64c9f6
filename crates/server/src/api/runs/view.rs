//! Runs as they are told. Values of variables are never told, whoever may store them.

use std::collections::BTreeMap;

use kitbag_model::run::wire::{ServerSnapshot, SkillSnapshot, ToolsetSnapshot};
use kitbag_model::run::{Application, Run};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentRun)]
pub(crate) struct RunView {
    id: String,
    #[schema(required)]
    name: Option<String>,
    /// `queued`, `leased`, `running`, `succeeded`, `failed`, `cancelled` or `timed_out`.
    state: String,
    /// Which attempt it is at; 0 before the first.
    attempt: u32,
    max_attempts: u32,
    /// What was asked for, with what was left out filled in.
    #[schema(value_type = Object)]
    config: Value,
    toolset: AppliedView,
    /// Whose workspace it works in.
    chat_id: String,
    /// The state that it began with; null: an empty folder.
    #[schema(required)]
    pre_manifest_id: Option<String>,
    /// The state that it left; null until it is over, and if nothing could be kept.
    #[schema(required)]
    post_manifest_id: Option<String>,
    /// Whether what it leaves becomes the chat's next state by itself.
    apply: bool,
    /// The executor that has it, or had it last.
    #[schema(required)]
    executor_id: Option<String>,
    /// Whether somebody wants it ended, and its executor has not answered yet.
    cancel_requested: bool,
    /// Why it waits, in words; null if it does not.
    #[schema(required)]
    waiting: Option<String>,
    /// The answer: a text, or JSON where that was asked for.
    #[schema(required, value_type = Option<Object>)]
    output: Option<Value>,
    #[schema(required)]
    error: Option<RunErrorView>,
    /// What it used: `inputTokens`, `outputTokens`, `turns`, `toolCalls`.
    #[schema(required, value_type = Option<Object>)]
    usage: Option<Value>,
    /// The run that it does again.
    #[schema(required)]
    retry_of: Option<String>,
    created_by: String,
    created_at: String,
    #[schema(required)]
    started_at: Option<String>,
    #[schema(required)]
    finished_at: Option<String>,
}

/// Why a run has no answer.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentRunError)]
pub(crate) struct RunErrorView {
    /// A word to act on, such as `MCP_ENV_NOT_SET:TOKEN`.
    code: String,
    message: String,
}

/// Whether a toolset applies to a run, and what it was when the run was made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppliedToolset)]
pub(crate) struct AppliedView {
    applied: bool,
    /// Why none applies; null if one does.
    #[schema(required)]
    reason: Option<String>,
    #[schema(required)]
    toolset_id: Option<String>,
    /// Who named it: `config` or `organization`.
    #[schema(required)]
    from: Option<String>,
    /// `gateway` (skills in `skills/`) or `node` (in `.claude/skills/`).
    #[schema(required)]
    profile: Option<String>,
    #[schema(required)]
    name: Option<String>,
    #[schema(required)]
    version: Option<String>,
    mcp_servers: Vec<RunServerView>,
    agent_skills: Vec<RunSkillView>,
    /// The ids of its tools that Kitbag itself runs.
    tools: Vec<String>,
}

/// An MCP server of a run. Of variables and headers only the names are told.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentRunServer)]
pub(crate) struct RunServerView {
    id: String,
    server_type: String,
    enabled: bool,
    #[schema(required)]
    command: Option<String>,
    args: Vec<String>,
    #[schema(required)]
    url: Option<String>,
    env_names: Vec<String>,
    header_names: Vec<String>,
}

/// A skill of a run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentRunSkill)]
pub(crate) struct RunSkillView {
    id: String,
    enabled: bool,
    /// Its files: path and SHA-256.
    files: BTreeMap<String, String>,
}

impl RunView {
    pub(crate) fn new(run: Run, waiting: Option<String>) -> Self {
        Self {
            id: run.id.to_string(),
            name: run.name,
            state: run.state.to_string(),
            attempt: run.attempt,
            max_attempts: run.max_attempts,
            config: run.config,
            toolset: AppliedView::new(&run.application, run.toolset),
            chat_id: run.chat_id.to_string(),
            pre_manifest_id: run.pre_manifest_id.map(|id| id.to_string()),
            post_manifest_id: run.post_manifest_id.map(|id| id.to_string()),
            apply: run.apply,
            executor_id: run.executor_id.map(|id| id.to_string()),
            cancel_requested: run.cancel_requested && !run.state.is_over(),
            waiting,
            output: run.output,
            error: run.error.map(|error| RunErrorView { code: error.code, message: error.message }),
            usage: run.usage,
            retry_of: run.retry_of.map(|id| id.to_string()),
            created_by: run.created_by,
            created_at: run.created_at.to_string(),
            started_at: run.started_at.map(|at| at.to_string()),
            finished_at: run.finished_at.map(|at| at.to_string()),
        }
    }
}

impl AppliedView {
    fn new(application: &Application, snapshot: Option<ToolsetSnapshot>) -> Self {
        let (reason, toolset_id, from, profile) = match application {
            Application::Toolset { toolset_id, from, profile } => {
                (None, Some(toolset_id.to_string()), word(from), word(profile))
            }
            Application::Nothing(reason) => (Some(reason.to_string()), None, None, None),
        };
        let (name, version) = snapshot.as_ref().map(|one| (one.name.clone(), one.version.clone())).unzip();
        let (mut mcp_servers, mut agent_skills, mut tools) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(one) = snapshot {
            mcp_servers = one.mcp_servers.into_iter().map(RunServerView::from).collect();
            agent_skills = one.agent_skills.into_iter().map(RunSkillView::from).collect();
            tools = one.program.into_iter().flat_map(|code| code.tools).map(|tool| tool.id.to_string()).collect();
        }
        let applied = reason.is_none();
        Self { applied, reason, toolset_id, from, profile, name, version, mcp_servers, agent_skills, tools }
    }
}

/// The word that one of the model's enums is written as.
fn word(value: impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

impl From<ServerSnapshot> for RunServerView {
    fn from(server: ServerSnapshot) -> Self {
        Self {
            id: server.id,
            server_type: server.server_type,
            enabled: server.enabled,
            command: server.command,
            args: server.args,
            url: server.url,
            env_names: server.env.into_keys().collect(),
            header_names: server.headers.into_keys().collect(),
        }
    }
}

impl From<SkillSnapshot> for RunSkillView {
    fn from(skill: SkillSnapshot) -> Self {
        let files = skill.files.into_iter().map(|(path, file)| (path.to_string(), file.sha256.to_string())).collect();
        Self { id: skill.id, enabled: skill.enabled, files }
    }
}
