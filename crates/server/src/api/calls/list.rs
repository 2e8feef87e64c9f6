//! `GET /v1/orgs/{org}/chats/{chat}/tool-calls`

use axum::Json;
use axum::extract::State;
use kitbag_model::MessageId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::ToolCallView;
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// Which calls, and which part of their list.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallsQuery {
    /// Only those of this message.
    message_id: Option<String>,
    /// How many items at the most: 1 to 200, 50 if absent. There may be fewer if they are large.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// List the tool calls of a chat, in the order they were asked for
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/tool-calls", tag = "tool calls",
    params(ChatPath, CallsQuery),
    responses((status = 200, body = List<ToolCallView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_tool_calls(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<CallsQuery>,
) -> Result<Json<List<ToolCallView>>, ApiError> {
    let chat = path.id()?;
    let part = ListQuery::new(query.limit, query.cursor);
    let list = format!("calls {chat}");
    let (after, limit) = (part.after(&list)?, part.limit()?);
    let unknown = || ApiError::invalid("messageId", "is not a message of this chat");
    let message: Option<MessageId> = query.message_id.map(|id| id.parse().map_err(|_| unknown())).transpose()?;
    let mut tx = app.store().read(&caller.org).await?;
    tx.chat(chat).await?.ok_or_else(|| path.not_found())?;
    if let Some(message) = message
        && !tx.has_message(chat, message).await?
    {
        return Err(unknown());
    }
    let page = tx.tool_calls(chat, message, after, limit).await?;
    Ok(Json(List::of(&list, page, |call| call.id)))
}
