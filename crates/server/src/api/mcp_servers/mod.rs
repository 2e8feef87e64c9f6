//! MCP servers that toolsets declare and people add: what each would start, who trusts it, how it is, and what its tools are.

pub(crate) mod accept;
pub(crate) mod add;
mod body;
pub(crate) mod client;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod pins;
pub(crate) mod reconnect;
pub(crate) mod remove;
pub(crate) mod sign_in;
pub(crate) mod test;
pub(crate) mod trust;
pub(crate) mod update;
mod view;

use kitbag_model::{Installed, InstalledServer, OrgId, ServerKey};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::{ApiError, Code};
use crate::access::caller::Caller;
use crate::app::App;

pub(crate) use view::{ServerView, Shown, Viewer};

/// The path of a server.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Path)]
pub(crate) struct ServerPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The server key, `{toolset}~{server}`; the server's id alone while only one server has it.
    server_key: String,
}

impl ServerPath {
    fn not_found(&self) -> ApiError {
        ApiError::not_found("MCP server", &self.server_key)
    }
}

/// A server with its toolset.
struct Found {
    installed: Installed,
    key: ServerKey,
}

impl Found {
    fn server(&self) -> Result<&InstalledServer, ApiError> {
        let server = self.installed.server(self.key.server.as_str());
        server.ok_or_else(|| ApiError::not_found("MCP server", &self.key.to_string()))
    }

    /// Refuses what needs a server that may run.
    fn may_run(&self) -> Result<(), ApiError> {
        let server = self.server()?;
        if !server.is_trusted() {
            let message =
                format!("{} must be trusted first: it would start {}", self.key, server.server.launch.command_line());
            return Err(ApiError::new(Code::NeedsTrust, message));
        }
        if !(self.installed.toolset.enabled && server.is_enabled()) {
            return Err(ApiError::new(Code::Conflict, format!("{} is turned off; turn it on first", self.key)));
        }
        Ok(())
    }
}

/// The server that a path names, among those that the caller sees.
async fn find<S>(app: &App, caller: &Caller<S>, path: &ServerPath) -> Result<Found, ApiError> {
    let mut all = app.store().read(&caller.org).await?.all_installed().await?;
    all.retain(|one| caller.audience().sees(&one.toolset));
    let fits = |key: &ServerKey| key.to_string() == path.server_key || key.server.as_str() == path.server_key;
    let mut found: Vec<Found> = Vec::new();
    for installed in all {
        let keys: Vec<ServerKey> =
            installed.servers.iter().map(|one| installed.server_key(&one.server)).filter(fits).collect();
        found.extend(keys.into_iter().map(|key| Found { installed: installed.clone(), key }));
    }
    if found.len() > 1 {
        let keys: Vec<String> = found.iter().map(|one| one.key.to_string()).collect();
        let message = format!("several servers are called {:?}: {}", path.server_key, keys.join(", "));
        return Err(
            ApiError::new(Code::AmbiguousServerId, message).with_details(serde_json::json!({ "serverKeys": keys }))
        );
    }
    found.pop().ok_or_else(|| path.not_found())
}

/// A server as it is now.
pub(crate) async fn show(app: &App, org: &OrgId, manages: bool, key: &ServerKey) -> Result<ServerView, ApiError> {
    let not_found = || ApiError::not_found("MCP server", &key.to_string());
    let mut tx = app.store().read(org).await?;
    let installed = tx.installed(&key.toolset).await?.ok_or_else(not_found)?;
    let pins = tx.pins(key).await?;
    drop(tx);
    let server = installed.server(key.server.as_str()).ok_or_else(not_found)?;
    let elsewhere = app.servers().shown_elsewhere(org).await;
    let viewer = Viewer { app, org, manages, pins: &pins, elsewhere: &elsewhere };
    Ok(ServerView::new(&viewer, &installed, server))
}
