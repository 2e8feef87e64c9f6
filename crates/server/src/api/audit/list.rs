//! `GET /v1/orgs/{org}/audit`

use axum::Json;
use axum::extract::State;
use kitbag_model::AuditEntry;
use serde::Deserialize;
use utoipa::IntoParams;

use super::AuditEntryView;
use super::query::Asked;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// Which lines, and which part of their list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only what somebody did: the id of a member or of a token, an e-mail address, or `server`.
    actor: Option<String>,
    /// Only what was done: the name of an action, or the beginning of several with a dot at its end, such as `toolset.`
    action: Option<String>,
    /// Only what was done to this.
    subject: Option<String>,
    /// Only what was done then or later; RFC 3339.
    since: Option<String>,
    /// Only what was done before then; RFC 3339.
    until: Option<String>,
    /// How many items at the most: 1 to 200, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// List who did what, newest first
#[utoipa::path(
    get, path = "/v1/orgs/{org}/audit", tag = "audit",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), AuditQuery),
    responses((status = 200, body = List<AuditEntryView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_audit(
    State(app): State<App>,
    caller: MayManage,
    QueryOf(query): QueryOf<AuditQuery>,
) -> Result<Json<List<AuditEntryView>>, ApiError> {
    let part = ListQuery::new(query.limit, query.cursor);
    let (before, limit) = (part.after("audit")?, part.limit()?);
    let AuditQuery { actor, action, subject, since, until, .. } = query;
    let filter = Asked { actor, action, subject, since, until }.check()?;
    let page = app.store().read(&caller.org).await?.audit_lines(&filter, before, limit).await?;
    Ok(Json(List::of("audit", page, AuditEntry::place)))
}
