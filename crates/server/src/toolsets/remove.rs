//! Removing a toolset: the rows, and then the files. What chats did with its tools stays in their history.

use kitbag_model::{Action, OrgId, ToolsetId};
use serde_json::json;
use tracing::Instrument;

use super::install::editable;
use super::{ToolsetError, Toolsets, blocking};

impl Toolsets {
    /// Removes a toolset, rows and files.
    pub(crate) async fn uninstall(&self, org: &OrgId, who: &str, id: &ToolsetId) -> Result<(), ToolsetError> {
        self.uninstall_as(org, who, id, Action::ToolsetUninstalled, id.to_string()).await
    }

    /// The same, told as something else that was done.
    pub(super) async fn uninstall_as(
        &self,
        org: &OrgId,
        who: &str,
        id: &ToolsetId,
        action: Action,
        subject: String,
    ) -> Result<(), ToolsetError> {
        let (toolsets, org, who, id) = (self.clone(), org.clone(), who.to_owned(), id.clone());
        let work = async move { toolsets.do_uninstall(&org, &id, (&who, action, &subject)).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_uninstall(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        (who, action, subject): (&str, Action, &str),
    ) -> Result<(), ToolsetError> {
        let _turn = self.turn(org, id).await;
        let not_found = || ToolsetError::NotFound(id.to_string());
        let there = self.store.read_beside(org).await?.toolset(id).await?.ok_or_else(not_found)?;
        if there.is_published() {
            return Err(ToolsetError::Published);
        }
        let (shelf, gone) = (self.shelf(org), id.clone());
        let (place, announced) = (shelf.clone(), gone.clone());
        blocking(move || place.announce_removal(&announced)).await?;
        let mut tx = self.store.write(org).await?;
        match editable(&mut tx, id).await {
            Err(ToolsetError::Published) => {
                blocking(move || shelf.withdraw_removal(&gone)).await;
                return Err(ToolsetError::Published);
            }
            Err(ToolsetError::NotFound(_)) | Ok(_) => {}
            Err(error) => return Err(error),
        }
        let was_there = tx.uninstall_toolset(id).await?;
        if was_there {
            tx.audit(who, action, subject, &json!({ "name": there.name, "version": there.version })).await?;
        }
        tx.commit().await?;
        blocking(move || {
            let removed = shelf.remove(&gone);
            if removed.is_ok() {
                shelf.withdraw_removal(&gone);
            }
            removed
        })
        .await?;
        if was_there {
            self.forget_files(org, there.generation.as_deref()).await;
        }
        if was_there { Ok(()) } else { Err(not_found()) }
    }
}
