//! `POST /v1/orgs/{org}/chats`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::NewChat;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ChatView, selectors, title};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// A chat to be made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateChat {
    /// One line.
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    /// Which tools it may use: ids, `mcp:<server key>`, `toolset:<id>`, patterns; `-` in front takes away.
    #[schema(max_items = 512)]
    tool_selectors: Option<Vec<String>>,
}

/// Make a chat
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats", tag = "chats",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = CreateChat,
    responses((status = 201, body = ChatView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_chat(
    State(app): State<App>,
    caller: MayUse,
    JsonBody(body): JsonBody<CreateChat>,
) -> Result<(StatusCode, Json<ChatView>), ApiError> {
    let (title, tool_selectors) = (title(body.title)?, selectors(body.tool_selectors)?);
    let new = NewChat { title, tool_selectors, of_run: false };
    let mut tx = app.store().write(&caller.org).await?;
    let chat = tx.create_chat(&new).await?;
    tx.commit().await?;
    app.events().chat_changed(&caller.org, chat.id, "created");
    Ok((StatusCode::CREATED, Json(chat.into())))
}
