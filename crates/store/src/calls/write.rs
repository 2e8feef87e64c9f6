//! Recording a call, deciding about it, and what came of it.

use kitbag_model::{
    CallError, CallOutcome, CallStatus, ChatId, ContentHash, Decision, Manifest, ManifestId, NewManifest, NewToolCall,
    Timestamp, ToolCall, ToolCallId, args_digest,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::read::{CallRow, columns};
use crate::error::StoreError;
use crate::manifests::KeepError;
use crate::row::At;
use crate::tx::{WriteTx, execute, on};

/// Why the end of a call was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// It is over already, or there is no such call.
    #[error("the call is not running any more")]
    NotRunning,
    /// The state of the workspace could not be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for FinishError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("values of the model can be written as JSON")
}

impl WriteTx {
    /// Records a call: `pending` if somebody has to decide, else `running`. [`StoreError::Exists`] if its key is taken.
    pub async fn insert_call(&mut self, new: &NewToolCall) -> Result<ToolCall, StoreError> {
        let status = if new.expires_at.is_some() { CallStatus::Pending } else { CallStatus::Running };
        let row: CallRow = on!(self, c => sqlx::query_as(concat!(
            "INSERT INTO tool_calls (organization_id, chat_id, id, message_id, tool_id, generation, args, args_sha256, asked_by,
                                     idempotency_key, request_sha256, node_id, expires_at, status, logs_cut, started_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, $15) RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(new.chat_id.to_string()).bind(new.id.to_string()).bind(new.message_id.to_string())
            .bind(new.tool_id.to_string()).bind(new.generation.as_deref()).bind(to_json(&new.args))
            .bind(args_digest(&new.tool_id, &new.args).to_string()).bind(new.asked_by.as_str())
            .bind(new.idempotency.as_ref().map(|(key, _)| key.as_str()))
            .bind(new.idempotency.as_ref().map(|(_, digest)| digest.to_string()))
            .bind(new.node.as_str()).bind(new.expires_at.map(At)).bind(status.as_str()).bind(At(Timestamp::now()))
            .fetch_one(c))?;
        row.try_into()
    }

    /// Lets a call run that waits for a yes, with other arguments if there are any. Nothing if it does not wait any more: a
    /// call is decided once.
    pub async fn approve_call(
        &mut self,
        chat: ChatId,
        id: ToolCallId,
        decision: &Decision,
        args: Option<(&Map<String, Value>, ContentHash)>,
        node: &str,
    ) -> Result<Option<ToolCall>, StoreError> {
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = 'running', approved = TRUE, decided_by = $4, decided_at = $5, node_id = $6,
                    args = coalesce($7, args), args_sha256 = coalesce($8, args_sha256)
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND status = 'pending' AND expires_at > $5
             RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string())
            .bind(decision.by.as_str()).bind(At(decision.at)).bind(node)
            .bind(args.map(|(args, _)| to_json(args))).bind(args.map(|(_, digest)| digest.to_string()))
            .fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// Refuses a call that waits for a yes. Nothing if it does not wait any more.
    pub async fn deny_call(
        &mut self,
        chat: ChatId,
        id: ToolCallId,
        decision: &Decision,
        error: &CallError,
    ) -> Result<Option<ToolCall>, StoreError> {
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = 'error', approved = FALSE, decided_by = $4, decided_at = $5, finished_at = $5,
                    error = $6
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND status = 'pending' AND expires_at > $5
             RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string())
            .bind(decision.by.as_str()).bind(At(decision.at)).bind(to_json(error)).fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// Records what came of a running call, together with the state that it left, if that is another than before.
    pub async fn finish_call(
        &mut self,
        chat: ChatId,
        id: ToolCallId,
        outcome: &CallOutcome,
        left: Option<&NewManifest>,
    ) -> Result<(ToolCall, Option<Manifest>), FinishError> {
        let manifest = match left {
            Some(new) => Some(self.keep_call_manifest(chat, id, new).await?),
            None => None,
        };
        let post = manifest.as_ref().map(|manifest| manifest.id).or(outcome.post_manifest_id);
        let ended = self.end_running(chat, id, outcome, post, Timestamp::now()).await?;
        Ok((ended.ok_or(FinishError::NotRunning)?, manifest))
    }

    /// Writes the end of a call that is running. Nothing if it is not.
    pub(crate) async fn end_running(
        &mut self,
        chat: ChatId,
        id: ToolCallId,
        outcome: &CallOutcome,
        post: Option<ManifestId>,
        at: Timestamp,
    ) -> Result<Option<ToolCall>, StoreError> {
        let status = if outcome.error.is_some() { CallStatus::Error } else { CallStatus::Success };
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = $4, result = $5, result_sha256 = $6, render_plan = $7, artifact_sha256 = $8,
                    error = $9, warnings = $10, logs = $11, logs_cut = $12, sandbox = $13, finished_at = $14,
                    pre_manifest_id = $15, post_manifest_id = $16
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND status = 'running' RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).bind(status.as_str())
            .bind(outcome.result.as_ref().map(to_json)).bind(outcome.result_sha256.map(|hash| hash.to_string()))
            .bind(outcome.render_plan.as_ref().map(to_json)).bind(outcome.artifact_sha256.map(|hash| hash.to_string()))
            .bind(outcome.error.as_ref().map(to_json)).bind(to_json(&outcome.warnings)).bind(to_json(&outcome.logs))
            .bind(i64::try_from(outcome.logs_cut).unwrap_or(i64::MAX)).bind(outcome.sandbox.as_ref().map(to_json))
            .bind(At(at)).bind(outcome.pre_manifest_id.map(|id| id.to_string()))
            .bind(post.map(|id| id.to_string())).fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// Keeps the state that a call left: of the chat, of the message that the chat stands at, and of the call's own message,
    /// unless a later message between the two has had a state of its own before.
    async fn keep_call_manifest(
        &mut self,
        chat: ChatId,
        id: ToolCallId,
        new: &NewManifest,
    ) -> Result<Manifest, FinishError> {
        let message: Option<String> = on!(self, c => sqlx::query_scalar(
            "SELECT message_id FROM tool_calls WHERE organization_id = $1 AND chat_id = $2 AND id = $3")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        let corrupt = |column| StoreError::Corrupt { column };
        let message = message.ok_or(FinishError::NotRunning)?;
        let message = message.parse().map_err(|_| corrupt("tool_calls.message_id"))?;
        let before = self.manifest_of_message(chat, message).await?;
        let manifest = self.keep_manifest(chat, new).await?;
        if before == new.parent {
            execute!(
                self,
                sqlx::query(
                    "UPDATE messages SET manifest_id = $4 WHERE organization_id = $1 AND chat_id = $2 AND id = $3"
                )
                .bind(self.org.as_str())
                .bind(chat.to_string())
                .bind(message.to_string())
                .bind(manifest.id.to_string())
            )?;
        }
        Ok(manifest)
    }
}
