//! `GET /v1/orgs/{org}/agent-runs/{run}`

use axum::Json;
use axum::extract::State;

use super::{RunPath, RunView};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Look at a run
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agent-runs/{run}", tag = "runs",
    params(RunPath),
    responses((status = 200, body = RunView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_run(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<RunPath>,
) -> Result<Json<RunView>, ApiError> {
    let run = path.seen(&app, &caller.org, caller.audience()).await?;
    let waiting = app.runs().why_waiting(&caller.org, &run).await?;
    Ok(Json(RunView::new(run, waiting)))
}
