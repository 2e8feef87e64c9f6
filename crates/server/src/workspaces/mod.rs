//! The workspaces of chats: who may change one, and how its folder, its blobs and its rows stay one.
//!
//! A [`Lease`] is the right to change a chat's workspace. Whoever has it first makes sure that the folder is the chat's
//! active state ([`Lease::restore`]), then changes it, then keeps what came of it ([`Lease::keep`]). Blobs are durable
//! before the rows that name them; a crash in between leaves blobs that nobody names.

mod arriving;
mod call;
mod deletion;
mod error;
mod lease;
mod meter;
mod nodes;
mod run;
mod shared;
mod shed;
mod upload;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use kitbag_cas::CasError;
use kitbag_cas::blobs::Blobs;
use kitbag_cas::clear;
use kitbag_cas::tree::NodeMap;
use kitbag_cas::workspace::{Limits, Workspace};
use kitbag_model::{ChatId, ContentHash, OrgId, ToolCallId};
use kitbag_store::Store;
use tokio::sync::watch;

use crate::containers::Containers;
use crate::events::Events;
use crate::home;
use crate::nodes::{HeldChat, Nodes, NotHeld};
use crate::rules::{Quota, Rules};
use crate::storage::Storage;
use meter::{Meter, Metered, Meters, Stock};

pub(crate) use arriving::Arriving;
pub(crate) use error::WorkspaceError;
pub(crate) use lease::Lease;
use lease::Right;
pub(crate) use run::{Ended, RunEndError};
use shed::LaidOut;
pub(crate) use upload::Upload;

/// So many deleted chats of an organisation are looked at in a row.
const MOST_LEFT: u32 = 1000;

/// So many workspaces are kept open when nobody uses them.
const IDLE: usize = 64;

/// All workspaces of a server.
#[derive(Clone)]
pub(crate) struct Workspaces {
    storage: Storage,
    store: Store,
    limits: Limits,
    rules: Rules,
    meters: Meters,
    events: Events,
    nodes: Nodes,
    containers: Arc<OnceLock<Containers>>,
    open: Arc<Mutex<Slots>>,
    laid: Arc<LaidOut>,
}

type Slots = HashMap<(OrgId, ChatId), Arc<Slot>>;

/// One workspace.
pub(crate) struct Slot {
    /// Held by whoever has the lease. Those who wait get it in the order in which they came.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The call that has the lease. It may have it for minutes, so that nobody else should wait for it.
    holder: watch::Sender<Option<ToolCallId>>,
    /// None until it is first used.
    workspace: Mutex<Option<Workspace>>,
    nodes: NodeMap,
    /// When somebody last wanted it.
    used: Mutex<SystemTime>,
}

impl Workspaces {
    pub(crate) fn new(
        storage: Storage,
        limits: Limits,
        store: &Store,
        rules: &Rules,
        events: &Events,
        nodes: &Nodes,
    ) -> Self {
        Self {
            storage,
            store: store.clone(),
            limits,
            rules: rules.clone(),
            meters: Meters::new(events),
            events: events.clone(),
            nodes: nodes.clone(),
            containers: Arc::default(),
            open: Arc::default(),
            laid: Arc::default(),
        }
    }

    /// Whose containers see the folders. They are made after this.
    pub(crate) fn seen_by(&self, containers: &Containers) {
        let _ = self.containers.set(containers.clone());
    }

    /// Has the quota of an organisation, if it has one, hold for whatever is kept from now on.
    async fn metered(&self, org: &OrgId) -> Result<(Arc<Meter>, Option<Quota>), WorkspaceError> {
        let quota = self.rules.of(org).await?.workspace_bytes();
        let meter = self.meters.of(org);
        let stock = Stock { chats: self.homes(org), shared: self.storage.chats(org) };
        meter.hold(quota.as_ref().map(|quota| quota.most), stock).await?;
        Ok((meter, quota))
    }

    /// Another node keeps so much more for an organisation.
    pub(crate) fn taken_elsewhere(&self, org: &OrgId, bytes: u64) {
        self.meters.taken_elsewhere(org, bytes);
    }

    /// Waits for the right to change a chat's workspace, however long a tool has it.
    pub(crate) async fn lease(&self, org: &OrgId, chat: ChatId) -> Result<Lease, WorkspaceError> {
        let slot = self.slot(org, chat);
        let turn = Arc::clone(&slot.turn).lock_owned().await;
        let held = self.hold(org, chat).await?;
        Ok(Lease::new(self.clone(), org.clone(), chat, slot, Right::Change(turn, held)))
    }

    /// Has this node hold the chat, where there may be others.
    async fn hold(&self, org: &OrgId, chat: ChatId) -> Result<Option<Arc<HeldChat>>, WorkspaceError> {
        match self.nodes.hold(org, chat).await {
            Ok(held) => Ok(held),
            // Whoever works with it finds out, and its folder may be all that is left.
            Err(NotHeld::NoChat) => Ok(None),
            Err(NotHeld::Elsewhere(node)) => Err(WorkspaceError::Elsewhere(node)),
            Err(NotHeld::Store(error)) => Err(error.into()),
        }
    }

    /// The right to change a chat's workspace, unless a tool has it: then whoever wants to change something is told at once.
    pub(crate) async fn edit(&self, org: &OrgId, chat: ChatId) -> Result<Lease, WorkspaceError> {
        loop {
            let lease = self.look(org, chat).await;
            match lease.holder() {
                _ if lease.may_change() => return Ok(lease),
                _ if lease.is_elsewhere() => return Err(lease.why_not()),
                Some(call) => return Err(WorkspaceError::Busy(call)),
                // The call ended just now.
                None => {}
            }
        }
    }

    /// A look at a chat's workspace. While a tool has it, that is a look at what was kept last, and nobody waits.
    pub(crate) async fn look(&self, org: &OrgId, chat: ChatId) -> Lease {
        let slot = self.slot(org, chat);
        let mut holder = slot.holder.subscribe();
        let turn = tokio::select! {
            biased;
            turn = Arc::clone(&slot.turn).lock_owned() => Some(turn),
            _ = holder.wait_for(Option::is_some) => None,
        };
        let right = match turn {
            None => Right::Look,
            Some(turn) => match self.hold(org, chat).await {
                Ok(held) => Right::Change(turn, held),
                Err(why) => Right::Elsewhere(why),
            },
        };
        Lease::new(self.clone(), org.clone(), chat, slot, right)
    }

    /// How many workspaces are open, and of how many somebody has the lease.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        (open.len(), open.values().filter(|slot| slot.turn.try_lock().is_err()).count())
    }

    /// How much the copies of blobs take that are in the bucket.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.storage.cached()
    }

    /// Whether the chat has ever used its workspace here.
    pub(crate) fn exists(&self, org: &OrgId, chat: ChatId) -> bool {
        self.home(org, chat).is_dir()
    }

    /// The bytes of a blob, or the first `most` of them, without waiting for whoever has the lease: a blob never changes.
    pub(crate) async fn read_blob(
        &self,
        org: &OrgId,
        chat: ChatId,
        hash: ContentHash,
        most: u64,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let (workspaces, org) = (self.clone(), org.clone());
        let read = tokio::task::spawn_blocking(move || {
            let blob = workspaces.blobs(&org, chat, &hash)?.open(&hash)?;
            let length = usize::try_from(blob.length().min(most)).unwrap_or(usize::MAX);
            let (mut bytes, mut at) = (vec![0; length], 0);
            while at < length {
                match blob.read_at(&mut bytes[at..], at as u64)? {
                    0 => break,
                    more => at += more,
                }
            }
            bytes.truncate(at);
            Ok(bytes)
        });
        read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    /// The blobs of a chat: those of its open workspace, or the folder's own while somebody works with it.
    fn blobs(&self, org: &OrgId, chat: ChatId, wanted: &ContentHash) -> Result<Arc<dyn Blobs>, WorkspaceError> {
        let slot = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&(org.clone(), chat)).cloned();
        if let Some(slot) = slot
            && let Ok(workspace) = slot.workspace.try_lock()
            && let Some(workspace) = &*workspace
        {
            return Ok(Arc::clone(workspace.blobs()));
        }
        // To open the blobs would make the folder.
        if !self.storage.is_shared() && !self.exists(org, chat) {
            return Err(CasError::Missing { hash: *wanted }.into());
        }
        // Nothing is written, so that it does not matter into what.
        Ok(self.storage.blobs(org, chat, &self.home(org, chat), 0)?)
    }

    /// The folder of a chat.
    pub(crate) fn home(&self, org: &OrgId, chat: ChatId) -> PathBuf {
        self.homes(org).join(chat.to_string())
    }

    /// Where the folders of an organisation's chats are.
    fn homes(&self, org: &OrgId) -> PathBuf {
        home::of(self.storage.data(), org).join("chats")
    }

    /// Removes the folders of chats whose deletion was cut off. Call it once, at the start. A folder that no chat has is not
    /// enough to go by: another database may have it.
    pub(crate) async fn finish_deletions(&self) {
        for org in self.orgs_here() {
            let doomed = clear::doomed(&self.homes(&org)).unwrap_or_else(|error| {
                tracing::warn!(%error, "the folders of deleted chats cannot be looked for");
                Vec::new()
            });
            let chats = doomed.iter().filter_map(|home| home.file_name()?.to_str()?.parse::<ChatId>().ok());
            for chat in chats {
                self.finish_deletion(&org, chat).await;
            }
        }
    }

    /// The organisations that have a folder here.
    fn orgs_here(&self) -> Vec<OrgId> {
        let others =
            std::fs::read_dir(self.storage.data().join(home::OTHERS)).into_iter().flatten().filter_map(Result::ok);
        let others = others.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        [OrgId::local()].into_iter().chain(others).collect()
    }

    /// Removes from the bucket what deleted chats left there, whichever node deleted them. Two that do it at once do it twice.
    pub(crate) async fn finish_deletions_anywhere(&self) -> Result<(), WorkspaceError> {
        if !self.storage.is_shared() {
            return Ok(());
        }
        for org in self.store.system().await?.organization_ids().await? {
            // Those that cannot be removed now stay for the next time, and are looked at again.
            let left = self.store.read_beside(&org).await?.bytes_left(MOST_LEFT).await?;
            for chat in left {
                self.finish_deletion(&org, chat).await;
            }
        }
        Ok(())
    }

    async fn finish_deletion(&self, org: &OrgId, chat: ChatId) {
        let finished = async { self.lease(org, chat).await?.finish_deletion().await };
        if let Err(error) = finished.await {
            tracing::warn!(%chat, %error, "what a deleted chat left could not be removed");
        }
    }

    fn slot(&self, org: &OrgId, chat: ChatId) -> Arc<Slot> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() > IDLE {
            // Those that nobody holds: ours is the only reference.
            open.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.save().is_err());
        }
        let fresh = || Slot {
            turn: Arc::default(),
            holder: watch::channel(None).0,
            workspace: Mutex::default(),
            nodes: NodeMap::default(),
            used: Mutex::new(SystemTime::UNIX_EPOCH),
        };
        let slot = open.entry((org.clone(), chat)).or_insert_with(|| Arc::new(fresh()));
        *slot.used.lock().unwrap_or_else(PoisonError::into_inner) = SystemTime::now();
        Arc::clone(slot)
    }

    /// Writes down what is known of every open workspace, so that the next start need not read their files.
    pub(crate) fn save(&self) {
        for slot in self.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            if let Err(error) = slot.save() {
                tracing::warn!(%error, "what is known of a workspace's files could not be saved");
            }
        }
    }

    fn open_workspace(&self, org: &OrgId, chat: ChatId, generation: u64) -> Result<Workspace, WorkspaceError> {
        let home = self.home(org, chat);
        let blobs = self.storage.blobs(org, chat, &home, generation)?;
        let blobs = Arc::new(Metered { blobs, meter: self.meters.of(org) });
        let mut workspace = Workspace::open(&home, blobs, self.limits)?;
        workspace.watch();
        Ok(workspace)
    }
}

impl Slot {
    fn save(&self) -> Result<(), WorkspaceError> {
        match &mut *self.workspace.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(workspace) => Ok(workspace.save()?),
            None => Ok(()),
        }
    }
}
