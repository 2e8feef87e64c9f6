//! `GET /v1/orgs/{org}/tools`

use std::collections::HashMap;
use std::str::FromStr;

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
    let (after, limit) = (part.after::<Place>("tools")?, part.limit()?);
    if query.q.as_ref().is_some_and(|text| text.chars().count() > 500) {
        return Err(ApiError::invalid("q", "must have at most 500 characters"));
    }
    let mut catalogue = app.toolsets().catalogue(&caller.org, caller.audience()).await?;
    let places: HashMap<String, usize> =
        catalogue.tools.iter().enumerate().map(|(place, tool)| (tool.id.to_string(), place)).collect();
    if let Some(after) = &after {
        catalogue.tools.drain(..after.next_place(&places));
    }
    if let Some(words) = &query.q {
        catalogue = catalogue.search(words);
    }
    if query.available {
        catalogue = catalogue.available();
    }
    let cursor = |tool: &Tool| {
        let id = tool.id.to_string();
        format!("{} {id}", places.get(&id).copied().unwrap_or_default())
    };
    Ok(Json(List::cut("tools", catalogue.tools, limit, cursor, ToolView::from)))
}

/// The last tool of the part before: where it was, and which.
struct Place(usize, String);

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, id) = text.split_once(' ').ok_or(())?;
        Ok(Self(place.parse().map_err(drop)?, id.to_owned()))
    }
}

impl Place {
    /// Where to go on: behind that tool, or, if it has gone, where it was.
    fn next_place(&self, places: &HashMap<String, usize>) -> usize {
        places.get(&self.1).map_or(self.0.min(places.len()), |place| place + 1)
    }
}
