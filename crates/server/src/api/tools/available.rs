//! `GET /v1/orgs/{org}/available-tools`

use axum::Json;
use axum::extract::State;
use kitbag_model::resolution::{Lists, Verdict};
use serde::Deserialize;
use utoipa::IntoParams;

use super::ToolView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::List;
use crate::app::App;
use crate::resolution::Bounds;

/// For whom.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AvailableQuery {
    /// A chat: then only tools that its `toolSelectors` admit.
    chat: Option<String>,
}

/// All tools that can be called now and that the server's own lists leave, in one list
#[utoipa::path(
    get, path = "/v1/orgs/{org}/available-tools", tag = "tools",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), AvailableQuery),
    responses((status = 200, body = List<ToolView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_available_tools(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<AvailableQuery>,
) -> Result<Json<List<ToolView>>, ApiError> {
    let mut bounds = Bounds::default();
    if let Some(text) = query.chat {
        let not_found = || ApiError::not_found("chat", &text);
        let chat = text.parse().map_err(|_| not_found())?;
        let chat = app.store().read(&caller.org).await?.chat(chat).await?.ok_or_else(not_found)?;
        bounds = Bounds::of_selectors(chat.tool_selectors.as_deref().unwrap_or_default());
    }
    let selectors = bounds.selectors(app.toolsets(), &caller.org, caller.audience()).await?;
    let mut tools = app.resolve(&caller.org, caller.audience(), &Lists::default()).await?.into_tools().0;
    tools.retain(|tool| selectors.verdict(&tool.id, &tool.toolset.0) == Verdict::In);
    Ok(Json(List::part("", tools.into_iter().map(ToolView::from).collect(), None)))
}
