//! `PATCH /v1/orgs/{org}/chats/{chat}`

use axum::Json;
use axum::extract::State;
use kitbag_model::ChatChange;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ChatPath, ChatView, selectors, title};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf, nullable};
use crate::app::App;

/// What to change: an absent field stays, a null one is cleared.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateChat {
    /// One line.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    title: Option<Option<String>>,
    /// Which tools it may use.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<String>>, max_items = 512)]
    tool_selectors: Option<Option<Vec<String>>>,
}

/// Change a chat
#[utoipa::path(
    patch, path = "/v1/orgs/{org}/chats/{chat}", tag = "chats",
    params(ChatPath),
    request_body = UpdateChat,
    responses((status = 200, body = ChatView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_chat(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<UpdateChat>,
) -> Result<Json<ChatView>, ApiError> {
    let change = ChatChange {
        title: body.title.map(title).transpose()?,
        tool_selectors: body.tool_selectors.map(selectors).transpose()?,
    };
    let mut tx = app.store().write(&caller.org).await?;
    let chat = tx.update_chat(path.id()?, &change).await?.ok_or_else(|| path.not_found())?;
    tx.commit().await?;
    app.events().chat_changed(&caller.org, chat.id, "changed");
    if change.tool_selectors.is_some() {
        app.events().selectors_changed(&caller.org, chat.id);
    }
    Ok(Json(chat.into()))
}
