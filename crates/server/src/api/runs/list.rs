//! `GET /v1/orgs/{org}/agent-runs`

use axum::Json;
use axum::extract::State;
use kitbag_model::run::{Run, RunState};
use serde::Deserialize;
use utoipa::IntoParams;

use super::RunView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunsQuery {
    /// Only those of this chat.
    chat: Option<String>,
    /// Only those in this state.
    state: Option<String>,
    /// How many items at the most: 1 to 200, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// List runs, newest first
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agent-runs", tag = "runs",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), RunsQuery),
    responses((status = 200, body = List<RunView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_runs(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<RunsQuery>,
) -> Result<Json<List<RunView>>, ApiError> {
    let chat = match &query.chat {
        Some(id) => Some(id.parse().map_err(|_| ApiError::not_found("chat", id))?),
        None => None,
    };
    let state: Option<RunState> = match &query.state {
        Some(state) => Some(state.parse().map_err(|reason| ApiError::invalid("state", reason))?),
        None => None,
    };
    let query = ListQuery::new(query.limit, query.cursor);
    let (before, limit) = (query.after("runs")?, query.limit()?);
    let mut tx = app.store().read_beside(&caller.org).await?;
    let page = tx.runs(caller.audience(), chat, state.map(RunState::as_str), before, limit).await?;
    drop(tx);
    let last = page.items.last().filter(|_| page.has_more).map(|run| run.id.to_string());
    let mut items = Vec::with_capacity(page.items.len());
    for run in page.items {
        items.push(view(&app, &caller, run).await?);
    }
    Ok(Json(List::part("runs", items, last)))
}

async fn view(app: &App, caller: &MayUse, run: Run) -> Result<RunView, ApiError> {
    let waiting = app.runs().why_waiting(&caller.org, &run).await?;
    Ok(RunView::new(run, waiting))
}
