//! Which image a container is: found, fetched or built once it is trusted, and remembered.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use kitbag_container::{Engine, EngineError, Image, Packed};
use kitbag_model::container::{TOOLS_LABEL, tools_of_label};
use kitbag_model::{
    ImageSays, ImageSource, Installed, InstalledContainer, OrgId, PinnedImage, ServerId, ToolsetId, WorkPath,
};
use kitbag_store::StoreError;
use serde_json::json;

use super::Containers;
use crate::toolsets::{Shelf, checked_file};

/// So many bytes may be in a folder that an image is built from. It is held in memory.
const LARGEST_FOLDER: u64 = 256 << 20;

/// So many files may.
const MOST_FILES: u32 = 20_000;

/// What an image's recipe is called, in the order in which it is looked for.
const RECIPES: [&str; 2] = ["Containerfile", "Dockerfile"];

/// Why it is not known which image a container is, or it is not the one that was trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error("{0}")]
    NotAllowed(&'static str),
    #[error("the container {0} must be trusted before anything of it is fetched, built or started")]
    NeedsTrust(ServerId),
    #[error(
        "the image {name} is not the one that was trusted: it was {was} and is now {now}; look at it, then trust the toolset again"
    )]
    Moved { name: String, was: String, now: String },
    #[error("{0}")]
    Bad(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Containers {
    /// A toolset changed. Its containers that are trusted, and of which nobody knows which image they are, are prepared in the background.
    pub(crate) fn follow(&self, org: &OrgId, toolset: &str) {
        let Ok(toolset) = toolset.parse::<ToolsetId>() else { return };
        if self.refusal(org).is_some() {
            return;
        }
        let (containers, org) = (self.clone(), org.clone());
        tokio::spawn(async move {
            let read = async { containers.0.store.read_beside(&org).await?.installed(&toolset).await };
            let Ok(Some(installed)) = read.await else { return };
            if let Err(error) = containers.prepare_all(&org, &installed).await {
                tracing::warn!(%error, %toolset, "the image of a container could not be had");
            }
        });
    }

    /// Finds out which images the containers of a toolset are: those that are trusted and not known yet.
    pub(crate) async fn prepare_all(&self, org: &OrgId, installed: &Installed) -> Result<(), PrepareError> {
        let new = |one: &&InstalledContainer| one.container.enabled && one.is_trusted() && one.pinned.is_none();
        for one in installed.containers.iter().filter(new) {
            self.prepare(org, installed, &one.container.id).await?;
        }
        Ok(())
    }

    /// The image of a container, which must be the one that was trusted. It is fetched or built if it is not there. One at a time for each.
    pub(crate) async fn prepare(
        &self,
        org: &OrgId,
        installed: &Installed,
        id: &ServerId,
    ) -> Result<PinnedImage, PrepareError> {
        if let Some(refusal) = self.refusal(org) {
            return Err(PrepareError::NotAllowed(refusal));
        }
        let toolset = &installed.toolset.id;
        let turn = self.turn(org, toolset, id);
        let _turn = turn.lock().await;
        // Somebody else may have done it while this waited.
        let now = self.0.store.read_beside(org).await?.installed(toolset).await?;
        let one = now.as_ref().and_then(|now| now.container(id.as_str()));
        let Some((now, one)) = now.as_ref().zip(one) else {
            return Err(PrepareError::Bad(format!("the container {id} was removed")));
        };
        if !one.is_trusted() {
            return Err(PrepareError::NeedsTrust(id.clone()));
        }
        let engine = self.engine().await?;
        match &one.container.source {
            ImageSource::Image(name) => self.named(&engine, org, now, one, name.as_str()).await,
            ImageSource::Build(folder) => self.built(&engine, org, now, one, folder).await,
        }
    }

    fn turn(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry((org.clone(), toolset.clone(), id.clone())).or_default())
    }

    async fn named(
        &self,
        engine: &Engine,
        org: &OrgId,
        installed: &Installed,
        one: &InstalledContainer,
        name: &str,
    ) -> Result<PinnedImage, PrepareError> {
        let toolset = &installed.toolset.id;
        let found = match engine.image(name).await? {
            Some(found) => found,
            None => engine.pull(name, self.progress(org, toolset, &one.container.id)).await?,
        };
        let Some(pinned) = &one.pinned else { return self.pin(org, installed, one, found).await };
        if pinned.id == found.id {
            if one.moved_to.is_some() {
                // It was another one for a while.
                let mut tx = self.0.store.write(org).await?;
                tx.image_moved(toolset, &one.container.id, None).await?;
                tx.commit().await?;
            }
            return Ok(pinned.clone());
        }
        if one.moved_to.as_deref() != Some(found.id.as_str()) {
            let mut tx = self.0.store.write(org).await?;
            tx.image_moved(toolset, &one.container.id, Some(&found.id)).await?;
            tx.commit().await?;
            self.0.events.tools_changed(org, toolset.as_str(), "image");
        }
        Err(PrepareError::Moved { name: name.to_owned(), was: pinned.id.clone(), now: found.id })
    }

    /// What it is built from is part of what was trusted, so an image that somebody removed may be built again.
    async fn built(
        &self,
        engine: &Engine,
        org: &OrgId,
        installed: &Installed,
        one: &InstalledContainer,
        folder: &WorkPath,
    ) -> Result<PinnedImage, PrepareError> {
        if let Some(pinned) = &one.pinned
            && engine.image(&pinned.id).await?.is_some()
        {
            return Ok(pinned.clone());
        }
        let toolset = &installed.toolset.id;
        let (packed, recipe) = self.pack(org, installed, folder).await?;
        let tag = format!("localhost/kitbag-{toolset}-{}:{}", one.container.id, &one.fingerprint().to_string()[..16]);
        let tell = self.progress(org, toolset, &one.container.id);
        let image = engine.build(&tag, recipe, packed, tell).await?;
        self.pin(org, installed, one, image).await
    }

    /// A folder of a toolset as the engine wants it, and what its recipe is called. Each file is what was installed.
    async fn pack(
        &self,
        org: &OrgId,
        installed: &Installed,
        folder: &WorkPath,
    ) -> Result<(Vec<u8>, &'static str), PrepareError> {
        let toolset = &installed.toolset;
        let files = self.0.store.read_beside(org).await?.toolset_files_below(&toolset.id, folder, MOST_FILES).await?;
        if files.iter().map(|file| file.size).sum::<u64>() > LARGEST_FOLDER {
            return Err(PrepareError::Bad(format!("the folder {folder} is too large to build an image from")));
        }
        let generation = toolset.generation.clone().unwrap_or_default();
        let root = Shelf::of(&self.0.data, org).folder_of(&toolset.id, &generation);
        let folder = folder.clone();
        let packing = move || {
            let mut packed = Packed::default();
            for file in &files {
                let below = file.path.as_str().strip_prefix(folder.as_str()).map(|rest| rest.trim_start_matches('/'));
                let Some(below) = below else { continue };
                let content = content(&root, file)?;
                packed.file(below, file.executable, &content).map_err(|error| PrepareError::Bad(error.to_string()))?;
            }
            let has = |name: &&&str| files.iter().any(|file| file.path.as_str() == format!("{folder}/{name}"));
            let recipe = RECIPES.iter().find(has).copied();
            let recipe = recipe.ok_or_else(|| PrepareError::Bad(format!("{folder} has no Containerfile")))?;
            Ok((packed.finish(), recipe))
        };
        let packed = tokio::task::spawn_blocking(packing).await;
        packed.unwrap_or_else(|_| Err(PrepareError::Bad("the folder could not be packed".to_owned())))
    }

    /// Tells listeners how far it is.
    fn progress(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> impl Fn(String) + use<> {
        let (events, org, toolset, id) = (self.0.events.clone(), org.clone(), toolset.clone(), id.clone());
        move |message| {
            let data = json!({ "toolsetId": toolset, "containerId": id, "message": message });
            events.publish(&org, None, "toolset_progress", data);
        }
    }

    /// From now on the container is this image.
    async fn pin(
        &self,
        org: &OrgId,
        installed: &Installed,
        one: &InstalledContainer,
        image: Image,
    ) -> Result<PinnedImage, PrepareError> {
        let says = says(one, &image)?;
        let pinned = PinnedImage { id: image.id, says };
        let (toolset, id) = (&installed.toolset.id, &one.container.id);
        let mut tx = self.0.store.write(org).await?;
        tx.pin_image(toolset, id, Some(&pinned)).await?;
        tx.commit().await?;
        tracing::info!(%org, %toolset, container = %id, image = pinned.id, "a container is pinned to its image");
        self.0.events.tools_changed(org, toolset.as_str(), "image");
        Ok(pinned)
    }
}

/// What an image says of itself, where its toolset leaves that to it.
fn says(one: &InstalledContainer, image: &Image) -> Result<ImageSays, PrepareError> {
    if !one.container.tools.is_empty() {
        return Ok(ImageSays::default());
    }
    let Some(label) = image.labels.get(TOOLS_LABEL) else {
        let none = format!(
            "neither its toolset nor the label {TOOLS_LABEL} of its image says which tools the container {} has",
            one.container.id
        );
        return Err(PrepareError::Bad(none));
    };
    let tools = tools_of_label(label)
        .map_err(|problem| PrepareError::Bad(format!("the label {TOOLS_LABEL} of its image is wrong: {problem}")))?;
    Ok(ImageSays { tools })
}

/// A file of a toolset, if it is what was installed.
fn content(root: &Path, file: &kitbag_model::ToolsetFile) -> Result<Vec<u8>, PrepareError> {
    let changed = || PrepareError::Bad(format!("the file {} is not what was installed", file.path));
    let mut content = Vec::new();
    let mut opened = checked_file(root, file).ok_or_else(changed)?;
    std::io::Read::read_to_end(&mut opened, &mut content).map_err(|_| changed())?;
    Ok(content)
}
