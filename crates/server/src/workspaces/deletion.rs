//! The end of a chat: its rows, and then its folder and its bytes. What is cut off in between is finished by the next start on that data folder, and
//! what is in a bucket by any node.

use std::sync::PoisonError;

use kitbag_cas::blobs::LocalBlobs;
use kitbag_cas::clear;
use kitbag_model::{Action, Timestamp};
use serde_json::json;

use super::WorkspaceError;
use super::lease::{Held, Lease, uncancelled};

impl Lease {
    /// Deletes the chat, and then its folder: the rows are gone, and with them every name of what is in it. Whether there
    /// was one.
    pub(crate) async fn delete_chat(&self, who: &str) -> Result<bool, WorkspaceError> {
        self.delete(who, None).await
    }

    /// The same for a chat that nobody touched since `before`.
    pub(crate) async fn expire_chat(&self, before: Timestamp, who: &str) -> Result<bool, WorkspaceError> {
        self.delete(who, Some(before)).await
    }

    async fn delete(&self, who: &str, untouched: Option<Timestamp>) -> Result<bool, WorkspaceError> {
        let (lease, who) = (self.clone(), who.to_owned());
        uncancelled(async move {
            let Held { workspaces, org, chat, .. } = &*lease.0;
            let mut tx = lease.write().await?;
            let deleted = match untouched {
                Some(before) => tx.expire_chat(*chat, before).await?,
                None => tx.delete_chat(*chat).await?,
            };
            if !deleted {
                return Ok(false);
            }
            let (action, details) = match untouched {
                Some(before) => (Action::ChatExpired, json!({ "untouchedSince": before })),
                None => (Action::ChatDeleted, json!({})),
            };
            tx.audit(&who, action, &chat.to_string(), &details).await?;
            // Before the rows are gone: nobody would know of the folder any more.
            if workspaces.storage.is_shared() || workspaces.exists(org, *chat) {
                lease.with_home(clear::doom).await?;
            }
            // The folder with that mark may be lost, with all that this machine knows. What is in the bucket is not.
            if workspaces.storage.is_shared() {
                tx.leave_bytes(*chat).await?;
            }
            tx.commit().await?;
            workspaces.nodes.forget_chat(org, *chat);
            lease.step("chat deleted")?;
            lease.remove().await.map(|()| true)
        })
        .await
    }

    /// Does what a deletion that was cut off left: removes the folder of a chat that is gone, and spares one that is not.
    pub(super) async fn finish_deletion(&self) -> Result<(), WorkspaceError> {
        let is_there = self.0.workspaces.store.read(&self.0.org).await?.chat(self.0.chat).await?.is_some();
        if is_there { self.with_home(clear::spare).await } else { self.remove().await }
    }

    async fn remove(&self) -> Result<(), WorkspaceError> {
        *self.0.slot.workspace.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let (meter, _) = self.0.workspaces.metered(&self.0.org).await?;
        let is_shared = self.0.workspaces.storage.is_shared();
        if let Err(error) = self.remove_shared(&meter).await {
            // The chat is gone, and its mark stays: whoever looks next takes the rest.
            tracing::warn!(%error, chat = %self.0.chat, "the bytes of a deleted chat are still in the bucket");
            return Ok(());
        }
        if is_shared {
            let mut tx = self.0.workspaces.store.write(&self.0.org).await?;
            tx.forget_bytes(self.0.chat).await?;
            tx.commit().await?;
        }
        self.with_home(move |home| {
            // What cannot be counted is counted anew when somebody is refused.
            let taken = meter.left().filter(|_| !is_shared).map(|_| LocalBlobs::stored(home).unwrap_or_default());
            clear::remove_doomed(home)?;
            meter.give_back(taken.unwrap_or_default());
            Ok(())
        })
        .await
    }
}
