//! `DELETE /v1/orgs/{org}/chats/{chat}/processes/{process}`

use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Action, ChatId};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The path of a process.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ProcessPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The chat.
    chat: String,
    /// The process: the id of the call that left it.
    id: String,
}

/// Stop what a tool call left running
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/chats/{chat}/processes/{id}", tag = "processes",
    params(ProcessPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn stop_process(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ProcessPath>,
) -> Result<StatusCode, ApiError> {
    let no_chat = || ApiError::not_found("chat", &path.chat);
    let chat: ChatId = path.chat.parse().map_err(|_| no_chat())?;
    app.store().read(&caller.org).await?.chat(chat).await?.ok_or_else(no_chat)?;
    if !app.workers().stop_process(&caller.org, chat, &path.id).await {
        return Err(ApiError::not_found("process", &path.id));
    }
    let mut tx = app.store().write(&caller.org).await?;
    tx.audit(&caller.who, Action::ProcessStopped, &path.id, &json!({ "chatId": chat })).await?;
    tx.commit().await?;
    app.calls().tell_processes(&caller.org, chat).await;
    Ok(StatusCode::NO_CONTENT)
}
