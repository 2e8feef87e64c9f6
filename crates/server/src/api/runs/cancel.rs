//! `POST /v1/orgs/{org}/agent-runs/{run}/cancel`

use axum::Json;
use axum::extract::State;

use super::{RunPath, RunView};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// End a run before its time
///
/// One that waits is over at once. One that an executor has is over when the executor has ended the agent, with everything it started.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agent-runs/{run}/cancel", tag = "runs",
    params(RunPath),
    responses((status = 200, body = RunView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn cancel_run(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<RunPath>,
) -> Result<Json<RunView>, ApiError> {
    let run = path.seen(&app, &caller.org, caller.audience()).await?;
    match app.runs().cancel(&caller.org, run.id, &caller.who).await? {
        Some(run) => Ok(Json(RunView::new(run, None))),
        None => Err(ApiError::new(Code::Conflict, format!("the run is over: it is {}", run.state))),
    }
}
