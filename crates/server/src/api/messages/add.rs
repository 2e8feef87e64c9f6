//! `POST /v1/orgs/{org}/chats/{chat}/messages`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{ChatId, Content, Message, NewMessage, OrgId, Parent, Source};
use kitbag_store::AddMessageError;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{ContentShape, MessageView, RoleName};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf, nullable};
use crate::app::App;
use crate::workspaces::WorkspaceError;

/// A message to be added.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddMessage {
    /// The message to go below. Absent: the one the chat stands at. Null: the top. One that has children: a branch.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    parent_id: Option<Option<String>>,
    #[schema(value_type = RoleName)]
    role: String,
    #[schema(value_type = ContentShape)]
    content: Value,
}

/// Add a message, which becomes the one the chat stands at
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/messages", tag = "messages",
    params(ChatPath),
    request_body = AddMessage,
    responses((status = 201, body = MessageView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn add_message(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<AddMessage>,
) -> Result<(StatusCode, Json<MessageView>), ApiError> {
    let no_parent = || ApiError::invalid("parentId", "is not a message of this chat");
    let parent = match body.parent_id {
        None => Parent::ActiveLeaf,
        Some(None) => Parent::Root,
        Some(Some(id)) => Parent::Message(id.parse().map_err(|_| no_parent())?),
    };
    let role = body.role.parse().map_err(|reason| ApiError::invalid("role", reason))?;
    let content = Content::try_from(body.content).map_err(|reason| ApiError::invalid("content", reason))?;
    let message = put(&app, &caller.org, path.id()?, NewMessage { parent, role, content }).await?;
    Ok((StatusCode::CREATED, Json(message.into())))
}

/// Adds a message, with the workspace of its branch.
pub(crate) async fn put(app: &App, org: &OrgId, chat: ChatId, new: NewMessage) -> Result<Message, ApiError> {
    let no_chat = || ApiError::not_found("chat", &chat.to_string());
    let explain = |error| match error {
        WorkspaceError::NoChat => no_chat(),
        other => other.into(),
    };
    // A branch has a workspace of its own: what was changed in the folder belongs to where the chat stood before.
    let lease = match new.parent {
        Parent::ActiveLeaf => None,
        _ => Some(app.workspaces().edit(org, chat).await?),
    };
    let has_folder = app.workspaces().exists(org, chat);
    if let Some(lease) = lease.as_ref().filter(|_| has_folder) {
        lease.restore().await.map_err(explain)?;
        lease.keep(Source::Branch, None).await.map_err(explain)?;
        // From here on the folder is what the database says, whatever happens to us.
        lease.change(|workspace| workspace.unsettle()).await?;
    }
    let mut tx = match &lease {
        Some(lease) => lease.write().await?,
        None => app.store().write(org).await?,
    };
    let message = tx.add_message(chat, &new).await.map_err(|error| match error {
        AddMessageError::NoChat => no_chat(),
        AddMessageError::NoParent => ApiError::invalid("parentId", "is not a message of this chat"),
        AddMessageError::Store(error) => error.into(),
    })?;
    tx.commit().await?;
    app.events().chat_changed(org, chat, "message");
    if let Some(lease) = lease.filter(|_| has_folder) {
        lease.restore().await.map_err(explain)?;
    }
    Ok(message)
}
