//! The one keeper of a server, for all who need it: it is started when it is first asked for, and again when it is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;

use super::client::{Keeper, KeeperError};

/// The place of the keeper. Clones share it.
#[derive(Clone, Debug)]
pub struct SharedKeeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    command: Vec<PathBuf>,
    data: PathBuf,
    required: bool,
    keeper: Mutex<Option<Arc<Keeper>>>,
    over: AtomicBool,
}

impl SharedKeeper {
    /// Nothing is started yet. The first two are what [`Keeper::start`] needs; `required` says that it must make namespaces.
    pub fn new(command: Vec<PathBuf>, data: PathBuf, required: bool) -> Self {
        Self(Arc::new(Inner { command, data, required, keeper: Mutex::default(), over: AtomicBool::new(false) }))
    }

    /// Whether whoever must be confined is refused when a layer of the sandbox cannot be had.
    pub fn is_required(&self) -> bool {
        self.0.required
    }

    /// The keeper, which is started if there is none, or none any more.
    pub async fn get(&self) -> Result<Arc<Keeper>, KeeperError> {
        let mut place = self.0.keeper.lock().await;
        if let Some(keeper) = place.as_ref().filter(|keeper| keeper.is_alive()) {
            return Ok(Arc::clone(keeper));
        }
        if self.0.over.load(Ordering::Relaxed) {
            return Err(KeeperError::Ending);
        }
        let Inner { command, data, required, .. } = &*self.0;
        let started = match Keeper::start(command, data, false).await {
            Err(error) if !required => {
                let plain = Keeper::start(command, data, true).await;
                plain.map(|keeper| keeper.plain_because(error.to_string()))
            }
            started => started,
        };
        let started = Arc::new(started?);
        *place = Some(Arc::clone(&started));
        Ok(started)
    }

    /// The keeper, if there is one.
    pub async fn there(&self) -> Option<Arc<Keeper>> {
        self.0.keeper.lock().await.clone()
    }

    /// From now on there is none. One that somebody still holds stays for as long.
    pub async fn end(&self) {
        self.0.over.store(true, Ordering::Relaxed);
        *self.0.keeper.lock().await = None;
    }
}
