//! Toolsets: how one comes in, goes out, is published and goes away, what its code says, and which tools all of them make together.

mod adopt;
mod artifact;
mod callable;
mod catalogue;
mod contained;
mod describe;
mod draft;
mod edit;
mod error;
mod export;
mod import;
mod install;
mod parcel;
mod plan;
mod program;
mod provided;
mod publish;
mod remove;
mod renderings;
mod servers;
mod shelf;
mod shown;
mod skills;
mod snapshot;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::{OrgId, Override, OverrideKey, ToolsetId};
use kitbag_python::Workers;
use kitbag_store::Store;
use tokio::sync::OwnedMutexGuard;

pub(crate) use adopt::Adoption;
pub(crate) use artifact::LARGEST as LARGEST_PAGE;
use callable::Known;
pub(crate) use callable::{Callable, Runs};
pub(crate) use catalogue::{Catalogue, Provider, Tool, server_of};
use describe::Describing;
pub(crate) use draft::{Draft, RawDraft};
pub(crate) use edit::{Edited, check_draft};
pub(crate) use error::ToolsetError;
pub(crate) use export::checked_file;
pub(crate) use import::{Import, Imported};
pub(crate) use install::{checked_launch, editable, lowered};
pub(crate) use parcel::Parcel;
pub(crate) use plan::{Changes, Plan, PlannedLaunch, VersionChange};
pub(crate) use servers::{LaunchChange, NewServer, ServerChange, Values};
pub(crate) use shelf::{Shelf, ShelfError};
pub(crate) use shown::{ShownImages, other_than_shown};
pub(crate) use skills::OfferedSkill;
pub(crate) use snapshot::Snapshot;

use crate::containers::Containers;
use crate::events::Events;
use crate::recent::Recent;
use crate::servers::Servers;
use crate::storage::Storage;

type Turns = HashMap<(OrgId, ToolsetId), Arc<tokio::sync::Mutex<()>>>;

type Overrides = Vec<(OverrideKey, Override)>;

/// All toolsets of a server.
#[derive(Clone)]
pub(crate) struct Toolsets {
    storage: Storage,
    store: Store,
    turns: Arc<Mutex<Turns>>,
    workers: Workers,
    events: Events,
    describing: Describing,
    servers: Servers,
    containers: Containers,
    recent: Arc<Recent<(OrgId, ToolsetId), Arc<Known>>>,
    recent_builtin: Arc<Recent<OrgId, Arc<Overrides>>>,
}

impl Toolsets {
    pub(crate) fn new(
        storage: Storage,
        store: Store,
        workers: Workers,
        events: Events,
        servers: Servers,
        containers: Containers,
    ) -> Self {
        Self {
            storage,
            store,
            turns: Arc::default(),
            workers,
            events,
            describing: Describing::default(),
            servers,
            containers,
            recent: Arc::default(),
            recent_builtin: Arc::default(),
        }
    }

    fn shelf(&self, org: &OrgId) -> Shelf {
        Shelf::of(&self.storage, org)
    }

    /// Makes sure that the files of a toolset are here. Whoever reads them waits for it.
    async fn lay_out(&self, org: &OrgId, generation: Option<&str>) -> Result<(), ShelfError> {
        let Some(generation) = generation.filter(|_| self.storage.is_shared()) else { return Ok(()) };
        let (shelf, generation) = (self.shelf(org), generation.to_owned());
        if shelf.is_laid_out(&generation) {
            return Ok(());
        }
        blocking(move || shelf.lay_out(&generation)).await
    }

    /// Takes away the files of a generation that no row names any more, where servers share them. If that fails, a later start does it.
    async fn forget_files(&self, org: &OrgId, generation: Option<&str>) {
        let Some(generation) = generation.filter(|_| self.storage.is_shared()) else { return };
        let (shelf, generation) = (self.shelf(org), generation.to_owned());
        if let Err(error) = blocking(move || shelf.forget(&generation)).await {
            tracing::warn!(%error, "files of a toolset that is gone are still in the bucket");
        }
    }

    /// Waits until nobody else in this process changes a toolset. Another process is noticed by its generation.
    async fn turn(&self, org: &OrgId, id: &ToolsetId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for: ours is the only reference.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry((org.clone(), id.clone())).or_default())
        };
        turn.lock_owned().await
    }

    /// Finishes what a killed process began. Only for whoever has the data folder alone.
    pub(crate) async fn tidy_up(&self) -> Result<(), ToolsetError> {
        for org in self.store.system().await?.organization_ids().await? {
            let installed = self.store.read_beside(&org).await?.all_installed().await?;
            let known: HashMap<_, _> =
                installed.into_iter().map(|one| (one.toolset.id, one.toolset.generation)).collect();
            self.shelf(&org).tidy_up(&known)?;
            if self.storage.is_shared() {
                let shelf = self.shelf(&org);
                blocking(move || {
                    shelf.tidy_up_shared(&known.values().flatten().map(String::as_str).collect::<Vec<&str>>())
                })
                .await?;
            }
        }
        self.keep_environments().await;
        Ok(())
    }

    /// Removes the packages that no toolset of anybody needs any more. They can be had again, so that it may fail.
    pub(crate) async fn keep_environments(&self) {
        match self.programs().await {
            Ok(programs) => self.workers.keep_environments(&programs).await,
            Err(error) => tracing::warn!(%error, "packages that no toolset needs could not be removed"),
        }
    }
}

/// Does blocking work to its end, even if nobody waits for it any more.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
