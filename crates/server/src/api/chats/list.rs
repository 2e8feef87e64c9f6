//! `GET /v1/orgs/{org}/chats`

use axum::Json;
use axum::extract::State;

use super::ChatView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the chats, newest first
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats", tag = "chats",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ListQuery),
    responses((status = 200, body = List<ChatView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_chats(
    State(app): State<App>,
    caller: MayUse,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<ChatView>>, ApiError> {
    let (before, limit) = (query.after("chats")?, query.limit()?);
    let page = app.store().read(&caller.org).await?.chats(before, limit).await?;
    Ok(Json(List::of("chats", page, |chat| chat.id)))
}
