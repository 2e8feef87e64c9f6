//! How the result of a call is shown. What cannot be shown as it was meant is not shown, and the call says why.

use kitbag_model::render_plan::{RenderPlan, Scene};
use kitbag_model::{CallOutcome, ChatId, ContentHash, OrgId, ToolCall, ToolId};
use serde_json::Value;

use super::Calls;
use super::run::RunError;
use crate::toolsets::Callable;
use crate::workspaces::{Lease, WorkspaceError, Workspaces};

/// Where a tool sees its workspace, and its toolset's files.
pub(crate) const WORKSPACE: &str = "/workspace";
pub(crate) const TOOLSET: &str = "/toolset";

/// Where blobs of a chat are put.
pub(super) enum BlobsOf<'a> {
    /// Whoever puts them has the workspace.
    Held(&'a Lease),
    /// Nobody has to: the folder is not touched, and nobody waits for a tool.
    Chat(&'a Workspaces, &'a OrgId, ChatId),
}

impl BlobsOf<'_> {
    pub(super) async fn put(&self, hash: ContentHash, bytes: Vec<u8>) -> Result<(), WorkspaceError> {
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
        org: &OrgId,
        blobs: &BlobsOf<'_>,
        call: &ToolCall,
        callable: &Callable,
        result: &Value,
        outcome: &mut CallOutcome,
    ) -> Result<(), RunError> {
        let Some(rendering) = &callable.tool.effective.rendering.value else { return Ok(()) };
        let toolset = match &call.tool_id {
            ToolId::Toolset { toolset, .. } => Some(toolset),
            ToolId::Mcp { server, .. } => Some(&server.toolset),
            _ => None,
        };
        let scene = Scene {
            args: &call.args,
            result,
            chat: call.chat_id,
            workspace: WORKSPACE,
            toolset: toolset.map(|_| TOOLSET),
        };
        let mut plan = match RenderPlan::new(rendering, &scene) {
            Ok(plan) => plan,
            Err(error) => {
                outcome.warnings.push(format!("the result is not shown: {error}"));
                return Ok(());
            }
        };
        if let (Some(path), Some(toolset)) = (plan.artifact(), toolset) {
            match self.0.toolsets.artifact(org, toolset, &path).await {
                Ok(Some((hash, bytes))) => {
                    blobs.put(hash, bytes).await?;
                    plan.keep_artifact(hash);
                    outcome.artifact_sha256 = Some(hash);
                }
                Ok(None) => {
                    outcome.warnings.push(format!("the result is not shown: the toolset has no page {path}"));
                    return Ok(());
                }
                Err(error) => {
                    outcome.warnings.push(format!("the result is not shown: {error}"));
                    return Ok(());
                }
            }
        }
        if let Err(error) = self.0.stage.check(&plan) {
            outcome.warnings.push(format!("the result is not shown: {error}"));
            return Ok(());
        }
        outcome.render_plan = serde_json::to_value(&plan).ok();
        Ok(())
    }
}
