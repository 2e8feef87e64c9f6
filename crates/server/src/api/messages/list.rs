//! `GET /v1/orgs/{org}/chats/{chat}/messages`

use axum::Json;
use axum::extract::State;

use super::MessageView;
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the messages of a chat, all branches, in the order they were added
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/messages", tag = "messages",
    params(ChatPath, ListQuery),
    responses((status = 200, body = List<MessageView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_messages(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<MessageView>>, ApiError> {
    let chat = path.id()?;
    // A cursor of another chat's messages would start at a random place in this one.
    let list = format!("messages {chat}");
    let (after, limit) = (query.after(&list)?, query.limit()?);
    let mut tx = app.store().read(&caller.org).await?;
    tx.chat(chat).await?.ok_or_else(|| path.not_found())?;
    let mut page = tx.messages(chat, after, limit).await?;
    page.items.iter_mut().for_each(|message| app.settle_turn(&caller.org, message));
    Ok(Json(List::of(&list, page, |message| message.id)))
}
