//! A server as the API shows it. Values of variables and headers are never shown, only their names.

use kitbag_model::{Installed, InstalledServer, Launch, McpServer, Template, export};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

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
    /// `stdio`, `sse` or `streamable-http`.
    server_type: String,
    enabled: bool,
    /// `disconnected`, or `needs_trust` until somebody trusts what it would start.
    status: &'static str,
    #[schema(required)]
    error: Option<String>,
    tool_count: usize,
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
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
    /// Whether a person is asked before each call of its tools.
    requires_confirmation: bool,
    /// Whether it may start: somebody trusted exactly what it would start.
    trusted: bool,
    /// The exact command line, or the address.
    command_line: String,
    /// What trust is bound to: the hash of all that decides what starts.
    fingerprint: String,
    #[schema(required)]
    description: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

impl ServerView {
    /// Whoever does not manage is not shown what looks like a secret.
    pub(crate) fn new(installed: &Installed, one: &InstalledServer, manages: bool) -> Self {
        let masked = McpServer { launch: export::masked(&one.server), ..one.server.clone() };
        let server = if manages { &one.server } else { &masked };
        let text = |template: &Template| template.to_string();
        let (command, args, cwd, env_names, url, header_names) = match &server.launch {
            Launch::Stdio { command, args, cwd, env } => (
                Some(command.clone()),
                args.iter().map(text).collect(),
                cwd.as_ref().map(text),
                env.keys().cloned().collect(),
                None,
                Vec::new(),
            ),
            Launch::Remote { url, headers, .. } => {
                (None, Vec::new(), None, Vec::new(), Some(text(url)), headers.keys().cloned().collect())
            }
        };
        Self {
            id: installed.server_key(server).to_string(),
            server_id: server.id.to_string(),
            toolset_id: installed.toolset.id.to_string(),
            toolset_name: installed.toolset.name.to_string(),
            server_type: server.launch.server_type().to_string(),
            enabled: one.is_enabled(),
            status: if one.is_trusted() { "disconnected" } else { "needs_trust" },
            error: None,
            tool_count: 0,
            tools: Vec::new(),
            command,
            args,
            cwd,
            url,
            env_names,
            header_names,
            requires_confirmation: server.requires_confirmation.unwrap_or(true),
            trusted: one.is_trusted(),
            command_line: server.launch.command_line(),
            fingerprint: one.server.fingerprint().to_string(),
            description: server.description.as_ref().map(ToString::to_string),
            created_at: one.created_at.to_string(),
        }
    }
}
