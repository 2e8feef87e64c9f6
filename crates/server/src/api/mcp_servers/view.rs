//! A server as the API shows it. Values of variables and headers are never shown, only their names.

use std::collections::BTreeMap;

use kitbag_model::{
    Installed, InstalledServer, Launch, McpServer, OrgId, Pin, PinPolicy, Template, ToolId, export, safe_text,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::live;
use crate::app::App;
use crate::servers::is_fenced;

/// An MCP server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServer)]
pub(crate) struct ServerView {
    /// The server key.
    id: String,
    server_id: String,
    toolset_id: String,
    toolset_name: String,
    /// Whether a person added it by itself, so that it can be changed and removed by itself.
    user_mcp: bool,
    /// `stdio`, `sse` or `streamable-http`.
    server_type: String,
    enabled: bool,
    /// `connecting`, `connected`, `error`, `disconnected`, `requires_auth`; or `needs_trust` until somebody trusts what it would
    /// start.
    status: &'static str,
    /// Why it is in this state.
    #[schema(required)]
    reason: Option<String>,
    /// Since when it is in this state.
    #[schema(required, format = DateTime)]
    since: Option<String>,
    /// What went wrong last.
    #[schema(required)]
    error: Option<String>,
    /// Where somebody can sign in, if it waits for that.
    #[schema(required)]
    auth_url: Option<String>,
    /// The revision of the protocol that was agreed on.
    #[schema(required)]
    protocol_version: Option<String>,
    /// The last lines that it wrote beside the protocol; for whoever manages it.
    stderr: Vec<String>,
    tool_count: usize,
    /// Its tools, as they were last listed.
    tools: Vec<ServerToolView>,
    /// When its tools were last listed; null: never.
    #[schema(required, format = DateTime)]
    tools_seen_at: Option<String>,
    /// What happens when it changes a tool: `warn`, `quarantine` or `accept`.
    pin_policy: String,
    /// How many of its tools have changed and wait for somebody to accept that.
    waiting_count: usize,
    #[schema(required)]
    command: Option<String>,
    args: Vec<String>,
    #[schema(required)]
    cwd: Option<String>,
    #[schema(required)]
    url: Option<String>,
    /// The variables that it is given.
    env_names: Vec<String>,
    /// The headers that are sent to it.
    header_names: Vec<String>,
    /// The variables with what they refer to, for whoever manages it: the reference where a value is one and nothing else, null where it is
    /// something that is never shown. Null for everybody else.
    #[schema(required)]
    env: Option<BTreeMap<String, Option<String>>>,
    /// The same of the headers.
    #[schema(required)]
    headers: Option<BTreeMap<String, Option<String>>>,
    /// Variables that it refers to and that have no value where Kitbag runs.
    missing_variables: Vec<String>,
    /// Whether a person is asked before each call of its tools.
    requires_confirmation: bool,
    /// Whether every call of its tools is recorded before it runs, and again before it is answered.
    strict_records: bool,
    /// Whether it is a process that runs in the sandbox. Those of organisations other than `local` always do.
    sandbox: bool,
    /// Whether it may start: somebody trusted exactly what it would start.
    trusted: bool,
    /// The exact command line, or the address.
    command_line: String,
    /// What trust is bound to: the hash of all that decides what starts, and whether its tools are called without a question.
    fingerprint: String,
    #[schema(required)]
    description: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

/// A tool of a server, in short.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerTool)]
pub(crate) struct ServerToolView {
    /// The tool's id.
    id: String,
    /// The server's own name for it.
    name: String,
    #[schema(required)]
    title: Option<String>,
    #[schema(required)]
    description: Option<String>,
    /// `accepted`; or `quarantined` until somebody accepts what it has become.
    pin_state: String,
    /// Whether it is other than what was accepted.
    waiting: bool,
}

impl From<&Pin> for ServerToolView {
    fn from(pin: &Pin) -> Self {
        let definition = &pin.seen.definition;
        let said = |value: Option<&Value>| value.and_then(Value::as_str).map(safe_text);
        Self {
            id: ToolId::Mcp { server: pin.server.clone(), tool: pin.tool.clone() }.to_string(),
            name: pin.tool.to_string(),
            title: said(definition.get("title").or_else(|| definition.get("annotations")?.get("title"))),
            description: said(definition.get("description")),
            pin_state: pin.state.to_string(),
            waiting: pin.is_waiting(),
        }
    }
}

/// How a server is started or dialled, as far as it is shown.
#[derive(Default)]
pub(crate) struct Shown {
    command: Option<String>,
    args: Vec<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) env_names: Vec<String>,
    url: Option<String>,
    pub(crate) header_names: Vec<String>,
}

impl Shown {
    pub(crate) fn new(launch: &Launch) -> Self {
        match launch {
            Launch::Stdio { command, args, cwd, env } => Self {
                command: Some(command.clone()),
                args: args.iter().map(Template::to_string).collect(),
                cwd: cwd.as_ref().map(Template::to_string),
                env_names: env.keys().cloned().collect(),
                ..Self::default()
            },
            Launch::Remote { url, headers, .. } => {
                Self { url: Some(url.to_string()), header_names: headers.keys().cloned().collect(), ..Self::default() }
            }
        }
    }
}

/// What the values of variables, or of headers, refer to.
fn references(launch: &Launch, headers: bool) -> Option<BTreeMap<String, Option<String>>> {
    let whole = |value: &Template| value.is_whole().then(|| value.to_string());
    let shown =
        |values: &BTreeMap<String, Template>| values.iter().map(|(name, value)| (name.clone(), whole(value))).collect();
    Some(match launch {
        Launch::Stdio { env, .. } if !headers => shown(env),
        Launch::Remote { headers: values, .. } if headers => shown(values),
        _ => BTreeMap::new(),
    })
}

/// Who asks for servers, and what is remembered of their tools.
pub(crate) struct Viewer<'a> {
    pub(crate) app: &'a App,
    pub(crate) org: &'a OrgId,
    /// Whoever does not manage is not shown what looks like a secret.
    pub(crate) manages: bool,
    /// The pins of the organisation, or of the servers that are shown.
    pub(crate) pins: &'a [Pin],
    /// How those are whose processes other nodes have.
    pub(crate) elsewhere: &'a live::Elsewhere,
}

impl ServerView {
    pub(crate) fn new(viewer: &Viewer<'_>, installed: &Installed, one: &InstalledServer) -> Self {
        let masked = McpServer { launch: export::masked(&one.server), ..one.server.clone() };
        let server = if viewer.manages { &one.server } else { &masked };
        let shown = Shown::new(&server.launch);
        let live = live::look((viewer.app, viewer.elsewhere), viewer.org, installed, one);
        let key = installed.server_key(server);
        let pins: Vec<&Pin> = viewer.pins.iter().filter(|pin| pin.server == key).collect();
        let policy: PinPolicy = installed.pin_policy(one);
        Self {
            id: key.to_string(),
            server_id: server.id.to_string(),
            toolset_id: installed.toolset.id.to_string(),
            toolset_name: installed.toolset.name.to_string(),
            user_mcp: installed.toolset.user_mcp,
            server_type: server.launch.server_type().to_string(),
            enabled: one.is_enabled(),
            status: live.status,
            reason: live.reason,
            since: live.since.map(|at| at.to_string()),
            error: live.error,
            auth_url: live.auth_url.filter(|_| viewer.manages),
            protocol_version: live.protocol_version,
            stderr: if viewer.manages { live.stderr } else { Vec::new() },
            tool_count: pins.iter().filter(|pin| pin.listed).count(),
            tools: pins.iter().filter(|pin| pin.listed).map(|pin| ServerToolView::from(*pin)).collect(),
            tools_seen_at: one.tools_seen_at.map(|at| at.to_string()),
            pin_policy: policy.to_string(),
            waiting_count: pins.iter().filter(|pin| pin.listed && pin.is_waiting()).count(),
            command: shown.command,
            args: shown.args,
            cwd: shown.cwd,
            url: shown.url,
            env_names: shown.env_names,
            header_names: shown.header_names,
            env: references(&server.launch, false).filter(|_| viewer.manages),
            headers: references(&server.launch, true).filter(|_| viewer.manages),
            missing_variables: viewer.app.servers().missing_variables(viewer.org, &one.server.launch),
            requires_confirmation: server.requires_confirmation.unwrap_or(true),
            strict_records: one.strict_records,
            sandbox: is_fenced(viewer.org, one),
            trusted: one.is_trusted(),
            command_line: server.launch.command_line(),
            fingerprint: one.server.fingerprint().to_string(),
            description: server.description.as_ref().map(ToString::to_string),
            created_at: one.created_at.to_string(),
        }
    }
}
