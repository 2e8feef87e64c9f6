//! Reading calls.

use kitbag_model::{CallOutcome, ChatId, ContentHash, Decision, MessageId, Timestamp, ToolCall, ToolCallId};
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, on};

/// One page holds no more than this, whatever its limit: a call may have a megabyte.
const PAGE_BYTES: i64 = 8 << 20;

row!(CallRow {
    id: String,
    chat_id: String,
    message_id: String,
    tool_id: String,
    generation: Option<String>,
    args: String,
    args_sha256: String,
    asked_by: String,
    request_sha256: Option<String>,
    expires_at: Option<At>,
    approved: Option<bool>,
    decided_by: Option<String>,
    decided_at: Option<At>,
    status: String,
    result: Option<String>,
    result_sha256: Option<String>,
    render_plan: Option<String>,
    artifact_sha256: Option<String>,
    error: Option<String>,
    warnings: Option<String>,
    logs: Option<String>,
    logs_cut: i64,
    sandbox: Option<String>,
    started_at: At,
    finished_at: Option<At>,
    pre_manifest_id: Option<String>,
    post_manifest_id: Option<String>,
});
row!(SizeRow { id: String, bytes: i64 });
row!(BlobRow { result_sha256: Option<String>, artifact_sha256: Option<String> });

/// Every column that a call is read from.
macro_rules! columns {
    () => {
        "id, chat_id, message_id, tool_id, generation, args, args_sha256, asked_by, request_sha256, expires_at, approved,
         decided_by, decided_at, status, result, result_sha256, render_plan, artifact_sha256, error, warnings, logs, logs_cut,
         sandbox, started_at, finished_at, pre_manifest_id, post_manifest_id"
    };
}
pub(super) use columns;

fn json<T: DeserializeOwned>(text: Option<String>, column: &'static str) -> Result<Option<T>, StoreError> {
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| StoreError::Corrupt { column })
}

fn text<T: std::str::FromStr>(text: Option<String>, column: &'static str) -> Result<Option<T>, StoreError> {
    text.map(|text| text.parse()).transpose().map_err(|_| StoreError::Corrupt { column })
}

fn must<T: std::str::FromStr>(text: &str, column: &'static str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt { column })
}

impl TryFrom<CallRow> for ToolCall {
    type Error = StoreError;

    fn try_from(row: CallRow) -> Result<Self, StoreError> {
        let decision = match (row.approved, row.decided_by, row.decided_at) {
            (Some(approved), Some(by), Some(at)) => Some(Decision { approved, by, at: at.0 }),
            _ => None,
        };
        let args = json(Some(row.args), "tool_calls.args")?;
        Ok(Self {
            id: must(&row.id, "tool_calls.id")?,
            chat_id: must(&row.chat_id, "tool_calls.chat_id")?,
            message_id: must(&row.message_id, "tool_calls.message_id")?,
            tool_id: must(&row.tool_id, "tool_calls.tool_id")?,
            generation: row.generation,
            args: args.ok_or(StoreError::Corrupt { column: "tool_calls.args" })?,
            args_sha256: must(&row.args_sha256, "tool_calls.args_sha256")?,
            status: must(&row.status, "tool_calls.status")?,
            asked_by: row.asked_by,
            expires_at: row.expires_at.map(|at| at.0),
            decision,
            request_sha256: text(row.request_sha256, "tool_calls.request_sha256")?,
            started_at: row.started_at.0,
            finished_at: row.finished_at.map(|at| at.0),
            outcome: CallOutcome {
                result: json(row.result, "tool_calls.result")?,
                result_sha256: text(row.result_sha256, "tool_calls.result_sha256")?,
                error: json(row.error, "tool_calls.error")?,
                render_plan: json(row.render_plan, "tool_calls.render_plan")?,
                artifact_sha256: text(row.artifact_sha256, "tool_calls.artifact_sha256")?,
                warnings: json(row.warnings, "tool_calls.warnings")?.unwrap_or_default(),
                logs: json(row.logs, "tool_calls.logs")?.unwrap_or_default(),
                logs_cut: u64::try_from(row.logs_cut).unwrap_or_default(),
                sandbox: json(row.sandbox, "tool_calls.sandbox")?,
                pre_manifest_id: text(row.pre_manifest_id, "tool_calls.pre_manifest_id")?,
                post_manifest_id: text(row.post_manifest_id, "tool_calls.post_manifest_id")?,
            },
        })
    }
}

/// How many of these fit into a page: at most `limit`, but always one.
fn fitting(sizes: &[SizeRow], limit: u32) -> usize {
    let mut bytes = 0;
    let fits = |row: &&SizeRow| {
        let fits = bytes == 0 || bytes + row.bytes <= PAGE_BYTES;
        bytes += row.bytes;
        fits
    };
    sizes.iter().take(limit as usize).take_while(fits).count()
}

impl<Mode> Tx<Mode> {
    /// One call.
    pub async fn tool_call(&mut self, chat: ChatId, id: ToolCallId) -> Result<Option<ToolCall>, StoreError> {
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "SELECT ", columns!(), " FROM tool_calls WHERE organization_id = $1 AND chat_id = $2 AND id = $3"))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// The server that runs a call; none if it does not run.
    pub async fn call_node(&mut self, chat: ChatId, id: ToolCallId) -> Result<Option<String>, StoreError> {
        Ok(on!(self, c => sqlx::query_scalar(
            "SELECT node_id FROM tool_calls
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND status = 'running'")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).fetch_optional(c))?)
    }

    /// The call that was made under a caller's key.
    pub async fn tool_call_by_key(&mut self, chat: ChatId, key: &str) -> Result<Option<ToolCall>, StoreError> {
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "SELECT ", columns!(),
            " FROM tool_calls WHERE organization_id = $1 AND chat_id = $2 AND idempotency_key = $3"))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(key).fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// Calls of a chat, or of one message of it, in the order they were asked for, behind `after`: at most `limit` of them, and
    /// no more than fit into eight megabytes, but always one.
    pub async fn tool_calls(
        &mut self,
        chat: ChatId,
        message: Option<MessageId>,
        after: Option<ToolCallId>,
        limit: u32,
    ) -> Result<Page<ToolCall>, StoreError> {
        let message = message.map(|id| id.to_string()).unwrap_or_default();
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let sizes: Vec<SizeRow> = on!(self, c => sqlx::query_as(
            "SELECT id, CAST(octet_length(args) + coalesce(octet_length(result), 0) + coalesce(octet_length(logs), 0)
                             + coalesce(octet_length(render_plan), 0) AS BIGINT) AS bytes FROM tool_calls
             WHERE organization_id = $1 AND chat_id = $2 AND ($3 = '' OR message_id = $3) AND id > $4 ORDER BY id LIMIT $5")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(message.as_str()).bind(after.as_str())
            .bind(i64::from(limit) + 1).fetch_all(c))?;
        let count = fitting(&sizes, limit);
        let Some(last) = sizes[..count].last() else { return Ok(Page { items: Vec::new(), has_more: false }) };
        let rows: Vec<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "SELECT ", columns!(), " FROM tool_calls
             WHERE organization_id = $1 AND chat_id = $2 AND ($3 = '' OR message_id = $3) AND id > $4 AND id <= $5
             ORDER BY id"))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(message.as_str()).bind(after.as_str())
            .bind(last.id.as_str()).fetch_all(c))?;
        let items = rows.into_iter().map(ToolCall::try_from).collect::<Result<_, _>>()?;
        Ok(Page { items, has_more: count < sizes.len() })
    }

    /// Calls of all chats that wait for a person, in the order they were asked for, behind `after`; as many as [`Tx::tool_calls`] gives.
    pub async fn waiting_calls(&mut self, after: Option<ToolCallId>, limit: u32) -> Result<Page<ToolCall>, StoreError> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let sizes: Vec<SizeRow> = on!(self, c => sqlx::query_as(
            "SELECT id, CAST(octet_length(args) AS BIGINT) AS bytes FROM tool_calls
             WHERE organization_id = $1 AND status = 'pending' AND id > $2 ORDER BY id LIMIT $3")
            .bind(self.org.as_str()).bind(after.as_str()).bind(i64::from(limit) + 1).fetch_all(c))?;
        let count = fitting(&sizes, limit);
        let Some(last) = sizes[..count].last() else { return Ok(Page { items: Vec::new(), has_more: false }) };
        let rows: Vec<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "SELECT ", columns!(), " FROM tool_calls
             WHERE organization_id = $1 AND status = 'pending' AND id > $2 AND id <= $3 ORDER BY id"))
            .bind(self.org.as_str()).bind(after.as_str()).bind(last.id.as_str()).fetch_all(c))?;
        let items = rows.into_iter().map(ToolCall::try_from).collect::<Result<_, _>>()?;
        Ok(Page { items, has_more: count < sizes.len() })
    }

    /// All calls that a server asked for and that wait for a person.
    pub async fn waiting_calls_of(&mut self, node: &str) -> Result<Vec<ToolCall>, StoreError> {
        let rows: Vec<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "SELECT ", columns!(), " FROM tool_calls
             WHERE organization_id = $1 AND status = 'pending' AND node_id = $2 ORDER BY id"))
            .bind(self.org.as_str()).bind(node).fetch_all(c))?;
        rows.into_iter().map(ToolCall::try_from).collect()
    }

    /// How many calls of a chat wait for a person.
    pub async fn pending_calls(&mut self, chat: ChatId) -> Result<u64, StoreError> {
        let count: i64 = on!(self, c => sqlx::query_scalar(
            "SELECT count(*) FROM tool_calls WHERE organization_id = $1 AND chat_id = $2 AND status = 'pending'")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_one(c))?;
        Ok(count.try_into().unwrap_or_default())
    }

    /// When the calls that wait for a person end by themselves.
    pub async fn pending_ends(&mut self) -> Result<Vec<Timestamp>, StoreError> {
        let ends: Vec<At> = on!(self, c => sqlx::query_scalar(
            "SELECT DISTINCT expires_at FROM tool_calls
             WHERE organization_id = $1 AND status = 'pending' AND expires_at IS NOT NULL")
            .bind(self.org.as_str()).fetch_all(c))?;
        Ok(ends.into_iter().map(|at| at.0).collect())
    }

    /// The blobs that calls of a chat need, beside those of its states.
    pub async fn call_blobs(&mut self, chat: ChatId) -> Result<Vec<ContentHash>, StoreError> {
        let rows: Vec<BlobRow> = on!(self, c => sqlx::query_as(
            "SELECT result_sha256, artifact_sha256 FROM tool_calls WHERE organization_id = $1 AND chat_id = $2
             AND (result_sha256 IS NOT NULL OR artifact_sha256 IS NOT NULL)")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_all(c))?;
        let mut blobs = Vec::new();
        for row in rows {
            blobs.extend(text::<ContentHash>(row.result_sha256, "tool_calls.result_sha256")?);
            blobs.extend(text::<ContentHash>(row.artifact_sha256, "tool_calls.artifact_sha256")?);
        }
        Ok(blobs)
    }
}
