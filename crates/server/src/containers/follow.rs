//! What follows when a toolset changed: images are found for what it is now, and go that were built for what it was.

use std::collections::{HashMap, HashSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kitbag_container::{BUILDER_LABEL, TOOLSET_LABEL};
use kitbag_model::container::built_tag;
use kitbag_model::{ImageSource, Installed, InstalledContainer, OrgId, ServerId, ToolsetId};
use kitbag_store::StoreError;

use super::{Containers, ContainersFor, PrepareError};

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
            if let Some(installed) = &installed {
                containers.prepare_noted(&org, installed, false).await;
            }
            containers.forget_images(&org).await;
        });
    }

    /// Finds out which images the containers of a toolset are: those that are trusted and not known yet. Each for itself: what is wrong with one keeps
    /// nobody from the others. The first that could not be had is told.
    pub(crate) async fn prepare_all(&self, org: &OrgId, installed: &Installed) -> Result<(), PrepareError> {
        self.prepare_each(org, installed, false).await.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The same, with a pause after those that failed a moment ago if `patiently`. All that could not be had.
    async fn prepare_each(&self, org: &OrgId, installed: &Installed, patiently: bool) -> Vec<(ServerId, PrepareError)> {
        let mut failed = Vec::new();
        for one in open(installed) {
            if let Err(error) = self.get(org, &installed.toolset.id, &one.container.id, patiently).await {
                failed.push((one.container.id.clone(), error));
            }
        }
        failed
    }

    /// The same in the background: what could not be had is in the log, and is tried again.
    async fn prepare_noted(&self, org: &OrgId, installed: &Installed, patiently: bool) {
        let toolset = &installed.toolset.id;
        let failed = self.prepare_each(org, installed, patiently).await;
        for (id, error) in &failed {
            if patiently {
                tracing::debug!(%error, %org, %toolset, container = %id, "the image of a container can still not be had");
            } else {
                tracing::warn!(%error, %org, %toolset, container = %id, "the image of a container could not be had; it is tried again");
            }
        }
        if !failed.is_empty() {
            self.open().insert((org.clone(), toolset.clone()));
        }
    }

    fn open(&self) -> MutexGuard<'_, HashSet<(OrgId, ToolsetId)>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for toolsets that are trusted while nobody knows which images some of their containers are, because a server before this one could not find
    /// out. Who only has a look at their tools would see none.
    pub(crate) async fn look_for_open(&self) {
        if self.0.settings.allowed == ContainersFor::Nobody {
            return;
        }
        let looking = async {
            for org in self.0.store.system().await?.organization_ids().await? {
                if self.refusal(&org).is_none() {
                    let all = self.0.store.read_beside(&org).await?.all_installed().await?;
                    let some = all.iter().filter(|one| open(one).next().is_some());
                    self.open().extend(some.map(|one| (org.clone(), one.toolset.id.clone())));
                }
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = looking.await {
            tracing::warn!(%error, "containers whose images are not known could not be looked for");
        }
    }

    /// Tries again what could not be had, if there is an engine, in the background and once at a time. What failed a moment ago has its pause.
    pub(super) fn try_again(&self) {
        if self.open().is_empty() {
            return;
        }
        let containers = self.clone();
        tokio::spawn(async move {
            let Ok(_turn) = containers.0.trying.try_lock() else { return };
            // Without one nothing has changed since it was noted.
            if containers.engine().await.is_err() {
                return;
            }
            let noted: Vec<_> = containers.open().drain().collect();
            for (org, toolset) in noted {
                let read = async { containers.0.store.read_beside(&org).await?.installed(&toolset).await };
                match read.await {
                    Ok(None) => {}
                    Ok(Some(installed)) => containers.prepare_noted(&org, &installed, true).await,
                    Err(_) => drop(containers.open().insert((org, toolset))),
                }
            }
        });
    }

    /// By what images are known that were built here for a toolset. Images are built for `local` alone.
    pub(super) fn labels_of_images(&self, toolset: &ToolsetId) -> HashMap<&'static str, String> {
        HashMap::from([(BUILDER_LABEL, self.0.home.clone()), (TOOLSET_LABEL, toolset.to_string())])
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
        let labels = HashMap::from([(BUILDER_LABEL, self.0.home.clone())]);
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

/// The containers of a toolset that are trusted, and of which nobody knows which image they are.
fn open(installed: &Installed) -> impl Iterator<Item = &InstalledContainer> {
    let new = |one: &&InstalledContainer| one.container.enabled && one.is_trusted() && one.settled().is_none();
    installed.containers.iter().filter(new)
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
