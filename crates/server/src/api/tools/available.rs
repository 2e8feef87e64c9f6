//! `GET /v1/orgs/{org}/available-tools`

use axum::Json;
use axum::extract::State;

use super::ToolView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::list::List;
use crate::app::App;

/// All tools that can be called now, in one list
#[utoipa::path(
    get, path = "/v1/orgs/{org}/available-tools", tag = "tools",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = List<ToolView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_available_tools(
    State(app): State<App>,
    caller: MayUse,
) -> Result<Json<List<ToolView>>, ApiError> {
    let tools = app.toolsets().catalogue(&caller.org).await?.available().tools;
    Ok(Json(List::part("", tools.into_iter().map(ToolView::from).collect(), None)))
}
