//! `PATCH /v1/orgs/{org}/executors/{executor}`

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use kitbag_model::run::ExecutorName;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{ExecutorPath, ExecutorView, labels};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// What to say of an executor from now on. What is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateExecutor {
    #[schema(min_length = 1, max_length = 120)]
    name: Option<String>,
    /// All its labels; a group is `group:<name>`.
    #[schema(max_items = 50)]
    labels: Option<Vec<String>>,
}

/// Call an executor otherwise, or give it other labels
#[utoipa::path(
    patch, path = "/v1/orgs/{org}/executors/{executor}", tag = "executors",
    params(ExecutorPath),
    request_body = UpdateExecutor,
    responses((status = 200, body = ExecutorView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_executor(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ExecutorPath>,
    JsonBody(body): JsonBody<UpdateExecutor>,
) -> Result<Json<ExecutorView>, ApiError> {
    let id = path.id()?;
    let name: Option<ExecutorName> =
        body.name.map(|name| name.parse()).transpose().map_err(|reason| ApiError::invalid("name", reason))?;
    let labels = body.labels.map(labels).transpose()?;
    let mut tx = app.store().write(&caller.org).await?;
    let changed = tx.update_executor(id, name.as_ref(), labels.as_deref()).await?;
    let executor = changed.ok_or_else(|| path.not_found())?;
    let details = json!({ "name": executor.name, "labels": executor.labels });
    tx.audit(&caller.who, Action::ExecutorUpdated, &id.to_string(), &details).await?;
    tx.commit_chat().await?;
    app.runs().executor_changed(id);
    let in_flight = app.runs().in_flight(&caller.org, id).await?;
    let connected = app.runs().is_connected(&executor);
    Ok(Json(ExecutorView::new(executor, connected, in_flight)))
}
