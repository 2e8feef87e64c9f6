//! MCP servers that toolsets declare: what each would start, and who trusts it.

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod trust;
mod view;

use kitbag_model::{Installed, OrgId, ServerKey};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::{ApiError, Code};
use crate::app::App;

pub(crate) use view::ServerView;

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

/// The server that a path names, with its toolset.
async fn find(app: &App, org: &OrgId, path: &ServerPath) -> Result<(Installed, ServerKey), ApiError> {
    let not_found = || ApiError::not_found("MCP server", &path.server_key);
    let all = app.store().read(org).await?.all_installed().await?;
    let fits = |key: &ServerKey| key.to_string() == path.server_key || key.server.as_str() == path.server_key;
    let mut found: Vec<(Installed, ServerKey)> = Vec::new();
    for installed in all {
        let keys: Vec<ServerKey> =
            installed.servers.iter().map(|one| installed.server_key(&one.server)).filter(fits).collect();
        found.extend(keys.into_iter().map(|key| (installed.clone(), key)));
    }
    if found.len() > 1 {
        let keys: Vec<String> = found.iter().map(|(_, key)| key.to_string()).collect();
        let message = format!("several servers are called {:?}: {}", path.server_key, keys.join(", "));
        return Err(
            ApiError::new(Code::AmbiguousServerId, message).with_details(serde_json::json!({ "serverKeys": keys }))
        );
    }
    found.pop().ok_or_else(not_found)
}
