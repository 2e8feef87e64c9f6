//! How the result of a call is shown. What cannot be shown as it was meant is not shown, and the call says why.

use std::sync::Arc;

use kitbag_model::{CallOutcome, ChatId, ContentHash, OrgId, ToolCall};
use serde_json::Value;

use super::Calls;
use super::live::Live;
use super::run::RunError;
use crate::stage::{Draft, Made, Ports};
use crate::toolsets::Callable;
use crate::workspaces::{Lease, WorkspaceError, Workspaces};

/// Where blobs of a chat are put.
pub(super) enum BlobsOf<'a> {
    /// Whoever puts them has the workspace.
    Held(&'a Lease),
    /// Nobody has to: the folder is not touched, and nobody waits for a tool.
    Chat(&'a Workspaces, &'a OrgId, ChatId),
}

impl BlobsOf<'_> {
    pub(super) async fn put(&self, hash: ContentHash, bytes: Arc<Vec<u8>>) -> Result<(), WorkspaceError> {
        match self {
            Self::Held(lease) => lease.put_blob(hash, bytes).await,
            Self::Chat(workspaces, org, chat) => workspaces.look(org, *chat).await.put_blob(hash, bytes).await,
        }
    }
}

impl Calls {
    /// Makes the plan for a call that went well, and keeps the page that it shows with the chat: the toolset may change later.
    pub(super) async fn plan(
        &self,
        live: &Live,
        blobs: &BlobsOf<'_>,
        call: &ToolCall,
        callable: &Callable,
        result: &Value,
        outcome: &mut CallOutcome,
    ) -> Result<(), RunError> {
        let org = &live.key.0;
        let Some(rendering) = &callable.tool.effective.rendering.value else { return Ok(()) };
        let made = Made { chat: call.chat_id, tool: Some(&call.tool_id), args: &call.args, result };
        let draft = match Draft::new(rendering, &made) {
            Ok(draft) => draft,
            Err(error) => {
                outcome.warnings.push(error.as_warning());
                return Ok(());
            }
        };
        if let Some((toolset, path)) = draft.page() {
            match self.0.toolsets.artifact(org, toolset, &path).await {
                Ok(Some((hash, bytes))) => {
                    self.keep_bytes(live, blobs, hash, bytes).await?;
                    outcome.artifact_sha256 = Some(hash);
                }
                Ok(None) => {}
                Err(error) => {
                    outcome.warnings.push(format!("the result is not shown: {error}"));
                    return Ok(());
                }
            }
        }
        match draft.finish(&self.0.stage, Ports::OfChat, outcome.artifact_sha256) {
            Ok(plan) => outcome.render_plan = serde_json::to_value(&plan).ok(),
            Err(error) => outcome.warnings.push(error.as_warning()),
        }
        Ok(())
    }
}
