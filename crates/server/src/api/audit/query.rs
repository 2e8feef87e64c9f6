//! What may be asked of the audit.

use kitbag_model::{ActionFilter, ActorFilter, AuditFilter, Timestamp};

use crate::api::error::ApiError;

/// More than anything that stands in a line's columns.
const LONGEST: usize = 500;

/// The filters of a query, not yet checked.
pub(super) struct Asked {
    pub(super) actor: Option<String>,
    pub(super) action: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
}

impl Asked {
    pub(super) fn check(self) -> Result<AuditFilter, ApiError> {
        let filter = AuditFilter {
            actor: words("actor", self.actor)?.map(ActorFilter::new),
            action: words("action", self.action)?.map(ActionFilter::new),
            subject: words("subject", self.subject)?,
            since: moment("since", self.since)?,
            until: moment("until", self.until)?,
        };
        match (filter.since, filter.until) {
            (Some(since), Some(until)) if until < since => Err(ApiError::invalid("until", "is before since")),
            _ => Ok(filter),
        }
    }
}

/// An empty field of a form asks for nothing.
fn words(field: &str, text: Option<String>) -> Result<Option<String>, ApiError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.len() > LONGEST || text.contains('\0') {
        return Err(ApiError::invalid(field, format!("must have at most {LONGEST} bytes and no NUL")));
    }
    Ok(Some(text))
}

fn moment(field: &str, text: Option<String>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let read = text.parse().map_err(|_| {
        ApiError::invalid(field, format!("must be a time as RFC 3339 writes it, 2026-01-02T03:04:05Z, not {text:?}"))
    });
    read.map(Some)
}
