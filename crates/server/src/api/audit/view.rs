//! A line of the audit as the API shows it.

use kitbag_model::AuditEntry;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Who did what to what.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub(crate) struct AuditEntryView {
    pub(super) id: String,
    #[schema(format = DateTime)]
    pub(super) at: String,
    /// Who, for people: `ada@example.org (user …)`, `token … of user …`, `server`.
    pub(super) actor: String,
    /// The person that it was, or whose token; null if it was nobody's, or if the line is older than this field.
    #[schema(required)]
    pub(super) user_id: Option<String>,
    /// The token that it was done with; null if it was done at the page.
    #[schema(required)]
    pub(super) token_id: Option<String>,
    /// What was done, such as `toolset.trusted`.
    pub(super) action: String,
    /// To what: an id, a key, an address. What kind of thing it is follows from the action.
    pub(super) subject: String,
    /// More, which depends on the action. Never a secret.
    #[schema(value_type = Object)]
    pub(super) details: Value,
}

impl From<AuditEntry> for AuditEntryView {
    fn from(line: AuditEntry) -> Self {
        Self {
            id: line.id.to_string(),
            at: line.at.to_string(),
            actor: line.actor,
            user_id: line.user.map(|id| id.to_string()),
            token_id: line.token.map(|id| id.to_string()),
            action: line.action,
            subject: line.subject,
            details: line.details,
        }
    }
}
