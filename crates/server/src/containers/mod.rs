//! Tools that run in containers: which engine runs them, which image each is, and one call of one.
//!
//! Nothing is fetched, built or started of a container that nobody trusts. When it is trusted, its image is found (`prepare.rs`) and from then
//! on it is that one: a name that means another image later is told, and not followed, until somebody trusts it again.

mod call;
mod follow;
mod prepare;
mod under_way;
mod warm;

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_container::{Engine, EngineError, HOME_LABEL, NODE_LABEL, Unlimited, sockets};
use kitbag_guard::keeper::SharedKeeper;
use kitbag_model::{ContainerTool, InstalledContainer, OrgId, ServerId, ToolsetId};
use kitbag_runner::Places;
use kitbag_store::Store;

use crate::app::Settings;
use crate::events::Events;
use crate::nodes::Nodes;
use crate::servers::Servers;
use crate::storage::Storage;
use under_way::UnderWay;
use warm::Warm;

pub(crate) use call::Around;
pub(crate) use prepare::{PrepareError, Prepared};

/// The folder, below the data folder, with one folder for each container that runs.
const PLACES: &str = "containers";

/// So long what is known of the engine is believed in lists.
const BELIEVED: Duration = Duration::from_secs(5);

/// So long a list waits for an engine to answer.
const LOOK: Duration = Duration::from_secs(3);

/// So many images are fetched or built at a time.
const AT_A_TIME: usize = 2;

/// Whose tools may run in containers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContainersFor {
    /// Nobody's.
    Nobody,
    /// Those of whoever runs this server: an engine fetches images with the operator's credentials.
    Local,
    /// Everybody's.
    All,
}

/// How tools run in containers.
#[derive(Clone, Copy, Debug)]
pub struct ContainerSettings {
    /// Whose.
    pub allowed: ContainersFor,
}

/// Those who wait for one another, by what for.
type Turns<K> = Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>;

/// A container of a toolset.
type Which = (OrgId, ToolsetId, ServerId);

/// All containers of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct Containers(Arc<Inner>);

struct Inner {
    storage: Storage,
    store: Store,
    events: Events,
    servers: Servers,
    nodes: Nodes,
    /// By what this data folder's containers and images are known in the engine.
    home: String,
    places: Places,
    settings: ContainerSettings,
    /// The most bytes of memory of one call.
    memory: u64,
    engine: tokio::sync::Mutex<Known>,
    /// Whether what a server left that worked in this data folder before was removed.
    swept: AtomicBool,
    warm: Warm,
    /// Whether an engine that cannot limit memory or processes is refused for `local`, too.
    requires_limits: bool,
    /// How the engine was when somebody last looked.
    seen: Mutex<Option<Seen>>,
    /// Who finds out which image a container is, and who could not.
    under_way: UnderWay,
    /// How many images are fetched or built at a time.
    fetching: tokio::sync::Semaphore,
    /// Whose, so that one organisation does not take all of that.
    fetching_of: Turns<OrgId>,
    /// Toolsets that are trusted while the images of some of their containers could not be had.
    open: Mutex<HashSet<(OrgId, ToolsetId)>>,
    /// Who tries that again.
    trying: tokio::sync::Mutex<()>,
    /// When images that nobody needs were last looked for.
    collected: Mutex<Option<Instant>>,
}

/// How the engine was when somebody looked.
struct Seen {
    /// What it cannot limit, or why there is none.
    found: Result<Unlimited, String>,
    at: Instant,
}

/// What is known of the engine.
#[derive(Default)]
struct Known {
    /// The one that answered last.
    engine: Option<Engine>,
    /// Where it listens. From then on it is that one: another one, which answers while it is away for a moment, has none of its containers
    /// and images.
    socket: Option<PathBuf>,
}

/// What a call of a container's tool runs.
#[derive(Clone, Debug)]
pub(crate) struct Contained {
    pub(crate) toolset: ToolsetId,
    pub(crate) container: InstalledContainer,
    pub(crate) tool: ContainerTool,
    /// The image, by its id at this engine.
    pub(crate) image: String,
}

/// What a data folder is called in the engine: its name, and where it is on the disk. A copy of it has its name, too, and must not take for its own
/// what the other one runs.
fn label_of(home: &str, data: &Path) -> String {
    std::fs::metadata(data).map_or_else(|_| home.to_owned(), |data| format!("{home}-{:x}", data.ino()))
}

impl Containers {
    /// `sandboxes` shows folders of root's to others.
    pub(crate) fn new(
        settings: &Settings,
        storage: &Storage,
        store: &Store,
        events: &Events,
        servers: &Servers,
        nodes: &Nodes,
        sandboxes: SharedKeeper,
    ) -> Self {
        Self(Arc::new(Inner {
            storage: storage.clone(),
            store: store.clone(),
            events: events.clone(),
            servers: servers.clone(),
            nodes: nodes.clone(),
            home: label_of(nodes.home(), storage.data()),
            places: Places::new(storage.data().join(PLACES), sandboxes),
            settings: settings.containers,
            memory: settings.calls.tool_memory_bytes,
            engine: tokio::sync::Mutex::default(),
            swept: AtomicBool::new(false),
            warm: Warm::default(),
            requires_limits: settings.calls.require_sandbox,
            seen: Mutex::default(),
            under_way: UnderWay::default(),
            fetching: tokio::sync::Semaphore::new(AT_A_TIME),
            fetching_of: Mutex::default(),
            open: Mutex::default(),
            trying: tokio::sync::Mutex::default(),
            collected: Mutex::default(),
        }))
    }

    /// Why an organisation has no containers here at all.
    pub(crate) fn refusal(&self, org: &OrgId) -> Option<&'static str> {
        match self.0.settings.allowed {
            ContainersFor::Nobody => Some("containers are switched off on this server"),
            ContainersFor::Local if *org != OrgId::local() => {
                Some("containers are not for organisations that share this server, unless its operator says so")
            }
            _ => None,
        }
    }

    /// Why containers of an organisation cannot run now, as far as was seen lately.
    pub(crate) fn problem(&self, org: &OrgId) -> Option<String> {
        if let Some(refusal) = self.refusal(org) {
            return Some(refusal.to_owned());
        }
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &seen.as_ref()?.found {
            Ok(unlimited) => self.check_limits(org, *unlimited).err().map(|error| error.to_string()),
            Err(problem) => Some(problem.clone()),
        }
    }

    /// Looks whether there is an engine, unless somebody did a moment ago.
    pub(crate) async fn look(&self, org: &OrgId) {
        let is_fresh = |seen: &Seen| seen.at.elapsed() < BELIEVED;
        let fresh = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(is_fresh);
        if !fresh && self.refusal(org).is_none() && tokio::time::timeout(LOOK, self.engine()).await.is_err() {
            self.saw(Err("the container engine does not answer".to_owned()));
        }
    }

    /// The engine. When it is first found, what a server of ours that was killed left there is removed.
    pub(crate) async fn engine(&self) -> Result<Engine, EngineError> {
        let mut known = self.0.engine.lock().await;
        if let Some(engine) = known.engine.as_ref()
            && engine.is_there().await
        {
            self.saw(Ok(engine.unlimited()));
            return Ok(engine.clone());
        }
        known.engine = None;
        let places = match &known.socket {
            Some(socket) => Ok(vec![socket.clone()]),
            None => sockets(|name| std::env::var(name).ok()),
        };
        let found = match places {
            Ok(sockets) => Engine::find(&sockets).await,
            Err(error) => Err(error),
        };
        self.saw(found.as_ref().map(Engine::unlimited).map_err(ToString::to_string));
        let engine = found?;
        known.socket = Some(engine.socket().to_owned());
        // Once: an engine that was away for a moment comes back with containers that are wanted.
        if !self.0.swept.load(Ordering::SeqCst) {
            let left = engine.sweep(HOME_LABEL, &self.0.home).await?;
            self.0.swept.store(true, Ordering::SeqCst);
            if left > 0 {
                tracing::warn!(containers = left, "containers of a server that was cut off were removed");
            }
            self.begin_to_collect();
        }
        known.engine = Some(engine.clone());
        Ok(engine)
    }

    /// The engine, for what containers of an organisation do there.
    pub(super) async fn engine_for(&self, org: &OrgId) -> Result<Engine, EngineError> {
        let engine = self.engine().await?;
        self.check_limits(org, engine.unlimited())?;
        Ok(engine)
    }

    /// Refuses an engine that cannot hold its containers, as a sandbox that cannot be had is: the operator may say otherwise for their own calls, and for
    /// nobody else's.
    fn check_limits(&self, org: &OrgId, unlimited: Unlimited) -> Result<(), EngineError> {
        if self.0.requires_limits || *org != OrgId::local() { unlimited.check() } else { Ok(()) }
    }

    fn saw(&self, found: Result<Unlimited, String>) {
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Seen { found, at: Instant::now() });
    }

    /// Removes what a killed server left. Only for whoever has the data folder alone.
    pub(crate) async fn tidy_up(&self) {
        if !self.0.places.clear().await {
            return;
        }
        if let Err(error) = self.engine().await {
            tracing::warn!(%error, "containers that were left could not be looked for; they are when the engine is back");
        }
    }

    /// Removes what another server left that was declared dead, if its engine is ours. If it lives after all, it has ended its calls itself.
    pub(crate) async fn bury(&self, node: &str) {
        if self.0.settings.allowed == ContainersFor::Nobody {
            return;
        }
        let Ok(engine) = self.engine().await else { return };
        match engine.sweep(NODE_LABEL, node).await {
            Ok(0) => {}
            Ok(left) => tracing::warn!(containers = left, node, "containers of a dead node were removed"),
            Err(error) => tracing::warn!(%error, node, "containers of a dead node could not be looked for"),
        }
    }
}
