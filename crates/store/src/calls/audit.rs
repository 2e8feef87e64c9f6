//! Who did what to what. Lines are added and read; on PostgreSQL the role that serves can do nothing else to them.

use kitbag_model::{AuditEntry, CallStatus, ChatId, ContentHash, Timestamp, ToolCall, ToolId};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::write::to_json;
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(AuditRow { at: At, actor: String, action: String, subject: String, details: String });

impl TryFrom<AuditRow> for AuditEntry {
    type Error = StoreError;

    fn try_from(row: AuditRow) -> Result<Self, StoreError> {
        let details =
            serde_json::from_str(&row.details).map_err(|_| StoreError::Corrupt { column: "audit.details" })?;
        Ok(Self { at: row.at.0, actor: row.actor, action: row.action, subject: row.subject, details })
    }
}

/// What the line of a call that was asked for says beside its id, and what the call was then.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedDetails<'a> {
    tool_id: &'a ToolId,
    chat_id: ChatId,
    args_sha256: ContentHash,
    generation: Option<&'a str>,
    status: CallStatus,
}

impl<'a> AskedDetails<'a> {
    pub(crate) fn of(call: &'a ToolCall, status: CallStatus) -> Self {
        let ToolCall { tool_id, chat_id, args_sha256, generation, .. } = call;
        Self {
            tool_id,
            chat_id: *chat_id,
            args_sha256: *args_sha256,
            generation: generation.as_deref(),
            status,
        }
    }
}

/// The same as a value.
pub fn asked_details(call: &ToolCall, status: CallStatus) -> Value {
    serde_json::to_value(AskedDetails::of(call, status)).expect("values of the model can be written as JSON")
}

impl WriteTx {
    /// Adds a line. It is there if what it speaks of is: they share the transaction.
    pub async fn audit(&mut self, actor: &str, action: &str, subject: &str, details: &Value) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO audit (organization_id, id, at, actor, action, subject, details)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)"
            )
            .bind(self.org.as_str())
            .bind(Uuid::now_v7().to_string())
            .bind(At(Timestamp::now()))
            .bind(actor)
            .bind(action)
            .bind(subject)
            .bind(to_json(details))
        )?;
        Ok(())
    }
}

impl<Mode> Tx<Mode> {
    /// The newest lines, newest first.
    pub async fn audit_trail(&mut self, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let rows: Vec<AuditRow> = on!(self, c => sqlx::query_as(
            "SELECT at, actor, action, subject, details FROM audit WHERE organization_id = $1 ORDER BY id DESC LIMIT $2")
            .bind(self.org.as_str()).bind(i64::from(limit)).fetch_all(c))?;
        rows.into_iter().map(AuditEntry::try_from).collect()
    }
}
