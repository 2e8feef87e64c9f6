//! Which image a container is: found, fetched or built once it is trusted, and remembered.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_container::{BUILDER_LABEL, Engine, EngineError, Image, Limits, Packed, Within};
use kitbag_mcp::tool::ToolDefinition;
use kitbag_model::container::{TOOLS_LABEL, built_tag, tools_of_label, tools_of_mcp};
use kitbag_model::{
    ContainerTool, ContentHash, ImageSays, ImageSource, Installed, InstalledContainer, OrgId, PinnedImage, ServerId,
    ToolsetId, WorkPath,
};
use kitbag_runner::Resident;
use kitbag_store::StoreError;
use serde_json::json;

use super::Containers;
use super::call::Values;
use super::under_way::own_turn;
use super::warm::options;
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
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// So often listeners hear how far it is.
const TOLD: Duration = Duration::from_millis(250);

/// A container whose image is there. Whoever runs it takes everything from here: what they read before may have been exchanged meanwhile, and
/// trust is in what was looked at here.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// The toolset as it was when the image was looked at, with the container pinned and trusted.
    pub(crate) installed: Installed,
    /// Its id at this engine. One that is built here is another by that than the one that was built elsewhere.
    pub(crate) image: String,
}

/// What can be said of a container at once.
enum Looked {
    /// Its image is there, and is the one that was trusted.
    Ready(Box<Prepared>),
    /// It has to be fetched, built or asked. This is what it would be made of.
    Open(ContentHash),
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
    /// What somebody else was told who waited for the same, or was told a moment ago.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PrepareError {
    /// The same for the next who asks.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::NotAllowed(why) => Self::NotAllowed(why),
            Self::NeedsTrust(id) => Self::NeedsTrust(id.clone()),
            Self::Moved { name, was, now } => Self::Moved { name: name.clone(), was: was.clone(), now: now.clone() },
            Self::Busy { container, toolset } => Self::Busy { container: container.clone(), toolset: toolset.clone() },
            Self::Bad(why) => Self::Bad(why.clone()),
            Self::Failed(why) => Self::Failed(why.clone()),
            Self::Engine(error) => Self::Failed(error.to_string()),
            // Its cause is in the log, once, and told to nobody.
            Self::Store(_) => Self::Failed("the image of a container could not be looked for; try again".to_owned()),
        }
    }

    /// Whether the next try would most likely cost as much and end the same.
    pub(super) fn lasts(&self) -> bool {
        match self {
            Self::Bad(_) => true,
            Self::Engine(error) => {
                !matches!(error, EngineError::None(_) | EngineError::Away(_) | EngineError::Unlimited(_))
            }
            _ => false,
        }
    }
}

impl Containers {
    /// The same for a call, which does not wait for as long as that may take. It goes on, and the next call finds what came of it. What failed a
    /// moment ago is not begun again at once: whoever calls a tool must not have an image fetched or started each time.
    pub(crate) async fn prepare_soon(
        &self,
        org: &OrgId,
        toolset: &ToolsetId,
        id: &ServerId,
    ) -> Result<Prepared, PrepareError> {
        let busy = |_| PrepareError::Busy { container: id.clone(), toolset: toolset.clone() };
        tokio::time::timeout(SOON, self.get(org, toolset, id, true)).await.map_err(busy)?
    }

    /// The image of a container, which must be the one that was trusted. It is fetched or built if it is not there. `patiently` says that what failed a
    /// moment ago is not tried again.
    pub(super) async fn get(
        &self,
        org: &OrgId,
        toolset: &ToolsetId,
        id: &ServerId,
        patiently: bool,
    ) -> Result<Prepared, PrepareError> {
        let which = (org.clone(), toolset.clone(), id.clone());
        for _ in 0..TRIES {
            // Each looks with its own eyes: what others waited for may have begun with what the container was before.
            let made_of = match self.look_at(org, toolset, id).await {
                Ok(Looked::Ready(prepared)) => {
                    self.0.under_way.fine(&which);
                    return Ok(*prepared);
                }
                Ok(Looked::Open(made_of)) => made_of,
                Err(error) => {
                    self.0.under_way.failed(&which, None, &error);
                    return Err(error);
                }
            };
            if patiently && let Some(error) = self.0.under_way.failed_lately(&which, &made_of) {
                return Err(error);
            }
            self.obtained(which.clone(), made_of).await?;
        }
        Err(PrepareError::Bad(format!("the container {id} was changed while its image was looked for; try again")))
    }

    /// Why an organisation may have no images of this kind.
    pub(crate) fn may_have(&self, org: &OrgId, source: &ImageSource) -> Result<(), PrepareError> {
        if let Some(refusal) = self.refusal(org) {
            return Err(PrepareError::NotAllowed(refusal));
        }
        if *org == OrgId::local() {
            return Ok(());
        }
        match source {
            // A recipe may name every image that the engine has, and have it read addresses for it.
            ImageSource::Build(_) => Err(PrepareError::NotAllowed(
                "images are built for whoever runs this server alone; name an image that is built already",
            )),
            ImageSource::Image(name) if name.is_built_here() => Err(PrepareError::NotAllowed(BUILT_HERE)),
            ImageSource::Image(_) => Ok(()),
        }
    }

    /// A container as it is now, that is trusted.
    async fn read(
        &self,
        org: &OrgId,
        toolset: &ToolsetId,
        id: &ServerId,
    ) -> Result<(Installed, InstalledContainer), PrepareError> {
        let now = self.0.store.read_beside(org).await?.installed(toolset).await?;
        let one = now.as_ref().and_then(|now| now.container(id.as_str())).cloned();
        let Some((now, one)) = now.zip(one) else {
            return Err(PrepareError::Bad(format!("the container {id} was removed")));
        };
        if !one.is_trusted() {
            return Err(PrepareError::NeedsTrust(id.clone()));
        }
        self.may_have(org, &one.container.source)?;
        Ok((now, one))
    }

    async fn look_at(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> Result<Looked, PrepareError> {
        if let Some(refusal) = self.refusal(org) {
            return Err(PrepareError::NotAllowed(refusal));
        }
        let (mut installed, one) = self.read(org, toolset, id).await?;
        if one.settled().is_none() {
            return Ok(Looked::Open(one.fingerprint()));
        }
        let engine = self.engine_for(org).await?;
        match self.there(&engine, org, toolset, &one).await? {
            Some(found) => {
                // It is the one: if its name meant another one for a while, that is over.
                let own = installed.containers.iter_mut().filter(|own| own.container.id == *id);
                own.for_each(|own| own.moved_to = None);
                Ok(Looked::Ready(Box::new(Prepared { installed, image: found.id })))
            }
            None => Ok(Looked::Open(one.fingerprint())),
        }
    }

    /// Has the image of a container there, and the container pinned to it.
    pub(super) async fn obtain(&self, org: &OrgId, toolset: &ToolsetId, id: &ServerId) -> Result<(), PrepareError> {
        for _ in 0..TRIES {
            // Somebody else may have done it, at another node too.
            let (now, one) = self.read(org, toolset, id).await?;
            let engine = self.engine_for(org).await?;
            let found = match self.there(&engine, org, toolset, &one).await? {
                Some(found) => found,
                None => match &one.container.source {
                    ImageSource::Image(name) => self.fetched(&engine, org, toolset, &one, name.as_str()).await?,
                    ImageSource::Build(folder) => self.built(&engine, org, &now, &one, folder).await?,
                },
            };
            check(org, id, &found)?;
            if one.settled().is_some() {
                return Ok(());
            }
            let says = self.says(&engine, org, toolset, &one, &found).await?;
            let pinned = PinnedImage { id: found.id, says };
            if self.pin(org, toolset, &one, &pinned).await? {
                return Ok(());
            }
        }
        Err(PrepareError::Bad(format!("the container {id} was changed while its image was looked for; try again")))
    }

    /// The image of a container, if the engine has it. It is the one that was trusted.
    async fn there(
        &self,
        engine: &Engine,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
    ) -> Result<Option<Image>, PrepareError> {
        let pinned = async || match &one.pinned {
            Some(pinned) => engine.image(&pinned.id).await,
            None => Ok(None),
        };
        match &one.container.source {
            ImageSource::Image(name) => match engine.image(name.as_str()).await? {
                Some(found) => self.same(org, toolset, one, name.as_str(), found).await.map(Some),
                // The name is gone and the image is there: nothing else is meant by it.
                None => Ok(pinned().await?),
            },
            // What it is built from is part of what was trusted, so one that was built again here, because somebody removed it, or it was
            // built at another node with an engine of its own, is as good, though it is another one by its id.
            ImageSource::Build(_) => match pinned().await? {
                None if one.pinned.is_some() => Ok(engine
                    .image(&built_tag(toolset.as_str(), one.container.id.as_str(), &one.fingerprint()))
                    .await?),
                found => Ok(found),
            },
        }
    }

    async fn fetched(
        &self,
        engine: &Engine,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
        name: &str,
    ) -> Result<Image, PrepareError> {
        let told = self.progress(org, toolset, &one.container.id);
        let found = self.in_turn(org, "fetched", async { Ok(engine.pull(name, told).await?) }).await?;
        self.same(org, toolset, one, name, found).await
    }

    /// What a name means, which must be the pinned image where there is one. That it is another one is remembered.
    async fn same(
        &self,
        org: &OrgId,
        toolset: &ToolsetId,
        one: &InstalledContainer,
        name: &str,
        found: Image,
    ) -> Result<Image, PrepareError> {
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

    async fn built(
        &self,
        engine: &Engine,
        org: &OrgId,
        installed: &Installed,
        one: &InstalledContainer,
        folder: &WorkPath,
    ) -> Result<Image, PrepareError> {
        let toolset = &installed.toolset.id;
        let tag = built_tag(toolset.as_str(), one.container.id.as_str(), &one.fingerprint());
        let within = Within {
            network: one.container.network && self.0.servers.may_be_in_network(org),
            memory: Limits::within(&one.container.limits, self.0.memory).memory,
        };
        let labels = self.labels_of_images(toolset);
        let told = self.progress(org, toolset, &one.container.id);
        let building = async {
            // Only now: what is packed is held in memory.
            let (packed, recipe) = self.pack(org, installed, folder).await?;
            Ok(engine.build(&tag, recipe, packed, &labels, &within, told).await?)
        };
        self.in_turn(org, "built", building).await
    }

    /// What is fetched, built or asked, a few at a time, of each organisation one, and not for ever. Its time begins with its turn.
    async fn in_turn<T>(
        &self,
        org: &OrgId,
        what: &str,
        work: impl Future<Output = Result<T, PrepareError>>,
    ) -> Result<T, PrepareError> {
        let late = |_| PrepareError::Bad(format!("the image was not {what} within {} minutes", LONGEST.as_secs() / 60));
        let own = own_turn(&self.0.fetching_of, org.clone());
        let _own = own.lock().await;
        let _turn = self.0.fetching.acquire().await;
        tokio::time::timeout(LONGEST, work).await.map_err(late)?
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
        let asking = async {
            self.asked(engine, org, toolset, one, image).await.map_err(|why| {
                PrepareError::Bad(format!(
                    "nobody says which tools the container {} has: neither its toolset, nor the label {TOOLS_LABEL} of its image; {why}",
                    one.container.id
                ))
            })
        };
        let tools = self.in_turn(org, "asked", asking).await?;
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
        let mut spec = self.spec(org, &one.container, &image.id, &place, env);
        spec.place.exchange = None;
        let resident = Resident::start(engine, &spec, &options()).await;
        let resident = resident.map_err(|error| redactor.text(&error.to_string()))?;
        let listed = resident.tools().await;
        resident.end(false).await;
        place.clear().await;
        let listed = listed.map_err(|why| redactor.text(&why))?;
        let (tools, warnings) = tools_of_mcp(listed.tools.iter().map(ToolDefinition::raw));
        for warning in listed.warnings.iter().chain(&warnings) {
            tracing::warn!(%org, %toolset, container = %one.container.id, warning = redactor.text(warning), "of a container's list");
        }
        Ok(tools)
    }
}

const BUILT_HERE: &str = "images that were built here are their own toolset's; name one of a registry";

/// Whether an image may be used at all, whatever it is called.
fn check(org: &OrgId, id: &ServerId, found: &Image) -> Result<(), PrepareError> {
    if *org != OrgId::local() && found.labels.contains_key(BUILDER_LABEL) {
        return Err(PrepareError::NotAllowed(BUILT_HERE));
    }
    if found.volumes.is_empty() {
        return Ok(());
    }
    Err(PrepareError::Bad(format!(
        "the image of the container {id} declares volumes ({}), for each of which the engine makes a folder on this machine without a \
         limit; use an image without, and /workspace or /tmp in it",
        found.volumes.join(", ")
    )))
}

/// A file of a toolset, if it is what was installed.
fn content(root: &Path, file: &kitbag_model::ToolsetFile) -> Result<Vec<u8>, PrepareError> {
    let changed = || PrepareError::Bad(format!("the file {} is not what was installed", file.path));
    let mut content = Vec::new();
    let mut opened = checked_file(root, file).ok_or_else(changed)?;
    std::io::Read::read_to_end(&mut opened, &mut content).map_err(|_| changed())?;
    Ok(content)
}
