//! What follows when a toolset changed: images are found for what it is now, and go that were built for what it was.

use std::collections::{HashMap, HashSet};

use kitbag_container::{BUILDER_LABEL, TOOLSET_LABEL};
use kitbag_model::container::built_tag;
use kitbag_model::{ImageSource, Installed, InstalledContainer, OrgId, ToolsetId};

use super::{Containers, PrepareError};

impl Containers {
    /// A toolset changed. Its containers that are trusted, and of which nobody knows which image they are, are prepared in the background;
    /// images that were built for what it was before go.
    pub(crate) fn follow(&self, org: &OrgId, toolset: &str) {
        let Ok(toolset) = toolset.parse::<ToolsetId>() else { return };
        if self.refusal(org).is_some() {
            return;
        }
        let (containers, org) = (self.clone(), org.clone());
        tokio::spawn(async move {
            let read = async { containers.0.store.read_beside(&org).await?.installed(&toolset).await };
            let Ok(installed) = read.await else { return };
            if let Some(installed) = &installed
                && let Err(error) = containers.prepare_all(&org, installed).await
            {
                tracing::warn!(%error, %toolset, "the image of a container could not be had");
            }
            containers.forget_images(&org, &toolset).await;
        });
    }

    /// Finds out which images the containers of a toolset are: those that are trusted and not known yet.
    pub(crate) async fn prepare_all(&self, org: &OrgId, installed: &Installed) -> Result<(), PrepareError> {
        let new = |one: &&InstalledContainer| one.container.enabled && one.is_trusted() && one.settled().is_none();
        for one in installed.containers.iter().filter(new) {
            self.prepare(org, installed, &one.container.id).await?;
        }
        Ok(())
    }

    /// By what images are known that were built here for a toolset. Images are built for `local` alone.
    pub(super) fn labels_of_images(&self, toolset: &ToolsetId) -> HashMap<&'static str, String> {
        HashMap::from([(BUILDER_LABEL, self.0.nodes.home().to_owned()), (TOOLSET_LABEL, toolset.to_string())])
    }

    /// Removes the images that were built here for a toolset, but for those that it would be started of now.
    async fn forget_images(&self, org: &OrgId, toolset: &ToolsetId) {
        if *org != OrgId::local() {
            return;
        }
        // It may have changed again while its images were looked for.
        let read = async { self.0.store.read_beside(org).await?.installed(toolset).await };
        let Ok(installed) = read.await else { return };
        let built = |one: &&InstalledContainer| matches!(one.container.source, ImageSource::Build(_));
        let now: Vec<_> = installed.iter().flat_map(|one| &one.containers).filter(built).collect();
        let wanted: HashSet<String> = now
            .iter()
            .flat_map(|one| {
                let tag = built_tag(toolset.as_str(), one.container.id.as_str(), &one.fingerprint());
                one.pinned.iter().map(|pinned| pinned.id.clone()).chain([tag])
            })
            .collect();
        let Ok(engine) = self.engine().await else { return };
        match engine.remove_images(&self.labels_of_images(toolset), |name| wanted.contains(name)).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(%toolset, images = removed, "images that nobody needs were removed"),
            Err(error) => tracing::info!(%error, %toolset, "images that nobody needs could not be looked for"),
        }
    }
}
