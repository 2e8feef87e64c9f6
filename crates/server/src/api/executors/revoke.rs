//! `DELETE /v1/orgs/{org}/executors/{executor}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::Action;
use serde_json::json;

use super::ExecutorPath;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Take an executor out, at once
///
/// What it has goes to somebody else. Its machine keeps what it had written; it cannot send it any more.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/executors/{executor}", tag = "executors",
    params(ExecutorPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn revoke_executor(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ExecutorPath>,
) -> Result<StatusCode, ApiError> {
    let id = path.id()?;
    let mut tx = app.store().write(&caller.org).await?;
    if !tx.revoke_executor(id).await? {
        return Err(path.not_found());
    }
    tx.audit(&caller.who, Action::ExecutorRevoked, &id.to_string(), &json!({})).await?;
    tx.commit_chat().await?;
    app.runs().executor_revoked(&caller.org, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
