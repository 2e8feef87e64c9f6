//! `POST /v1/orgs/{org}/agent-runs/{run}/retry`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::run::RunConfig;

use super::{RunPath, RunView};
use crate::access::caller::MayDecide;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::runs::Ask;

/// Do a run again, as a new one
///
/// It asks for the same, beginning with the same files; its toolset is taken as it is now. Only what is over is done again.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agent-runs/{run}/retry", tag = "runs",
    params(RunPath),
    responses((status = 201, body = RunView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn retry_run(
    State(app): State<App>,
    caller: MayDecide,
    PathOf(path): PathOf<RunPath>,
) -> Result<(StatusCode, Json<RunView>), ApiError> {
    let run = path.seen(&app, &caller.org, caller.audience()).await?;
    if !run.state.is_over() {
        return Err(ApiError::new(Code::Conflict, format!("the run is {}; cancel it first, or wait", run.state)));
    }
    let config = RunConfig::read(&run.config).map_err(ApiError::internal)?;
    // A run that had a folder of its own and began with nothing gets one again.
    let own = app.store().read_beside(&caller.org).await?.is_chat_of_run(run.chat_id).await?;
    let ask = Ask {
        name: run.name.as_deref().and_then(|name| name.parse().ok()),
        config,
        chat: (!own).then_some(run.chat_id),
        manifest: run.pre_manifest_id.filter(|_| !own),
        apply: Some(run.apply),
        retry_of: Some(run.id),
    };
    let run = app.runs().ask(&caller.org, caller.audience(), &caller.who, ask).await?;
    let waiting = app.runs().why_waiting(&caller.org, &run).await?;
    Ok((StatusCode::CREATED, Json(RunView::new(run, waiting))))
}
