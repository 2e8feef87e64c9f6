//! `GET /v1/orgs/{org}/server`

use axum::Json;
use axum::extract::State;
use kitbag_model::OrgId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::{App, Settings};

/// What the server is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Server)]
pub(crate) struct ServerView {
    version: &'static str,
    /// Since when it runs.
    #[schema(format = DateTime)]
    started_at: String,
    limits: LimitsView,
    /// Where it is and how it was started; null for organisations other than `local`.
    #[schema(required)]
    machine: Option<MachineView>,
    /// The server's own lists, which hold for everything that it serves; null for organisations other than `local`.
    #[schema(required)]
    resolution: Option<ResolutionView>,
}

/// The most that is allowed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServerLimits)]
pub(crate) struct LimitsView {
    tool_timeout_seconds: u64,
    confirmation_timeout_seconds: u64,
    request_timeout_seconds: u64,
    tool_memory_bytes: u64,
    max_result_bytes: usize,
    max_body_bytes: usize,
    max_upload_bytes: u64,
    max_workspace_bytes: u64,
    max_workspace_files: u64,
    /// Processes of one chat that outlive their calls.
    max_processes: usize,
    max_queue_per_chat: usize,
    max_queue: usize,
    /// Runs of one organisation that wait for an executor, where nothing else is said of it.
    max_queued_runs: u64,
    /// Turns of models that run, with the questions of the builder.
    max_turns: usize,
    /// Requests a second of one client at the MCP endpoint; 0 is no limit.
    mcp_rate: u32,
}

/// Where the server is and how it was started.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServerMachine)]
pub(crate) struct MachineView {
    /// The address it listens on.
    address: String,
    /// Other names under which it may be reached.
    allowed_hosts: Vec<String>,
    pid: u32,
    data_folder: String,
    /// Another configuration file than that of the data folder.
    #[schema(required)]
    config_file: Option<String>,
    /// `sqlite` or `postgres`.
    database: &'static str,
    /// Whether a call is refused when a layer of the sandbox cannot be had: `required` or `relaxed`.
    sandbox: &'static str,
    /// Whether MCP servers in the sandbox may reach the network.
    sandbox_network: bool,
    /// Whether everybody who reaches it is the owner.
    no_auth: bool,
    /// Whether every call is recorded before it runs.
    strict_records: bool,
}

/// Which tools clients get.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServerResolution)]
pub(crate) struct ResolutionView {
    #[schema(required)]
    toolsets: Option<Vec<String>>,
    #[schema(required)]
    enabled_tools: Option<Vec<String>>,
    #[schema(required)]
    disabled_tools: Option<Vec<String>>,
    #[schema(required)]
    dynamic: Option<bool>,
    /// What the names of headers with a request's own lists begin with; empty if no header is read.
    header_prefix: String,
}

impl LimitsView {
    fn of(settings: &Settings) -> Self {
        let calls = &settings.calls;
        Self {
            tool_timeout_seconds: calls.tool_timeout.as_secs(),
            confirmation_timeout_seconds: calls.confirmation_timeout.as_secs(),
            request_timeout_seconds: settings.request_timeout.as_secs(),
            tool_memory_bytes: calls.tool_memory_bytes,
            max_result_bytes: calls.max_result_bytes,
            max_body_bytes: settings.max_body_bytes,
            max_upload_bytes: settings.max_upload_bytes,
            max_workspace_bytes: settings.workspace_limits.bytes,
            max_workspace_files: settings.workspace_limits.entries,
            max_processes: calls.max_processes,
            max_queue_per_chat: calls.max_queue_per_chat,
            max_queue: calls.max_queue,
            max_queued_runs: settings.organizations.most_queued_runs(),
            max_turns: settings.models.most_turns,
            mcp_rate: settings.mcp_rate,
        }
    }
}

impl MachineView {
    fn of(app: &App) -> Self {
        let settings = app.settings();
        Self {
            address: format!("http://{}", settings.address),
            allowed_hosts: settings.allowed_hosts.clone(),
            pid: std::process::id(),
            data_folder: settings.data.display().to_string(),
            config_file: settings.config.as_ref().map(|file| file.display().to_string()),
            database: app.store().kind(),
            sandbox: if settings.calls.require_sandbox { "required" } else { "relaxed" },
            sandbox_network: settings.servers.sandbox_network,
            no_auth: settings.no_auth,
            strict_records: settings.calls.strict_records,
        }
    }
}

impl ResolutionView {
    fn of(settings: &Settings) -> Self {
        let lists = settings.resolution.lists.clone();
        Self {
            toolsets: lists.toolsets,
            enabled_tools: lists.enabled_tools,
            disabled_tools: lists.disabled_tools,
            dynamic: lists.dynamic,
            header_prefix: settings.resolution.header_prefix.clone(),
        }
    }
}

/// Show what the server is: its version, its limits and, to its owner, where it is and how it was started
#[utoipa::path(
    get, path = "/v1/orgs/{org}/server", tag = "operations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = ServerView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_server(State(app): State<App>, caller: MayManage) -> Result<Json<ServerView>, ApiError> {
    let own = caller.org == OrgId::local();
    Ok(Json(ServerView {
        version: env!("CARGO_PKG_VERSION"),
        started_at: app.started().to_string(),
        limits: LimitsView::of(app.settings()),
        machine: own.then(|| MachineView::of(&app)),
        resolution: own.then(|| ResolutionView::of(app.settings())),
    }))
}
