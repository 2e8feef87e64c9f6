//! How results are shown now, for a run of an agent. Later changes do not reach the run.

use kitbag_model::run::RunRenderings;
use kitbag_model::{Installed, Layers, OrgId, ToolsetFile};
use kitbag_store::StoreError;

use super::artifact::LARGEST;
use super::snapshot::{Snapshot, reference};
use super::{ToolsetError, Toolsets};

impl Toolsets {
    /// How the results of tools are shown now, in a run with this toolset, or with none. The pages that this may take join the toolset's
    /// files.
    pub(crate) async fn renderings(
        &self,
        org: &OrgId,
        snapshot: Option<&mut Snapshot>,
    ) -> Result<RunRenderings, ToolsetError> {
        let builtin = self.store.read_beside(org).await?.builtin_overrides().await?;
        let Some(snapshot) = snapshot else {
            return Ok(RunRenderings::new(Layers { bundle: &[], user: &[], trusted: true }, &builtin));
        };
        let one = &snapshot.installed;
        let layers = Layers { bundle: &one.bundle_overrides, user: &one.user_overrides, trusted: one.is_trusted() };
        let mut kept = RunRenderings::new(layers, &builtin);
        // With its code an agent has all of them.
        if snapshot.toolset.program.is_none() {
            let folder =
                self.shelf(org).folder_of(&one.toolset.id, one.toolset.generation.as_deref().unwrap_or_default());
            for row in self.pages(org, one, &kept).await? {
                snapshot.files.push((folder.join(row.path.as_str()), reference(&row)));
                kept.pages.insert(row.path.clone(), reference(&row));
            }
        }
        Ok(kept)
    }

    /// The files of a toolset that results may be shown with.
    async fn pages(&self, org: &OrgId, one: &Installed, kept: &RunRenderings) -> Result<Vec<ToolsetFile>, StoreError> {
        let mut found = Vec::new();
        if kept.of_toolset().any(|rendering| rendering.shows_any_file()) {
            found = self.all_files(org, &one.toolset.id).await?;
        } else {
            let mut tx = self.store.read_beside(org).await?;
            for path in kept.of_toolset().flat_map(|rendering| rendering.files()) {
                found.extend(tx.toolset_file(&one.toolset.id, &path).await?);
            }
        }
        found.retain(|file| file.size <= LARGEST);
        Ok(found)
    }
}
