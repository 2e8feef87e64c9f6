//! Files of a toolset that results are shown with.

use std::io::Read;

use axum::body::Body;
use kitbag_formats::bundle::MANIFEST;
use kitbag_formats::manifest;
use kitbag_model::{Audience, ContentHash, Hasher, OrgId, ToolsetId, WorkPath, export};

use super::export::open_plain;
use super::{ToolsetError, Toolsets, blocking};
use crate::transfer::stream_open;

/// A page that is larger is not shown.
pub(crate) const LARGEST: u64 = 16 << 20;

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

    /// A file of a toolset on its way out, with its hash and its length; none if there is no such file. The manifest is the one that an export
    /// has: what came may have values in it that only whoever manages should read.
    pub(crate) async fn one_file(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolsetId,
        path: &WorkPath,
    ) -> Result<Option<(ContentHash, u64, Body)>, ToolsetError> {
        let one = self.seen(org, audience, id).await?;
        let Some(file) = self.store.read_beside(org).await?.toolset_file(id, path).await? else { return Ok(None) };
        if path.as_str() == MANIFEST {
            let text = manifest::write(&export::without_secrets(one.merged()).0);
            return Ok(Some((ContentHash::of(text.as_bytes()), text.len() as u64, Body::from(text))));
        }
        self.lay_out(org, one.toolset.generation.as_deref()).await?;
        let folder = self.shelf(org).folder_of(id, one.toolset.generation.as_deref().unwrap_or_default());
        let damaged = ToolsetError::Damaged { path: path.to_string() };
        let opened = blocking(move || {
            let mut opened = open_plain(&folder.join(file.path.as_str()))?;
            let mut hasher = Hasher::default();
            let mut buffer = vec![0; 64 << 10];
            loop {
                match opened.read(&mut buffer).ok()? {
                    0 => break,
                    count => hasher.update(&buffer[..count]),
                }
            }
            (hasher.finish() == file.sha256).then_some((file.sha256, file.size, opened))
        });
        let (hash, length, opened) = opened.await.ok_or(damaged)?;
        Ok(Some((hash, length, stream_open(opened, length))))
    }

    /// The same as an artifact with another limit.
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
        self.lay_out(org, toolset.generation.as_deref()).await?;
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
