//! Tools that run in containers: which engine runs them, which image each is, and one call of one.
//!
//! Nothing is fetched, built or started of a container that nobody trusts. When it is trusted, its image is found (`prepare.rs`) and from then
//! on it is that one: a name that means another image later is told, and not followed, until somebody trusts it again.

mod call;
mod place;
mod prepare;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_container::{Engine, EngineError, Limits, sockets};
use kitbag_guard::keeper::SharedKeeper;
use kitbag_model::{ContainerLimits, ContainerTool, InstalledContainer, OrgId, ServerId, ToolsetId};
use kitbag_store::Store;

use crate::app::Settings;
use crate::events::Events;
use crate::servers::Servers;

pub(crate) use call::Around;
pub(crate) use prepare::PrepareError;

/// So long what is known of the engine is believed in lists.
const BELIEVED: Duration = Duration::from_secs(5);

/// So many processes a container may have if nobody says otherwise, and if somebody does.
const PIDS: u64 = 256;
const MOST_PIDS: u64 = 4096;

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

/// A container of a toolset.
type Which = (OrgId, ToolsetId, ServerId);

/// All containers of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct Containers(Arc<Inner>);

struct Inner {
    data: PathBuf,
    store: Store,
    events: Events,
    servers: Servers,
    /// Who shows folders of root's to others.
    sandboxes: SharedKeeper,
    settings: ContainerSettings,
    /// The most bytes of memory of one call.
    memory: u64,
    node: String,
    engine: tokio::sync::Mutex<Option<Engine>>,
    /// How the engine was when somebody last looked: why there is none, and when that was.
    seen: Mutex<Option<(Option<String>, Instant)>>,
    /// Who finds out which image a container is.
    preparing: Mutex<HashMap<Which, Arc<tokio::sync::Mutex<()>>>>,
}

/// What a call of a container's tool runs.
#[derive(Clone, Debug)]
pub(crate) struct Contained {
    pub(crate) container: InstalledContainer,
    pub(crate) tool: ContainerTool,
    /// The image, by its id.
    pub(crate) image: String,
}

impl Containers {
    pub(crate) fn new(
        settings: &Settings,
        store: &Store,
        events: &Events,
        servers: &Servers,
        sandboxes: SharedKeeper,
    ) -> Self {
        Self(Arc::new(Inner {
            data: settings.data.clone(),
            store: store.clone(),
            events: events.clone(),
            servers: servers.clone(),
            sandboxes,
            settings: settings.containers,
            memory: settings.calls.tool_memory_bytes,
            node: crate::calls::node_name(&settings.data),
            engine: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            preparing: Mutex::default(),
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
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|(problem, _)| problem.clone())
    }

    /// Looks whether there is an engine, unless somebody did a moment ago.
    pub(crate) async fn look(&self, org: &OrgId) {
        let is_fresh = |seen: &(Option<String>, Instant)| seen.1.elapsed() < BELIEVED;
        let fresh = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(is_fresh);
        if !fresh && self.refusal(org).is_none() {
            let _ = self.engine().await;
        }
    }

    /// The engine. When it is first found, what a server of ours that was killed left there is removed.
    pub(crate) async fn engine(&self) -> Result<Engine, EngineError> {
        let mut place = self.0.engine.lock().await;
        if let Some(engine) = place.as_ref()
            && engine.is_there().await
        {
            self.saw(None);
            return Ok(engine.clone());
        }
        let first = place.take().is_none();
        let found = match sockets(|name| std::env::var(name).ok()) {
            Ok(sockets) => Engine::find(&sockets).await,
            Err(error) => Err(error),
        };
        self.saw(found.as_ref().err().map(ToString::to_string));
        let engine = found?;
        if first {
            let left = engine.sweep(&self.0.node).await?;
            if left > 0 {
                tracing::warn!(containers = left, "containers of a server that was cut off were removed");
            }
        }
        *place = Some(engine.clone());
        Ok(engine)
    }

    fn saw(&self, problem: Option<String>) {
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((problem, Instant::now()));
    }

    /// Removes what a killed server left. Only for whoever has the data folder alone.
    pub(crate) async fn tidy_up(&self) {
        if !self.clear_places().await {
            return;
        }
        if let Err(error) = self.engine().await {
            tracing::warn!(%error, "containers that were left could not be looked for; they are when the engine is back");
        }
    }

    /// What a container may use: what its toolset says, within what this server allows.
    pub(crate) fn limits(&self, wanted: &ContainerLimits) -> Limits {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64) * 1000;
        Limits {
            memory: wanted.memory.unwrap_or(self.0.memory).min(self.0.memory),
            milli_cpus: wanted.milli_cpus.unwrap_or(processors).min(processors),
            pids: wanted.pids.unwrap_or(PIDS).min(MOST_PIDS),
        }
    }
}
