//! What is deleted because nobody used it for as long as its organisation wants things kept: chats, by whoever serves, now and then.
//! Lines of the audit are not for a server to delete, except where the database has no other role than its own.

use std::time::Duration;

use kitbag_model::{ChatId, OrgId, Timestamp};
use kitbag_store::StoreError;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::app::App;
use crate::workspaces::WorkspaceError;

/// So often it is looked for what may go.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// Servers that started together do not look at the same moment.
const JITTER: Duration = Duration::from_secs(6 * 60);

/// So many are looked for at a time.
const BATCH: u32 = 50;

/// Whom the audit names.
const WHO: &str = "retention";

/// What was deleted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retained {
    pub(crate) chats: u64,
    /// Lines of the audit; none if they are not for the server to delete.
    pub(crate) audit: Option<u64>,
    /// Whether there is more, for which there was no time.
    pub(crate) more: bool,
}

/// Why not everything was deleted that might be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetainError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the chat {chat} could not be deleted: {source}")]
    Chat { chat: ChatId, source: WorkspaceError },
}

impl App {
    /// Deletes a chat with everything in it. Whether there was one.
    pub(crate) async fn delete_chat(&self, org: &OrgId, chat: ChatId, who: &str) -> Result<bool, WorkspaceError> {
        self.turns().end_chat(org, chat).await;
        self.calls().end_chat(org, chat).await;
        let deleted = self.workspaces().lease(org, chat).await?.delete_chat(who).await?;
        if deleted {
            self.chat_gone(org, chat);
        }
        Ok(deleted)
    }

    /// The same for a chat that nobody touched since `before`. Whether there was one.
    async fn expire_chat(&self, org: &OrgId, chat: ChatId, before: Timestamp) -> Result<bool, WorkspaceError> {
        let found = self.store().read(org).await?.chat(chat).await?;
        if found.is_none_or(|found| found.updated_at >= before) {
            return Ok(false);
        }
        self.turns().end_chat(org, chat).await;
        self.calls().end_chat(org, chat).await;
        let expired = self.workspaces().lease(org, chat).await?.expire_chat(before, WHO).await?;
        if expired {
            self.chat_gone(org, chat);
        }
        Ok(expired)
    }

    fn chat_gone(&self, org: &OrgId, chat: ChatId) {
        self.stage().close_chat(org, chat);
        self.events().chat_changed(org, chat, "deleted");
    }

    /// Deletes what is older than its organisation wants it, until it is done or `end` has come. With `audit` old lines of the audit too,
    /// where the database leaves that to this server.
    pub(crate) async fn retain(&self, end: Option<Instant>, audit: bool) -> Result<Retained, RetainError> {
        let mut done = Retained { audit: (audit && self.store().may_trim_audit()).then_some(0), ..Retained::default() };
        let is_late = || end.is_some_and(|end| Instant::now() >= end) || self.is_draining();
        let orgs = self.store().system().await?.organization_ids().await?;
        for org in orgs {
            let Some((settings, _)) = self.store().read_beside(&org).await?.settings().await? else { continue };
            let now = Timestamp::now();
            if let Some(days) = settings.retention.chat_days {
                let before = now.minus_days(days.get());
                let mut after = None;
                loop {
                    let found = self.store().read(&org).await?.untouched_chats(before, after, BATCH).await?;
                    let Some(last) = found.last().copied() else { break };
                    for (chat, _) in found {
                        if is_late() {
                            return Ok(Retained { more: true, ..done });
                        }
                        let expired = match self.expire_chat(&org, chat, before).await {
                            // Its holder deletes it.
                            Err(WorkspaceError::Elsewhere(_)) => continue,
                            expired => expired,
                        };
                        done.chats += u64::from(expired.map_err(|source| RetainError::Chat { chat, source })?);
                    }
                    after = Some(last);
                }
            }
            if let (Some(lines), Some(days)) = (&mut done.audit, settings.retention.audit_days) {
                *lines += self.store().trim_audit(&org, now.minus_days(days.get()), WHO).await?;
            }
        }
        Ok(done)
    }

    /// Does so now and then, for as long as this program serves.
    pub(crate) async fn retain_for_ever(&self) {
        loop {
            if let Err(error) = self.workspaces().finish_deletions_anywhere().await {
                tracing::warn!(%error, "what deleted chats left in the bucket could not be looked for");
            }
            match self.retain(None, false).await {
                Ok(done) if done.chats > 0 => tracing::info!(chats = done.chats, "chats that nobody used were deleted"),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "not everything could be deleted that nobody used"),
            }
            let chance = Uuid::now_v7().as_u128() as u64 % JITTER.as_secs();
            sleep(EVERY + Duration::from_secs(chance)).await;
        }
    }
}
