//! Who did what to what. Lines are added and read; on PostgreSQL the role that serves can do nothing else to them.

use std::sync::Arc;

use kitbag_model::{
    Action, ActionFilter, ActorFilter, AuditEntry, AuditFilter, AuditId, AuditPlace, CallStatus, ChatId, ContentHash,
    Timestamp, ToolCall, ToolId, actor_ids,
};
use serde::Serialize;
use serde_json::Value;

use crate::calls::to_json;
use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, SharedAt, row};
use crate::tx::{Inner, Tx, WriteTx, execute, insert_often};

row!(AuditRow {
    id: String,
    at: At,
    actor: String,
    user_id: Option<String>,
    token_id: Option<String>,
    action: String,
    subject: String,
    details: String,
});

impl TryFrom<AuditRow> for AuditEntry {
    type Error = StoreError;

    fn try_from(row: AuditRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let (user, token) = (row.user_id.map(|id| id.parse()), row.token_id.map(|id| id.parse()));
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("audit.id"))?,
            at: row.at.0,
            actor: row.actor,
            user: user.transpose().map_err(|_| corrupt("audit.user_id"))?,
            token: token.transpose().map_err(|_| corrupt("audit.token_id"))?,
            action: row.action,
            subject: row.subject,
            details: serde_json::from_str(&row.details).map_err(|_| corrupt("audit.details"))?,
        })
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
        Self { tool_id, chat_id: *chat_id, args_sha256: *args_sha256, generation: generation.as_deref(), status }
    }
}

/// The same as a value.
pub fn asked_details(call: &ToolCall, status: CallStatus) -> Value {
    serde_json::to_value(AskedDetails::of(call, status)).expect("values of the model can be written as JSON")
}

/// A line to be added, of texts that other rows have too.
pub(crate) struct NewLine {
    pub(crate) at: SharedAt,
    pub(crate) actor: Arc<str>,
    pub(crate) action: Action,
    pub(crate) subject: Arc<str>,
    pub(crate) details: Arc<str>,
}

impl WriteTx {
    /// Adds a line. It is there if what it speaks of is: they share the transaction.
    pub async fn audit(
        &mut self,
        actor: &str,
        action: Action,
        subject: &str,
        details: &Value,
    ) -> Result<(), StoreError> {
        let (user, token) = actor_ids(actor);
        execute!(
            self,
            sqlx::query(
                "INSERT INTO audit (organization_id, id, at, actor, user_id, token_id, action, subject, details)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            )
            .bind(self.org.as_str())
            .bind(AuditId::generate().to_string())
            .bind(At(Timestamp::now()))
            .bind(actor)
            .bind(user.map(|id| id.to_string()))
            .bind(token.map(|id| id.to_string()))
            .bind(action.as_str())
            .bind(subject)
            .bind(to_json(details))
        )?;
        Ok(())
    }

    /// Adds many.
    pub(crate) async fn add_lines(&mut self, lines: &[NewLine]) -> Result<(), StoreError> {
        let org: Arc<str> = self.org.as_str().into();
        // Nearly always all of them.
        for lines in lines.chunk_by(|a, b| a.actor == b.actor && a.action == b.action) {
            let Some(NewLine { actor, action, .. }) = lines.first() else { continue };
            let (user, token) = actor_ids(actor);
            let (user, token) = (user.map(|id| id.to_string()), token.map(|id| id.to_string()));
            insert_often!(
                self,
                "audit",
                "id, at, subject, details",
                {
                    "organization_id" => Arc::clone(&org),
                    "actor" => Arc::clone(actor),
                    "user_id" => user.clone(),
                    "token_id" => token.clone(),
                    "action" => action.as_str(),
                },
                lines,
                |row, line| {
                    row.push_bind(AuditId::generate().to_string())
                        .push_bind(line.at.clone())
                        .push_bind(Arc::clone(&line.subject))
                        .push_bind(Arc::clone(&line.details));
                }
            );
        }
        Ok(())
    }
}

/// The statement has only the conditions that are asked for: each of them has an index, which "or nothing was asked" would hide.
macro_rules! select {
    ($database:ty, $connection:expr, $org:expr, $filter:expr, $before:expr, $limit:expr) => {{
        let (filter, org): (&AuditFilter, &str) = ($filter, $org);
        let mut query = sqlx::QueryBuilder::<$database>::new(
            "SELECT id, at, actor, user_id, token_id, action, subject, details FROM audit WHERE organization_id = ",
        );
        query.push_bind(org.to_owned());
        match &filter.actor {
            Some(ActorFilter::Id(id)) => {
                query.push(" AND (user_id = ").push_bind(id.clone());
                query.push(" OR token_id = ").push_bind(id.clone()).push(")");
            }
            Some(ActorFilter::Text(text)) => {
                let address = format!("{text} (user ");
                query.push(" AND (actor = ").push_bind(text.clone());
                query.push(" OR substr(actor, 1, length(").push_bind(address.clone());
                query.push(")) = ").push_bind(address).push(")");
            }
            None => {}
        }
        match &filter.action {
            Some(ActionFilter::Is(name)) => {
                query.push(" AND action = ").push_bind(name.clone());
            }
            Some(ActionFilter::Begins(name)) => {
                // `/` is the character behind the dot that the name ends with.
                let behind = format!("{}/", name.trim_end_matches('.'));
                query.push(" AND action >= ").push_bind(name.clone()).push(" AND action < ").push_bind(behind);
            }
            None => {}
        }
        if let Some(subject) = &filter.subject {
            query.push(" AND subject = ").push_bind(subject.clone());
        }
        if let Some(since) = filter.since {
            query.push(" AND at >= ").push_bind(At(since));
        }
        if let Some(until) = filter.until {
            query.push(" AND at < ").push_bind(At(until));
        }
        if let Some(AuditPlace { at, id }) = $before {
            query.push(" AND (at, id) < (").push_bind(At(at)).push(", ").push_bind(id.to_string()).push(")");
        }
        query.push(" ORDER BY at DESC, id DESC LIMIT ").push_bind(i64::from($limit) + 1);
        query.build_query_as().fetch_all(&mut **$connection).await
    }};
}

impl<Mode> Tx<Mode> {
    /// Lines, newest first, that stand before `before`.
    pub async fn audit_lines(
        &mut self,
        filter: &AuditFilter,
        before: Option<AuditPlace>,
        limit: u32,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let rows: Vec<AuditRow> = match &mut self.inner {
            Inner::Sqlite(tx) => select!(sqlx::Sqlite, tx, self.org.as_str(), filter, before, limit),
            Inner::Postgres(tx) => select!(sqlx::Postgres, tx, self.org.as_str(), filter, before, limit),
        }?;
        Page::from_rows(rows, limit)
    }

    /// The newest lines, newest first.
    pub async fn audit_trail(&mut self, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.audit_lines(&AuditFilter::default(), None, limit).await?.items)
    }
}
