//! Removing a toolset: the rows, and then the files. What chats did with its tools stays in their history.

use kitbag_model::{OrgId, ToolsetId};
use tracing::Instrument;

use super::install::editable;
use super::{ToolsetError, Toolsets, blocking};

impl Toolsets {
    /// Removes a toolset, rows and files.
    pub(crate) async fn uninstall(&self, org: &OrgId, id: &ToolsetId) -> Result<(), ToolsetError> {
        let (toolsets, org, id) = (self.clone(), org.clone(), id.clone());
        let work = async move { toolsets.do_uninstall(&org, &id).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_uninstall(&self, org: &OrgId, id: &ToolsetId) -> Result<(), ToolsetError> {
        let _turn = self.turn(org, id).await;
        let not_found = || ToolsetError::NotFound(id.to_string());
        let toolset = self.store.read_beside(org).await?.toolset(id).await?.ok_or_else(not_found)?;
        if toolset.is_published() {
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
        tx.commit().await?;
        blocking(move || {
            let removed = shelf.remove(&gone);
            if removed.is_ok() {
                shelf.withdraw_removal(&gone);
            }
            removed
        })
        .await?;
        if was_there { Ok(()) } else { Err(not_found()) }
    }
}
