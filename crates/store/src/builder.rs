//! Conversations in which a toolset is put together. What comes here has no secrets in it any more.
//!
//! Each change is compare-and-set on the state: what is over stays as it is, whoever comes at the same moment.

use kitbag_model::builder::{BuilderRole, BuilderSession, BuilderStatus, BuilderTurn, MOST_TURNS, NewBuilderSession};
use kitbag_model::{BuilderSessionId, Timestamp};
use serde_json::Value;

use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

/// Conversations that nobody went on with for so long go.
const KEPT_DAYS: u64 = 30;

row!(SessionRow {
    id: String,
    status: String,
    llm: String,
    latest_intent: Option<String>,
    selected_component_keys: String,
    final_draft: Option<String>,
    final_warnings: String,
    turns: i64,
    user_id: Option<String>,
    created_by: String,
    created_at: At,
    updated_at: At,
});
row!(TurnRow { role: String, message_text: String, created_at: At });

impl TryFrom<SessionRow> for BuilderSession {
    type Error = StoreError;

    fn try_from(row: SessionRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let draft = row.final_draft.map(|text| serde_json::from_str(&text)).transpose();
        let user = row.user_id.map(|id| id.parse()).transpose();
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("toolset_builder_sessions.id"))?,
            status: row.status.parse().map_err(|_| corrupt("toolset_builder_sessions.status"))?,
            llm: serde_json::from_str(&row.llm).map_err(|_| corrupt("toolset_builder_sessions.llm"))?,
            latest_intent: row.latest_intent,
            selected: serde_json::from_str(&row.selected_component_keys)
                .map_err(|_| corrupt("toolset_builder_sessions.selected_component_keys"))?,
            final_draft: draft.map_err(|_| corrupt("toolset_builder_sessions.final_draft"))?,
            final_warnings: serde_json::from_str(&row.final_warnings)
                .map_err(|_| corrupt("toolset_builder_sessions.final_warnings"))?,
            turns: u32::try_from(row.turns).map_err(|_| corrupt("toolset_builder_sessions.turns"))?,
            user: user.map_err(|_| corrupt("toolset_builder_sessions.user_id"))?,
            created_by: row.created_by,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}

impl WriteTx {
    /// Begins a conversation. Those that nobody went on with for a month go.
    pub async fn create_builder_session(&mut self, new: &NewBuilderSession) -> Result<(), StoreError> {
        let now = Timestamp::now();
        execute!(
            self,
            sqlx::query("DELETE FROM toolset_builder_sessions WHERE organization_id = $1 AND updated_at < $2")
                .bind(self.org.as_str())
                .bind(At(now.minus_days(KEPT_DAYS)))
        )?;
        execute!(
            self,
            sqlx::query(
                "INSERT INTO toolset_builder_sessions (organization_id, id, status, llm, selected_component_keys, final_warnings,
                     turns, user_id, created_by, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, '[]', '[]', 0, $5, $6, $7, $7)"
            )
            .bind(self.org.as_str())
            .bind(new.id.to_string())
            .bind(BuilderStatus::Active.as_str())
            .bind(serde_json::to_string(&new.llm).expect("a choice of a model can be written as JSON"))
            .bind(new.user.map(|id| id.to_string()))
            .bind(new.created_by.as_str())
            .bind(At(now))
        )?;
        Ok(())
    }

    /// Adds what was said, and what is chosen now. Whether it did: a conversation that is over, or too long, stays as it is.
    pub async fn add_builder_turns(
        &mut self,
        id: BuilderSessionId,
        turns: &[(BuilderRole, &str)],
        intent: Option<&str>,
        selected: &[String],
    ) -> Result<bool, StoreError> {
        let (now, many) = (Timestamp::now(), i64::try_from(turns.len()).unwrap_or(i64::MAX));
        let last: Option<i64> = on!(self, c => sqlx::query_scalar(
            "UPDATE toolset_builder_sessions
             SET turns = turns + $3, latest_intent = COALESCE($4, latest_intent), selected_component_keys = $5, updated_at = $6
             WHERE organization_id = $1 AND id = $2 AND status = 'ACTIVE' AND turns + $3 <= $7 RETURNING turns")
            .bind(self.org.as_str()).bind(id.to_string()).bind(many).bind(intent)
            .bind(Value::from(selected).to_string()).bind(At(now)).bind(i64::from(MOST_TURNS)).fetch_optional(c))?;
        let Some(last) = last else { return Ok(false) };
        for (n, (role, text)) in (last - many + 1..).zip(turns) {
            execute!(
                self,
                sqlx::query(
                    "INSERT INTO toolset_builder_turns (organization_id, session_id, n, role, message_text, created_at)
                     VALUES ($1, $2, $3, $4, $5, $6)"
                )
                .bind(self.org.as_str())
                .bind(id.to_string())
                .bind(n)
                .bind(role.as_str())
                .bind(*text)
                .bind(At(now))
            )?;
        }
        Ok(true)
    }

    /// Ends a conversation with its draft and what must be known of it. Whether it did: one that is over stays as it is.
    pub async fn finalize_builder_session(
        &mut self,
        id: BuilderSessionId,
        selected: &[String],
        draft: &Value,
        warnings: &[String],
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_builder_sessions
                 SET status = 'FINALIZED', selected_component_keys = $3, final_draft = $4, final_warnings = $5, updated_at = $6
                 WHERE organization_id = $1 AND id = $2 AND status = 'ACTIVE'"
            )
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(Value::from(selected).to_string())
            .bind(draft.to_string())
            .bind(Value::from(warnings).to_string())
            .bind(At(Timestamp::now()))
        )?;
        Ok(changed > 0)
    }
}

impl<Mode> Tx<Mode> {
    /// One conversation.
    pub async fn builder_session(&mut self, id: BuilderSessionId) -> Result<Option<BuilderSession>, StoreError> {
        let row: Option<SessionRow> = on!(self, c => sqlx::query_as(
            "SELECT id, status, llm, latest_intent, selected_component_keys, final_draft, final_warnings, turns, user_id,
                 created_by, created_at, updated_at
             FROM toolset_builder_sessions WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(BuilderSession::try_from).transpose()
    }

    /// What was said last, so many turns of it, in the order in which it was said.
    pub async fn builder_turns(&mut self, id: BuilderSessionId, limit: u32) -> Result<Vec<BuilderTurn>, StoreError> {
        let rows: Vec<TurnRow> = on!(self, c => sqlx::query_as(
            "SELECT role, message_text, created_at FROM toolset_builder_turns
             WHERE organization_id = $1 AND session_id = $2 ORDER BY n DESC LIMIT $3")
            .bind(self.org.as_str()).bind(id.to_string()).bind(i64::from(limit)).fetch_all(c))?;
        let turn = |row: TurnRow| {
            let role = row.role.parse().map_err(|_| StoreError::Corrupt { column: "toolset_builder_turns.role" })?;
            Ok(BuilderTurn { role, text: row.message_text, at: row.created_at.0 })
        };
        rows.into_iter().rev().map(turn).collect()
    }
}
