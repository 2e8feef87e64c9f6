//! Files of a toolset that results are shown with.

use std::io::Read;

use kitbag_model::{ContentHash, OrgId, ToolsetId, WorkPath};

use super::export::open_plain;
use super::{ToolsetError, Toolsets, blocking};

/// A page that is larger is not shown.
const LARGEST: u64 = 16 << 20;

impl Toolsets {
    /// The content of a file that a toolset brought, as it was installed. None if it has no such file, or one that is too large.
    pub(crate) async fn artifact(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        path: &WorkPath,
    ) -> Result<Option<(ContentHash, Vec<u8>)>, ToolsetError> {
        self.file(org, id, path, LARGEST).await
    }

    /// The same with another limit.
    pub(super) async fn file(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        path: &WorkPath,
        largest: u64,
    ) -> Result<Option<(ContentHash, Vec<u8>)>, ToolsetError> {
        let mut tx = self.store.read_beside(org).await?;
        let (toolset, file) = (tx.toolset(id).await?, tx.toolset_file(id, path).await?);
        drop(tx);
        let (Some(toolset), Some(file)) = (toolset, file) else { return Ok(None) };
        if file.size > largest {
            return Ok(None);
        }
        let folder = self.shelf(org).folder_of(id, toolset.generation.as_deref().unwrap_or_default());
        let damaged = ToolsetError::Damaged { path: path.to_string() };
        let read = blocking(move || {
            let mut bytes = Vec::new();
            open_plain(&folder.join(file.path.as_str()))?.take(largest).read_to_end(&mut bytes).ok()?;
            (ContentHash::of(&bytes) == file.sha256).then_some((file.sha256, bytes))
        });
        read.await.map(Some).ok_or(damaged)
    }
}
