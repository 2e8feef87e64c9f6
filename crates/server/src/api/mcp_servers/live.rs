//! What is known of servers beyond their rows: whether one is connected, since when, and what it said. Everything that the API
//! asks of whoever keeps servers connected goes through here.

use kitbag_model::{Installed, InstalledServer, OrgId, ServerKey, Timestamp};

use crate::api::error::{ApiError, Code};
use crate::app::App;

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

/// How a server is now.
pub(crate) fn look(_app: &App, _org: &OrgId, installed: &Installed, one: &InstalledServer) -> LiveView {
    let (status, reason) = if !one.is_trusted() {
        ("needs_trust", Some("nobody has trusted what it would start"))
    } else if !installed.toolset.enabled {
        ("disconnected", Some("its toolset is turned off"))
    } else if !one.is_enabled() {
        ("disconnected", Some("it is turned off"))
    } else {
        ("disconnected", None)
    };
    LiveView {
        status,
        reason: reason.map(ToOwned::to_owned),
        since: None,
        error: None,
        auth_url: None,
        protocol_version: None,
        stderr: Vec::new(),
    }
}

/// A server, or what is known of it, is other than before: whoever keeps servers connected and whoever lists tools must know.
pub(crate) async fn changed(app: &App, org: &OrgId, server: &ServerKey, reason: &str) {
    app.events().tools_changed(org, server.toolset.as_str(), reason);
}

/// Connects a server anew, whatever it waits for.
pub(crate) async fn reconnect(_app: &App, _org: &OrgId, server: &ServerKey) -> Result<(), ApiError> {
    Err(not_connected(server))
}

/// Asks a server for its tools, and connects it first if it must be.
pub(crate) async fn test(_app: &App, _org: &OrgId, server: &ServerKey) -> Result<(), ApiError> {
    Err(not_connected(server))
}

fn not_connected(server: &ServerKey) -> ApiError {
    ApiError::new(Code::McpServerNotConnected, format!("the MCP server {server} is not connected"))
}
