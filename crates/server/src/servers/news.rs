//! What the manager tells: a server's status goes to whoever listens, its tools go through the pins first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kitbag_mcp::manager::{Change, Whose};
use kitbag_mcp::tool::ToolDefinition;
use kitbag_model::{Action, AgreedRevision, McpToolName, OrgId, Pinned, ServerKey, Timestamp};
use kitbag_store::{Store, StoreError};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::events::{Events, News};

/// Listens, to the manager's end. Without a runtime there is nobody to listen to.
pub(super) fn listen(mut changes: UnboundedReceiver<Change>, store: Store, events: Events, version: Arc<AtomicU64>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        while let Some(change) = changes.recv().await {
            // Words for a log make no server another one.
            let is_talk = matches!(&change, Change::Told { method, .. } if !method.ends_with("/list_changed"));
            if !is_talk {
                version.fetch_add(1, Ordering::AcqRel);
            }
            match change {
                Change::Status { org, key, status, reason, since, whose } => {
                    tracing::info!(server = %key, %status, reason, "an MCP server changed");
                    let data = json!({ "id": key, "status": status.as_str(), "reason": reason, "since": since });
                    match whose {
                        Whose::Here => events.publish_here(&org, None, "mcp_server", data),
                        Whose::Everybody => events.publish(&org, None, "mcp_server", data),
                        Whose::Elsewhere => {}
                    }
                }
                Change::Told { org, key, method, params, whom } => {
                    events.told(News::Told { org, key, method, params, whom });
                }
                Change::Agreed { org, key, launch, revision, offers } => {
                    let agreed = AgreedRevision { revision, launch, at: Timestamp::now(), offers: Some(offers) };
                    if let Err(error) = remember_revision(&store, &org, &key, &agreed).await {
                        tracing::error!(%error, server = %key, "its revision of the protocol could not be remembered");
                    }
                }
                // Whoever has its process remembers its tools.
                Change::Tools { whose: Whose::Elsewhere, .. } => {}
                Change::Tools { org, key, tools, warnings, .. } => {
                    for warning in &warnings {
                        tracing::warn!(server = %key, "{warning}");
                    }
                    match remember(&store, &org, &key, &tools).await {
                        Ok(true) => events.tools_changed(&org, key.toolset.as_str(), "mcp"),
                        Ok(false) => {}
                        Err(error) => tracing::error!(%error, server = %key, "its tools could not be remembered"),
                    }
                }
            }
        }
    });
}

async fn remember_revision(
    store: &Store,
    org: &OrgId,
    key: &ServerKey,
    agreed: &AgreedRevision,
) -> Result<(), StoreError> {
    let mut tx = store.write(org).await?;
    // It may have been removed meanwhile.
    tx.remember_revision(key, agreed).await?;
    tx.commit().await
}

/// Puts a list of tools to the pins. Whether it says something new.
pub(super) async fn remember(
    store: &Store,
    org: &OrgId,
    key: &ServerKey,
    tools: &[ToolDefinition],
) -> Result<bool, StoreError> {
    let named = |tool: &ToolDefinition| Some((tool.name.parse::<McpToolName>().ok()?, Pinned::new(tool.raw())));
    let list: Vec<(McpToolName, Pinned)> = tools.iter().filter_map(named).collect();
    let mut tx = store.write(org).await?;
    // It may have been removed meanwhile.
    let Some(sight) = tx.see_tools(key, &list).await? else { return Ok(false) };
    if sight.is_news() && !sight.first {
        let names = |names: &[McpToolName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let details = json!({
            "new": names(&sight.new), "changed": names(&sight.changed), "gone": names(&sight.gone),
        });
        tx.audit("server", Action::McpServerToolsChanged, &key.to_string(), &details).await?;
    }
    tx.commit().await?;
    Ok(sight.is_news())
}
