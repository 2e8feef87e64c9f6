//! `GET /v1/orgs/{org}/executors`

use axum::Json;
use axum::extract::State;

use super::ExecutorView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the executors of the organisation, oldest first
#[utoipa::path(
    get, path = "/v1/orgs/{org}/executors", tag = "executors",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<ExecutorView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_executors(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<ExecutorView>>, ApiError> {
    let (after, limit) = (query.after("executors")?, query.limit()?);
    let page = app.store().read_beside(&caller.org).await?.executors(after, limit).await?;
    let last = page.items.last().filter(|_| page.has_more).map(|executor| executor.id.to_string());
    let mut items = Vec::with_capacity(page.items.len());
    for executor in page.items {
        let in_flight = app.runs().in_flight(&caller.org, executor.id).await?;
        let connected = app.runs().is_connected(&executor);
        items.push(ExecutorView::new(executor, connected, in_flight));
    }
    Ok(Json(List::part("executors", items, last)))
}
