//! `POST /v1/orgs/{org}/chats/{chat}/active-leaf`

use axum::Json;
use axum::extract::State;
use kitbag_model::MessageId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ChatPath, ChatView};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// Where to stand.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetActiveLeaf {
    /// A message of the chat.
    message_id: String,
}

/// Stand at another message, with its branch's workspace
///
/// What had been changed in the workspace is kept first, with the message that the chat stood at.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/active-leaf", tag = "chats",
    params(ChatPath),
    request_body = SetActiveLeaf,
    responses((status = 200, body = ChatView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn set_active_leaf(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<SetActiveLeaf>,
) -> Result<Json<ChatView>, ApiError> {
    let chat = path.id()?;
    let unknown = || ApiError::invalid("messageId", "is not a message of this chat");
    let message: MessageId = body.message_id.parse().map_err(|_| unknown())?;
    let mut tx = app.store().read(&caller.org).await?;
    tx.chat(chat).await?.ok_or_else(|| path.not_found())?;
    if !tx.has_message(chat, message).await? {
        return Err(unknown());
    }
    drop(tx);
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    lease.switch(message).await?;
    drop(lease);
    app.events().chat_changed(&caller.org, chat, "branch");
    let found = app.store().read(&caller.org).await?.chat(chat).await?;
    Ok(Json(found.ok_or_else(|| path.not_found())?.into()))
}
