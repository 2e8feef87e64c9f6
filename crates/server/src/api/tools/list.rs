//! `GET /v1/orgs/{org}/tools`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::ToolView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;
use crate::toolsets::Tool;

/// Which tools, and which part of their list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToolsQuery {
    /// Only what can be called now.
    #[serde(default)]
    available: bool,
    /// Only tools whose id, name, toolset or description have all of these words.
    #[param(max_length = 500)]
    q: Option<String>,
    /// How many items at the most: 1 to 200, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// List the tools: built-in ones first, then toolsets in the order of their installation
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools", tag = "tools",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ToolsQuery),
    responses((status = 200, body = List<ToolView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_tools(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ToolsQuery>,
) -> Result<Json<List<ToolView>>, ApiError> {
    let part = ListQuery::new(query.limit, query.cursor);
    let (after, limit) = (part.after::<String>("tools")?, part.limit()?);
    if query.q.as_ref().is_some_and(|text| text.chars().count() > 500) {
        return Err(ApiError::invalid("q", "must have at most 500 characters"));
    }
    let mut catalogue = app.toolsets().catalogue(&caller.org).await?;
    // Where the part before ended is looked for in the whole list: the tool itself may not fit the search any more.
    let start = match &after {
        Some(id) => catalogue.tools.iter().position(|tool| tool.id.to_string() == *id).map_or(0, |at| at + 1),
        None => 0,
    };
    catalogue.tools.drain(..start);
    if let Some(words) = &query.q {
        catalogue = catalogue.search(words);
    }
    if query.available {
        catalogue = catalogue.available();
    }
    Ok(Json(List::cut("tools", catalogue.tools, limit, |tool: &Tool| tool.id.to_string(), ToolView::from)))
}
