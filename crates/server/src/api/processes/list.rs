//! `GET /v1/orgs/{org}/chats/{chat}/processes`

use axum::Json;
use axum::extract::State;

use super::ProcessView;
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::api::list::List;
use crate::app::App;

/// List what tool calls of a chat left running
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/processes", tag = "processes",
    params(ChatPath),
    responses((status = 200, body = List<ProcessView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_processes(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
) -> Result<Json<List<ProcessView>>, ApiError> {
    let chat = path.id()?;
    app.store().read(&caller.org).await?.chat(chat).await?.ok_or_else(|| path.not_found())?;
    let processes = app.workers().processes(&caller.org, chat).await;
    Ok(Json(List::part("", processes.into_iter().map(ProcessView::from).collect(), None)))
}
