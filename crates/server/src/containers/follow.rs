//! What follows when a toolset changed: images are found for what it is now, and go that were built for what it was.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use kitbag_container::{BUILDER_LABEL, TOOLSET_LABEL};
use kitbag_model::container::built_tag;
use kitbag_model::{ImageSource, Installed, InstalledContainer, OrgId, ToolsetId};

use super::{Containers, PrepareError};

/// So often images are looked for that nobody needs: what a server left that was killed, or what the engine would not give up just then.
const COLLECT: Duration = Duration::from_secs(3600);

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
            containers.forget_images(&org).await;
        });
    }

    /// Finds out which images the containers of a toolset are: those that are trusted and not known yet.
    pub(crate) async fn prepare_all(&self, org: &OrgId, installed: &Installed) -> Result<(), PrepareError> {
        let new = |one: &&InstalledContainer| one.container.enabled && one.is_trusted() && one.settled().is_none();
        for one in installed.containers.iter().filter(new) {
            self.prepare(org, &installed.toolset.id, &one.container.id).await?;
        }
        Ok(())
    }

    /// By what images are known that were built here for a toolset. Images are built for `local` alone.
    pub(super) fn labels_of_images(&self, toolset: &ToolsetId) -> HashMap<&'static str, String> {
        HashMap::from([(BUILDER_LABEL, self.0.nodes.home().to_owned()), (TOOLSET_LABEL, toolset.to_string())])
    }

    /// Looks for images that nobody needs, in the background.
    pub(super) fn begin_to_collect(&self) {
        let containers = self.clone();
        tokio::spawn(async move { containers.forget_images(&OrgId::local()).await });
    }

    /// Looks for images that nobody needs, unless that was done lately.
    pub(super) async fn collect(&self) {
        let is_due = {
            let collected = self.0.collected.lock().unwrap_or_else(PoisonError::into_inner);
            collected.is_some_and(|at| at.elapsed() >= COLLECT)
        };
        if is_due {
            self.forget_images(&OrgId::local()).await;
        }
    }

    /// Removes all images that were built in this data folder, but for those that something installed would be started of now.
    pub(super) async fn forget_images(&self, org: &OrgId) {
        if *org != OrgId::local() {
            return;
        }
        let Ok(engine) = self.engine().await else { return };
        *self.0.collected.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        // The images first: of what is installed after they were listed, nothing is among them.
        let labels = HashMap::from([(BUILDER_LABEL, self.0.nodes.home().to_owned())]);
        let images = match engine.images_with(&labels).await {
            Ok(images) if images.is_empty() => return,
            Ok(images) => images,
            Err(error) => {
                tracing::info!(%error, "images that nobody needs could not be looked for");
                return;
            }
        };
        let read = async { self.0.store.read_beside(org).await?.all_installed().await };
        let Ok(installed) = read.await else { return };
        let wanted: HashSet<String> = installed.iter().flat_map(wanted_of).collect();
        for image in images {
            if wanted.contains(&image.id) || image.names.iter().any(|name| wanted.contains(name)) {
                continue;
            }
            match engine.remove_image(&image.id).await {
                Ok(()) => {
                    tracing::info!(image = image.id, names = ?image.names, "an image that nobody needs was removed")
                }
                Err(error) => tracing::info!(%error, image = image.id, "an image that nobody needs stays for now"),
            }
        }
    }
}

/// The ids and names of the images that were built for a toolset as it is.
fn wanted_of(installed: &Installed) -> Vec<String> {
    let built = installed.containers.iter().filter(|one| matches!(one.container.source, ImageSource::Build(_)));
    let names = built.flat_map(|one| {
        let tag = built_tag(installed.toolset.id.as_str(), one.container.id.as_str(), &one.fingerprint());
        one.pinned.iter().map(|pinned| pinned.id.clone()).chain([tag])
    });
    names.collect()
}
