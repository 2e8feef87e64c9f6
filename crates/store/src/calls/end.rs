//! Calls that end without having run to their end.

use kitbag_model::{CallError, CallStatus, ChatId, Timestamp, ToolCall, ToolCallId};

use super::read::{CallRow, columns};
use super::write::to_json;
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{WriteTx, execute, on};

impl WriteTx {
    /// Ends a call that is in a state, with an error. Nothing if it is in another one.
    pub async fn end_call(
        &mut self,
        chat: ChatId,
        id: ToolCallId,
        status: CallStatus,
        error: &CallError,
    ) -> Result<Option<ToolCall>, StoreError> {
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = 'error', error = $5, finished_at = $6
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND status = $4
               AND status IN ('pending', 'running') RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).bind(status.as_str())
            .bind(to_json(error)).bind(At(Timestamp::now())).fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// Ends a call that a server runs, if it is still that server's. The call as it is then.
    pub async fn end_call_of(
        &mut self,
        node: &str,
        chat: ChatId,
        id: ToolCallId,
        error: &CallError,
    ) -> Result<Option<ToolCall>, StoreError> {
        let row: Option<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = 'error', error = $5, finished_at = $6
             WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND node_id = $4
               AND status = 'running' RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(chat.to_string()).bind(id.to_string()).bind(node)
            .bind(to_json(error)).bind(At(Timestamp::now())).fetch_optional(c))?;
        row.map(ToolCall::try_from).transpose()
    }

    /// Ends all calls that nobody decided about in time.
    pub async fn expire_calls(&mut self, now: Timestamp, error: &CallError) -> Result<Vec<ToolCall>, StoreError> {
        let rows: Vec<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = 'error', error = $3, finished_at = $2
             WHERE organization_id = $1 AND status = 'pending' AND expires_at <= $2 RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(At(now)).bind(to_json(error)).fetch_all(c))?;
        rows.into_iter().map(ToolCall::try_from).collect()
    }

    /// Has another server run a call. Whether it is still the first one's.
    pub async fn take_call(&mut self, chat: ChatId, id: ToolCallId, from: &str, to: &str) -> Result<bool, StoreError> {
        let taken = execute!(
            self,
            sqlx::query(
                "UPDATE tool_calls SET node_id = $5
                 WHERE organization_id = $1 AND chat_id = $2 AND id = $3 AND node_id = $4 AND status = 'running'"
            )
            .bind(self.org.as_str())
            .bind(chat.to_string())
            .bind(id.to_string())
            .bind(from)
            .bind(to)
        )?;
        Ok(taken > 0)
    }

    /// Ends all calls that a server ran, and does not run any more. How many there were.
    pub async fn interrupt_calls(&mut self, node: &str, error: &CallError) -> Result<Vec<ToolCall>, StoreError> {
        let rows: Vec<CallRow> = on!(self, c => sqlx::query_as(concat!(
            "UPDATE tool_calls SET status = 'error', error = $3, finished_at = $4
             WHERE organization_id = $1 AND status = 'running' AND node_id = $2 RETURNING ", columns!()))
            .bind(self.org.as_str()).bind(node).bind(to_json(error)).bind(At(Timestamp::now())).fetch_all(c))?;
        rows.into_iter().map(ToolCall::try_from).collect()
    }
}
