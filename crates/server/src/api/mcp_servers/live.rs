//! What is known of servers beyond their rows: whether one is connected, since when, and what it said. Everything that the API
//! asks of whoever keeps servers connected goes through here.

use std::collections::HashMap;

use kitbag_mcp::manager::{ManagerError, ServerState, Status};
use kitbag_model::{Installed, InstalledServer, OrgId, ServerKey, Timestamp, safe_text};

use super::Found;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::servers::{LearnError, Shown};

/// How a server is.
pub(crate) struct LiveView {
    /// `connecting`, `connected`, `error`, `disconnected`, `requires_auth` or `needs_trust`.
    pub(crate) status: &'static str,
    /// Why, for people.
    pub(crate) reason: Option<String>,
    /// Since when.
    pub(crate) since: Option<Timestamp>,
    /// What went wrong last.
    pub(crate) error: Option<String>,
    /// Where somebody can sign in, if it waits for that.
    pub(crate) auth_url: Option<String>,
    /// The revision of the protocol that was agreed on.
    pub(crate) protocol_version: Option<String>,
    /// The last lines that it wrote beside the protocol.
    pub(crate) stderr: Vec<String>,
}

impl LiveView {
    fn at_rest(status: &'static str, reason: Option<&str>) -> Self {
        Self {
            status,
            reason: reason.map(ToOwned::to_owned),
            since: None,
            error: None,
            auth_url: None,
            protocol_version: None,
            stderr: Vec::new(),
        }
    }
}

/// How servers are whose processes other nodes have.
pub(crate) type Elsewhere = HashMap<ServerKey, Shown>;

/// How a server is now.
pub(crate) fn look(
    (app, elsewhere): (&App, &Elsewhere),
    org: &OrgId,
    installed: &Installed,
    one: &InstalledServer,
) -> LiveView {
    if !one.is_trusted() {
        return LiveView::at_rest("needs_trust", Some("nobody has trusted what it would start"));
    }
    if !installed.toolset.enabled {
        return LiveView::at_rest("disconnected", Some("its toolset is turned off"));
    }
    if !one.is_enabled() {
        return LiveView::at_rest("disconnected", Some("it is turned off"));
    }
    let key = installed.server_key(&one.server);
    if let Some(shown) = elsewhere.get(&key)
        && let Some(status) = shown.status()
    {
        return LiveView {
            status: status.as_str(),
            error: (status == Status::Error).then(|| safe_text(&shown.reason)),
            reason: Some(safe_text(&shown.reason)).filter(|reason| !reason.is_empty()),
            since: Some(shown.since),
            auth_url: None,
            protocol_version: shown.protocol_version.clone(),
            stderr: shown.stderr.iter().map(|line| safe_text(line)).collect(),
        };
    }
    match app.servers().state(org, &key) {
        Some(state) => live(app, org, &key, state),
        None => LiveView::at_rest("disconnected", Some("no server is running that would connect it")),
    }
}

fn live(app: &App, org: &OrgId, key: &ServerKey, state: ServerState) -> LiveView {
    let link = || format!("http://{}/oauth/start/{org}/{key}", app.settings().address);
    LiveView {
        status: state.status.as_str(),
        error: matches!(state.status, Status::Error | Status::RequiresAuth).then(|| safe_text(&state.reason)),
        reason: Some(safe_text(&state.reason)).filter(|reason| !reason.is_empty()),
        since: Some(state.since),
        auth_url: (state.status == Status::RequiresAuth).then(link),
        protocol_version: state.protocol_version,
        // A stranger's words, which end up on terminals.
        stderr: state.stderr.iter().map(|line| safe_text(line)).collect(),
    }
}

/// A server, or what is known of it, is other than before: whoever keeps servers connected and whoever lists tools must know.
pub(crate) async fn changed(app: &App, org: &OrgId, server: &ServerKey, reason: &str) {
    app.tools_changed(org, server.toolset.as_str(), reason).await;
}

/// Connects a server anew, whatever it waits for.
pub(crate) async fn reconnect(app: &App, org: &OrgId, server: &ServerKey) -> Result<(), ApiError> {
    app.servers().reconnect(org, server).await.map_err(|error| refused(server, error))
}

/// The same for one that is kept connected here. One that is off stays off.
pub(super) async fn reconnect_if_on(app: &App, org: &OrgId, found: &Found) -> Result<(), ApiError> {
    if app.servers().is_started() && found.may_run().is_ok() {
        reconnect(app, org, &found.key).await?;
    }
    Ok(())
}

/// Asks a server for its tools, and connects it first if it must be.
pub(crate) async fn test(app: &App, org: &OrgId, server: &ServerKey) -> Result<(), ApiError> {
    app.servers().learn(org, server).await.map_err(|error| refused(server, error))
}

fn refused(server: &ServerKey, error: LearnError) -> ApiError {
    match error {
        LearnError::Store(error) => error.into(),
        LearnError::Manager(ManagerError::NotFound) => ApiError::not_found("MCP server", &server.to_string()),
        LearnError::Manager(ManagerError::NeedsTrust) => {
            ApiError::new(Code::NeedsTrust, format!("{server} must be trusted first"))
        }
        LearnError::Manager(error) => ApiError::new(Code::McpServerNotConnected, format!("{server}: {error}")),
    }
}
