//! `GET /v1/orgs/{org}/agent-runs/{run}/calls/{event}`

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::RunPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The path of a call of a run.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RunCallPath {
    /// The organisation; `local` in the embedded mode.
    org: String,
    /// The run.
    run: String,
    /// The number of the event `tool_result` that has its result.
    #[param(value_type = u64, minimum = 1)]
    event: String,
}

/// A call that an agent made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentRunCall)]
pub(crate) struct RunCallView {
    /// The engine's own name for the call, as its events have it.
    call_id: String,
    /// The tool, as the agent sees it.
    tool: String,
    /// The tool, as it is known here; null for one of the agent's own.
    #[schema(required)]
    tool_id: Option<String>,
    /// How to show the result: `{"renderer","config"}`; null if the call failed, or if it is shown by its shape. Of a page or a frame `config`
    /// has `url`, its address for a short time.
    #[schema(required, value_type = Option<Object>)]
    render_plan: Option<Value>,
    /// Why the result is not shown as it was meant to be.
    warnings: Vec<String>,
}

/// See how the result of an agent's call is shown
///
/// By the renderer that its tool had, with all overrides, when the run was made, whatever became of its toolset since; an agent's own tools by their
/// names. What listens on a port of the agent's machine cannot be shown.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agent-runs/{run}/calls/{event}", tag = "runs",
    params(RunCallPath),
    responses((status = 200, body = RunCallView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_run_call(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<RunCallPath>,
) -> Result<Json<RunCallView>, ApiError> {
    let RunCallPath { org, run, event } = path;
    let run = RunPath { org, run }.seen(&app, &caller.org, caller.audience()).await?;
    let not_found = || ApiError::not_found("result of a call", &event);
    let number: u64 = event.parse().map_err(|_| not_found())?;
    let call = app.runs().call(&caller.org, &run, number).await?.ok_or_else(not_found)?;
    Ok(Json(RunCallView {
        call_id: call.call_id,
        tool: call.tool,
        tool_id: call.tool_id.map(|id| id.to_string()),
        render_plan: call.plan,
        warnings: call.warnings,
    }))
}
