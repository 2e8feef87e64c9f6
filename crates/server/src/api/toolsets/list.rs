//! `GET /v1/orgs/{org}/toolsets`

use axum::Json;
use axum::extract::State;
use kitbag_model::ToolsetId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::ToolsetView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// Which toolsets, and which part of their list.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToolsetsQuery {
    /// Only those that were made for one MCP server (`true`), or only the others (`false`).
    user_mcp: Option<bool>,
    /// How many items at the most: 1 to 200, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// List the toolsets, by id
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets", tag = "toolsets",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ToolsetsQuery),
    responses((status = 200, body = List<ToolsetView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_toolsets(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ToolsetsQuery>,
) -> Result<Json<List<ToolsetView>>, ApiError> {
    let part = ListQuery::new(query.limit, query.cursor);
    let (after, limit) = (part.after::<ToolsetId>("toolsets")?, part.limit()?);
    let mut tx = app.store().read(&caller.org).await?;
    let page = tx.toolsets(caller.audience(), query.user_mcp, after.as_ref(), limit).await?;
    Ok(Json(List::of("toolsets", page, |toolset| toolset.id.clone())))
}
