//! The chat whose workspace a client's tools use: the one that it names, or one of its own.

use std::sync::Arc;

use kitbag_mcp::serve::Fault;
use kitbag_model::{ChatId, ChatTitle, NewChat, OrgId};

use crate::api::error::ApiError;
use crate::app::App;

/// The chat of a client that names none. It is made when it is first needed, and found again.
pub(super) async fn own(app: &App, org: &OrgId, who: &str) -> Result<ChatId, ApiError> {
    let read = async || {
        if let Some(chat) = app.store().read(org).await?.chat_of(who).await? {
            return Ok(Some(chat));
        }
        let title: Option<ChatTitle> = format!("MCP: {who}").parse().ok();
        let mut tx = app.store().write(org).await?;
        let chat = tx.create_chat(&NewChat { title, ..NewChat::default() }).await?;
        let kept = tx.keep_chat_of(who, chat.id).await?;
        if kept != chat.id {
            // Somebody was quicker.
            tx.delete_chat(chat.id).await?;
        }
        tx.commit().await?;
        Ok::<_, ApiError>(Some(kept))
    };
    let found = app.gateway().chats.get(app.store().chat_edition(), (org.clone(), who.to_owned()), read).await?;
    found.ok_or_else(|| ApiError::not_found("chat", who))
}

/// The chat of a client that names none, if there is one yet.
pub(super) async fn known(app: &App, org: &OrgId, who: &str) -> Result<Option<ChatId>, ApiError> {
    let read = async || Ok::<_, ApiError>(app.store().read_beside(org).await?.chat_of(who).await?);
    app.gateway().chats.get(app.store().chat_edition(), (org.clone(), who.to_owned()), read).await
}

/// A chat that a client names.
pub(super) async fn named(app: &App, org: &OrgId, text: &str) -> Result<ChatId, Fault> {
    let missing = || Fault::params(format!("there is no chat {text:?}")).with_status(404);
    let chat: ChatId = text.parse().map_err(|_| missing())?;
    let stand = app.calls().stand(org, chat).await.map_err(super::tools::fault)?;
    stand.map(|_| chat).ok_or_else(missing)
}

/// The selectors of a chat that somebody names.
pub(crate) async fn selectors_of(app: &App, org: &OrgId, text: &str) -> Result<Arc<[String]>, ApiError> {
    let missing = || ApiError::not_found("chat", text);
    let chat: ChatId = text.parse().map_err(|_| missing())?;
    let stand = app.calls().stand(org, chat).await?.ok_or_else(missing)?;
    Ok(Arc::clone(stand.selectors()))
}
