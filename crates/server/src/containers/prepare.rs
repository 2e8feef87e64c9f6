//! Which image a container is: found, fetched or built once it is trusted, and remembered.

use std::hash::Hash;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_container::{Engine, EngineError, Image, Limits, Packed, Within};
use kitbag_mcp::tool::ToolDefinition;
use kitbag_model::container::{TOOLS_LABEL, built_tag, tools_of_label, tools_of_mcp};
use kitbag_model::{
    ContainerTool, ImageSays, ImageSource, Installed, InstalledContainer, OrgId, PinnedImage, ServerId, ToolsetId,
    WorkPath,
};
use kitbag_runner::Resident;
use kitbag_store::StoreError;
use serde_json::json;
use tracing::Instrument;

use super::call::Values;
use super::warm::options;
use super::{Containers, Turns};
use crate::toolsets::{Shelf, checked_file};

/// So many bytes may be in a folder that an image is built from. It is held in memory.
const LARGEST_FOLDER: u64 = 256 << 20;

/// So many files may.
const MOST_FILES: u32 = 20_000;

/// What an image's recipe is called, in the order in which it is looked for.
const RECIPES: [&str; 2] = ["Containerfile", "Dockerfile"];

/// So often it is looked again what became of a container that was changed meanwhile.
const TRIES: usize = 3;

/// So long an image may take to be fetched or built.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// So long a call waits for it.
const SOON: Duration = Duration::from_secs(30);

/// So often listeners hear how far it is.
const TOLD: Duration = Duration::from_millis(250);

/// So many reasons are remembered why an image could not be had.
const MOST_NOTED: usize = 1000;

/// The image of a container.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// What it was found to be when it was trusted.
    pub(crate) pinned: PinnedImage,
    /// Its id at this engine. One that is built here is another by that than the one that was built elsewhere.
    pub(crate) image: String,
}

/// Why it is not known which image a container is, or it is not the one that was trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error("{0}")]
    NotAllowed(&'static str),
    #[error("nothing of the container {0} is fetched, built or started before somebody trusts its toolset")]
    NeedsTrust(ServerId),
    #[error(
        "the image {name} is not the one that was trusted: it was {was} and is now {now}; look at it, then trust the toolset again"
    )]
    Moved { name: String, was: String, now: String },
    #[error(
        "the image of the container {container} is still being fetched, built or asked; try again later, or wait for it with \
         `kitbag toolset prepare {toolset}`"
    )]
    Busy { container: ServerId, toolset: ToolsetId },
    #[error("{0}")]
    Bad(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Containers {
    /// The same for a call, which does not wait for as long as that may take. It goes on, and the next call finds what came of it.
    pub(crate) async fn prepare_soon(
        &self,
        org: &OrgId,
        installed: &Installed,
        id: &ServerId,
    ) -> Result<Prepared, PrepareError> {
        let (containers, own, org, container) = (self.clone(), installed.clone(), org.clone(), id.clone());
        let preparing = tokio::spawn(async move { containers.prepare(&org, &own, &container).await }.in_current_span());
        match tokio::time::timeout(SOON, preparing).await {
            Ok(done) => done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
            Err(_) => Err(PrepareError::Busy { container: id.clone(), toolset: installed.toolset.id.clone() }),
        }
    }

    /// The image of a container, which must be the one that was trusted. It is fetched or built if it is not there. One at a time for each.
    pub(crate) async fn prepare(
        &self,
        org: &OrgId,
        installed: &Installed,
        id: &ServerId,
    ) -> Result<Prepared, PrepareError> {
        let prepared = self.try_prepare(org, installed, id).await;
        self.note(org, &installed.toolset.id, id, prepared.as_ref().err());
        prepared
    }

    async fn try_prepare(&self, org: &OrgId, installed: &Installed, id: &ServerId) -> Result<Prepared, PrepareError> {
        if let Some(refusal) = self.refusal(org) {
            return Err(PrepareError::NotAllowed(refusal));
        }
        let toolset = &installed.toolset.id;
        let turn = self.turn(org, toolset, id);
        let _turn = turn.lock().await;
        for _ in 0..TRIES {
            // Somebody else may have done it while this waited, at another node too.
            let now = self.0.store.read_beside(org).await?.installed(toolset).await?;
            let one = now.as_ref().and_then(|now| now.container(id.as_str()));
            let Some((now, one)) = now.as_ref().zip(one) else {
                return Err(PrepareError::Bad(format!("the container {id} was removed")));
            };
            if !one.is_trusted() {
                return Err(PrepareError::NeedsTrust(id.clone()));
            }
            let engine = self.engine().await?;
            let found = match &one.container.source {
                ImageSource::Image(name) => self.named(&engine, org, toolset, one, name.as_str()).await?,
                ImageSource::Build(folder) => self.built(&engine, org, now, one, folder).await?,
            };
            if let Some(pinned) = one.settled() {
                return Ok(Prepared { pinned: pinned.clone(), image: found.id });
            }
            if !found.volumes.is_empty() {
                return Err(PrepareError::Bad(format!(
                    "the image of the container {id} declares volumes ({}), for each of which the engine makes a folder on this machine without a \
                     limit; use an image without, and /workspace or /tmp in it",
                    found.volumes.join(", ")
                )));
            }
            let says = self.says(&engine, org, toolset, one, &found).await?;
            let pinned = PinnedImage { id: found.id.clone(), says };
            if self.pin(org, toolset, one, &pinned).await? {
                return Ok(Prepared { pinned, image: found.id });
            }
        }
        Err(PrepareError::Bad(format!("the container {id} was changed while its image was looked for; try again")))
    }

    /// Why the image of a container could not be had when it was last looked for.
    pub(crate) fn why_not(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> Option<String> {
        let failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(&(org.clone(), toolset.clone(), id.clone())).cloned()
    }

    fn note(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId, error: Option<&PrepareError>) {
        let which = (org.clone(), toolset.clone(), id.clone());
        let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(PrepareError::Bad(_) | PrepareError::Engine(_)) if failed.len() < MOST_NOTED => {
                failed.insert(which, error.map(ToString::to_string).unwrap_or_default());
            }
            _ => drop(failed.remove(&which)),
        }
    }

    fn turn(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> Arc<tokio::sync::Mutex<()>> {
        own_turn(&self.0.preparing, (org.clone(), toolset.clone(), id.clone()))
    }

    /// The image that a name means, which must be the pinned one where there is one.
    async fn named(
        &self,
        engine: &Engine,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
        name: &str,
    ) -> Result<Image, PrepareError> {
        if *org != OrgId::local() && name.starts_with("localhost/kitbag-") {
            let why = "images that were built here are their own toolset's; name one of a registry";
            return Err(PrepareError::NotAllowed(why));
        }
        let found = match engine.image(name).await? {
            Some(found) => Some(found),
            // The name is gone and the image is there: nothing else is meant by it.
            None => match &one.pinned {
                Some(pinned) => engine.image(&pinned.id).await?,
                None => None,
            },
        };
        let found = match found {
            Some(found) => found,
            None => {
                let pulling = engine.pull(name, self.progress(org, toolset, &one.container.id));
                self.in_time(org, "fetched", pulling).await?
            }
        };
        let Some(pinned) = &one.pinned else { return Ok(found) };
        let moved = (pinned.id != found.id).then_some(found.id.as_str());
        if one.moved_to.as_deref() != moved {
            let mut tx = self.0.store.write(org).await?;
            tx.image_moved(toolset, &one.container.id, moved).await?;
            tx.commit().await?;
            self.0.events.tools_changed(org, toolset.as_str(), "image");
        }
        match moved {
            None => Ok(found),
            Some(_) => Err(PrepareError::Moved { name: name.to_owned(), was: pinned.id.clone(), now: found.id }),
        }
    }

    /// What it is built from is part of what was trusted, so an image that is not there (somebody removed it, or it was built at another
    /// node, with an engine of its own) may be built again, though it is another one by its id.
    async fn built(
        &self,
        engine: &Engine,
        org: &OrgId,
        installed: &Installed,
        one: &InstalledContainer,
        folder: &WorkPath,
    ) -> Result<Image, PrepareError> {
        if let Some(pinned) = &one.pinned
            && let Some(found) = engine.image(&pinned.id).await?
        {
            return Ok(found);
        }
        let toolset = &installed.toolset.id;
        let tag = built_tag(toolset.as_str(), one.container.id.as_str(), &one.fingerprint());
        if one.pinned.is_some()
            && let Some(found) = engine.image(&tag).await?
        {
            return Ok(found);
        }
        // A recipe may name every image that the engine has, and have it read addresses for it.
        if *org != OrgId::local() {
            let why = "images are built for whoever runs this server alone; name an image that is built already";
            return Err(PrepareError::NotAllowed(why));
        }
        let (packed, recipe) = self.pack(org, installed, folder).await?;
        let within = Within {
            network: one.container.network && self.0.servers.may_be_in_network(org),
            memory: Limits::within(&one.container.limits, self.0.memory).memory,
        };
        let labels = self.labels_of_images(toolset);
        let told = self.progress(org, toolset, &one.container.id);
        let building = engine.build(&tag, recipe, packed, &labels, &within, told);
        self.in_time(org, "built", building).await
    }

    /// What is fetched or built, a few at a time, of each organisation one, and not for ever.
    async fn in_time(
        &self,
        org: &OrgId,
        what: &str,
        work: impl Future<Output = Result<Image, EngineError>>,
    ) -> Result<Image, PrepareError> {
        let late = |_| PrepareError::Bad(format!("the image was not {what} within {} minutes", LONGEST.as_secs() / 60));
        let own = own_turn(&self.0.fetching_of, org.clone());
        let in_turn = async {
            let _own = own.lock().await;
            let _turn = self.0.fetching.acquire().await;
            work.await
        };
        Ok(tokio::time::timeout(LONGEST, in_turn).await.map_err(late)??)
    }

    /// A folder of a toolset as the engine wants it, and what its recipe is called. Each file is what was installed.
    async fn pack(
        &self,
        org: &OrgId,
        installed: &Installed,
        folder: &WorkPath,
    ) -> Result<(Vec<u8>, &'static str), PrepareError> {
        let toolset = &installed.toolset;
        let most = MOST_FILES + 1;
        let files = self.0.store.read_beside(org).await?.toolset_files_below(&toolset.id, folder, most).await?;
        if files.len() > MOST_FILES as usize {
            let why = format!("the folder {folder} has more than {MOST_FILES} files, too many to build an image from");
            return Err(PrepareError::Bad(why));
        }
        if files.iter().map(|file| file.size).sum::<u64>() > LARGEST_FOLDER {
            return Err(PrepareError::Bad(format!("the folder {folder} is too large to build an image from")));
        }
        let generation = toolset.generation.clone().unwrap_or_default();
        let (shelf, id) = (Shelf::of(&self.0.storage, org), toolset.id.clone());
        let folder = folder.clone();
        let packing = move || {
            // Where several servers share them, they may not be here yet.
            shelf.lay_out(&generation).map_err(|error| PrepareError::Bad(error.to_string()))?;
            let root = shelf.folder_of(&id, &generation);
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
        let last = Mutex::new(None::<Instant>);
        move |message| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| last.elapsed() < TOLD) {
                return;
            }
            *last = Some(Instant::now());
            let data = json!({ "toolsetId": toolset, "containerId": id, "message": message });
            events.publish(&org, None, "toolset_progress", data);
        }
    }

    /// From now on the container is this image. Whether it is: it may be known by now, or be another one than was looked at.
    async fn pin(
        &self,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
        pinned: &PinnedImage,
    ) -> Result<bool, PrepareError> {
        let id = &one.container.id;
        let mut tx = self.0.store.write(org).await?;
        let now = tx.installed(toolset).await?;
        let now = now.as_ref().and_then(|now| now.container(id.as_str()));
        let same = |now: &InstalledContainer| now.is_trusted() && now.fingerprint() == one.fingerprint();
        let is_open = |now: &InstalledContainer| {
            now.settled().is_none() && now.pinned.as_ref().is_none_or(|now| now.id == pinned.id)
        };
        if !now.is_some_and(|now| same(now) && is_open(now)) {
            return Ok(false);
        }
        tx.pin_image(toolset, id, pinned).await?;
        tx.commit().await?;
        tracing::info!(%org, %toolset, container = %id, image = pinned.id, "a container is pinned to its image");
        self.0.events.tools_changed(org, toolset.as_str(), "image");
        Ok(true)
    }

    /// What an image says of itself, where its toolset leaves that to it: in a label, or when it is asked.
    async fn says(
        &self,
        engine: &Engine,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
        image: &Image,
    ) -> Result<ImageSays, PrepareError> {
        if !one.container.tools.is_empty() {
            return Ok(ImageSays::default());
        }
        if let Some(label) = image.labels.get(TOOLS_LABEL) {
            let tools = tools_of_label(label).map_err(|problem| {
                PrepareError::Bad(format!("the label {TOOLS_LABEL} of its image is wrong: {problem}"))
            })?;
            return Ok(ImageSays { tools, ..ImageSays::default() });
        }
        let tools = self.asked(engine, org, toolset, one, image).await.map_err(|why| {
            PrepareError::Bad(format!(
                "nobody says which tools the container {} has: neither its toolset, nor the label {TOOLS_LABEL} of its image; {why}",
                one.container.id
            ))
        })?;
        Ok(ImageSays { tools, speaks_mcp: true, to_ask: false })
    }

    /// The tools that an image lists when it is asked in MCP. It sees an empty folder and nobody's workspace.
    async fn asked(
        &self,
        engine: &Engine,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
        image: &Image,
    ) -> Result<Vec<ContainerTool>, String> {
        let Values { env, redactor } = self.values(org, &one.container).map_err(|error| error.message)?;
        let place = self.0.places.make_empty(*org != OrgId::local()).await?;
        let spec = self.spec(org, &one.container, &image.id, &place, env);
        let resident = Resident::start(engine, &spec, &options()).await;
        let resident = resident.map_err(|error| redactor.text(&error.to_string()))?;
        let listed = resident.tools().await;
        resident.end(false).await;
        drop(place);
        let listed = listed.map_err(|why| redactor.text(&why))?;
        let (tools, warnings) = tools_of_mcp(listed.tools.iter().map(ToolDefinition::raw));
        for warning in listed.warnings.iter().chain(&warnings) {
            tracing::warn!(%org, %toolset, container = %one.container.id, warning = redactor.text(warning), "of a container's list");
        }
        Ok(tools)
    }
}

/// The turn of one of many. Those that nobody waits for are forgotten.
fn own_turn<K: Eq + Hash>(turns: &Turns<K>, key: K) -> Arc<tokio::sync::Mutex<()>> {
    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    turns.retain(|_, turn| Arc::strong_count(turn) > 1);
    Arc::clone(turns.entry(key).or_default())
}

/// A file of a toolset, if it is what was installed.
fn content(root: &Path, file: &kitbag_model::ToolsetFile) -> Result<Vec<u8>, PrepareError> {
    let changed = || PrepareError::Bad(format!("the file {} is not what was installed", file.path));
    let mut content = Vec::new();
    let mut opened = checked_file(root, file).ok_or_else(changed)?;
    std::io::Read::read_to_end(&mut opened, &mut content).map_err(|_| changed())?;
    Ok(content)
}
