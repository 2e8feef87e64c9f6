//! Several servers on one PostgreSQL. Each is a node: it says that it is alive, holds the chats that it works for and the MCP servers whose processes it has, hears what happens at the
//! others, and passes on what only another can answer. On SQLite there is one process, and nothing of this happens.
//!
//! That no two change one chat does not rest on clocks: whoever writes as a chat's holder carries the number of that lease, and the
//! database refuses all but the latest ([`kitbag_store::Fence`]).

mod channel;
mod forward;
mod home;
mod leaving;
mod ping;
mod pulse;
mod quotas;
mod remote;
mod servers;
mod wire;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::{ChatId, OrgId, Timestamp};
use kitbag_python::Workers;
use kitbag_store::{ChatClaim, Fence, Node, Store, StoreError};
use tokio::sync::{Notify, watch};
use url::Url;
use uuid::Uuid;

use crate::containers::Containers;
pub(crate) use channel::{FromNode, SEAL};
pub(crate) use forward::{Kept, Passed, pass_on, pass_to, pass_to_stage};
pub use home::HomeTaken;
use leaving::Leaving;
pub use ping::ping;
pub(crate) use ping::{PING, pinged};
pub(crate) use pulse::Beating;
use pulse::Steady;
pub(crate) use remote::{APPLY, Answer as NodeAnswer, CANCEL, Failed, Handed, RUN, apply_here, cancel_here, run_here};
pub(crate) use servers::{
    LEND, RECONNECT, RELEASE, SHOW, ServerLeases, lend_here, reconnect_here, release_here, show_here,
};
pub(crate) use wire::Line;

/// So many chats are held though nobody uses them; those that were used longest ago are given back.
const MOST_HELD: usize = 10_000;

/// How nodes are looked after.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Where the other nodes reach this one. None: they do not, and it answers alone for what it holds.
    pub advertise: Option<Url>,
    /// So long a node is alive without being heard of.
    pub lease: Duration,
    /// So long it goes on as before after it said that it stops, so that balancers find out.
    pub linger: Duration,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self { advertise: None, lease: Duration::from_secs(15), linger: Duration::ZERO }
    }
}

/// This node and those that it knows. Clones share them.
#[derive(Clone)]
pub(crate) struct Nodes(Arc<Inner>);

struct Inner {
    /// None where there is but one process.
    store: Option<kitbag_store::Nodes>,
    settings: NodeSettings,
    /// The name of the data folder.
    home: Arc<str>,
    /// What this process is called. Another after it was thought dead.
    id: Mutex<Arc<str>>,
    joined: tokio::sync::Mutex<bool>,
    /// Until then nobody can say that this node is dead.
    alive_until: watch::Sender<Instant>,
    held: Mutex<HashMap<(OrgId, ChatId), Arc<HeldChat>>>,
    /// Chats of which it is being written that they are given back.
    leaving: Leaving,
    /// Chats that were held by a name which is dead: their folders may have what nobody kept.
    lost: Mutex<HashSet<(OrgId, ChatId)>>,
    peers: watch::Sender<Arc<[Node]>>,
    has_peers: AtomicBool,
    /// Has the pulse beat at once.
    beat_now: Notify,
    /// There may be something to do that the pulse does not wait for.
    chores: Notify,
    /// Goes on under another name, and knows nothing of what happened before.
    is_anew: AtomicBool,
    /// Knows that it is dead, and is not there again yet.
    coming_back: AtomicBool,
    steady: Mutex<Steady>,
    draining: AtomicBool,
    client: OnceLock<reqwest::Client>,
    fresh_client: OnceLock<reqwest::Client>,
}

/// A chat that this node holds, for as long as it is the latest to hold it.
pub(crate) struct HeldChat {
    fence: Fence,
    used: Mutex<Instant>,
    /// Whether the folder that is here may be behind, or ahead with what nobody kept.
    moved: AtomicBool,
}

impl HeldChat {
    /// What every write carries.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Whether the folder must be made anew before it is used.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.load(Ordering::SeqCst)
    }

    /// It was.
    pub(crate) fn has_arrived(&self) {
        self.moved.store(false, Ordering::SeqCst);
    }
}

/// Why a chat is not held.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotHeld {
    /// This node holds it.
    #[error("another server works for this chat just now")]
    Elsewhere(String),
    #[error("there is no such chat")]
    NoChat,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Nodes {
    pub(crate) fn new(data: &Path, store: &Store, settings: NodeSettings) -> Self {
        let home: Arc<str> = home::name(data).into();
        let store = store.nodes();
        let id = match store {
            Some(_) => Uuid::now_v7().to_string().into(),
            None => Arc::clone(&home),
        };
        Self(Arc::new(Inner {
            store,
            settings,
            home,
            id: Mutex::new(id),
            joined: tokio::sync::Mutex::new(false),
            alive_until: watch::Sender::new(Instant::now()),
            held: Mutex::default(),
            leaving: Leaving::default(),
            lost: Mutex::default(),
            peers: watch::Sender::new(Arc::default()),
            has_peers: AtomicBool::new(false),
            beat_now: Notify::new(),
            chores: Notify::new(),
            is_anew: AtomicBool::new(false),
            coming_back: AtomicBool::new(false),
            steady: Mutex::new(Steady::new(Instant::now())),
            draining: AtomicBool::new(false),
            client: OnceLock::new(),
            fresh_client: OnceLock::new(),
        }))
    }

    /// What this server is called in records: who made a call, and who may say that it was cut off.
    pub(crate) fn id(&self) -> Arc<str> {
        Arc::clone(&self.0.id.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many nodes are alive, this one with them, and how many were not heard of in time. One process is one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let peers = self.peers();
        let late = peers.iter().filter(|node| node.is_late || node.is_dead).count();
        match self.are_several() {
            true => (peers.len() - late, late),
            false => (1, 0),
        }
    }

    /// The name of the data folder.
    pub(crate) fn home(&self) -> &str {
        &self.0.home
    }

    /// Whether there may be others.
    pub(crate) fn are_several(&self) -> bool {
        self.0.store.is_some()
    }

    /// Whether there are others.
    pub(crate) fn has_peers(&self) -> bool {
        self.0.has_peers.load(Ordering::Relaxed)
    }

    /// The nodes that there are, this one among them.
    pub(crate) fn peers(&self) -> Arc<[Node]> {
        self.0.peers.borrow().clone()
    }

    /// Another node, if it is not dead.
    pub(crate) fn peer(&self, id: &str) -> Option<Node> {
        self.peers().iter().find(|node| node.id == id && !node.is_dead).cloned()
    }

    /// Becomes one of the nodes, if it is none yet.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        let mut joined = self.0.joined.lock().await;
        if *joined {
            return Ok(());
        }
        let node = Node {
            id: self.id().to_string(),
            home: self.home().to_owned(),
            address: self.0.settings.advertise.as_ref().map(home::address_text),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: Timestamp::now(),
            draining: false,
            is_late: false,
            is_dead: false,
        };
        let begun = Instant::now();
        store.join(&node, self.0.settings.lease).await?;
        self.0.alive_until.send_replace(begun + self.0.settings.lease);
        *joined = true;
        self.0.coming_back.store(false, Ordering::SeqCst);
        drop(joined);
        self.look_around().await
    }

    /// Holds no chat from now on that it does not hold, and gives back those that nobody uses here.
    pub(crate) async fn drain(&self, workers: &Workers, containers: &Containers) {
        let Some(store) = &self.0.store else { return };
        self.0.draining.store(true, Ordering::SeqCst);
        if let Err(error) = store.drain(&self.id()).await {
            tracing::warn!(%error, "the other nodes could not be told that this one stops");
        }
        if !self.has_peers() {
            return;
        }
        let mut idle: Vec<(OrgId, ChatId)> = self.held().keys().cloned().collect();
        let mut kept = HashSet::new();
        for (org, chat) in &idle {
            if !workers.processes(org, *chat).await.is_empty() || containers.stay_for(org, *chat) {
                kept.insert((org.clone(), *chat));
            }
        }
        idle.retain(|key| !kept.contains(key));
        if let Err(error) = self.give_back(self.part_with(idle)).await {
            tracing::warn!(%error, "some chats could not be given back; they are free when this node is gone");
        }
    }

    /// Whether this node was declared dead, and is not there again yet. It begins nothing meanwhile.
    pub(crate) fn is_coming_back(&self) -> bool {
        self.0.coming_back.load(Ordering::SeqCst)
    }

    /// Another node, to which those may go who cannot be served here any more.
    fn successor(&self) -> Option<Node> {
        let me = self.id();
        let fits = |node: &&Node| *node.id != *me && !node.is_dead && !node.is_late && !node.draining;
        self.peers().iter().find(|node| fits(node) && node.address.is_some()).cloned()
    }

    /// Whether there is one.
    pub(crate) fn has_successor(&self) -> bool {
        self.successor().is_some()
    }

    /// Is no node any more: what it held is free for others.
    pub(crate) async fn leave(&self) {
        let Some(store) = &self.0.store else { return };
        let mut joined = self.0.joined.lock().await;
        if !std::mem::replace(&mut *joined, false) {
            return;
        }
        self.held().clear();
        if let Err(error) = store.leave(&self.id()).await {
            tracing::warn!(%error, "the other nodes will find out by themselves that this one stopped");
        }
    }

    /// Learns which nodes there are.
    async fn look_around(&self) -> Result<(), StoreError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        let all = store.all().await?;
        let me = self.id();
        self.0.has_peers.store(all.iter().any(|node| *node.id != *me && !node.is_dead), Ordering::Relaxed);
        // Who waits for news of them hears of news only.
        self.0.peers.send_if_modified(|known| {
            let differs = **known != *all;
            *known = all.into();
            differs
        });
        Ok(())
    }

    /// Has this node hold a chat. None where there is but one process.
    pub(crate) async fn hold(&self, org: &OrgId, chat: ChatId) -> Result<Option<Arc<HeldChat>>, NotHeld> {
        let Some(store) = &self.0.store else { return Ok(None) };
        let key = (org.clone(), chat);
        loop {
            {
                let all = self.held();
                if let Some(held) = all.get(&key).cloned() {
                    *held.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                    return Ok(Some(held));
                }
                if !self.0.leaving.has(&key) {
                    break;
                }
            }
            self.0.leaving.left(&key).await;
        }
        if self.0.draining.load(Ordering::SeqCst)
            && let Some(other) = self.successor()
        {
            // Somebody may hold it already; else it is whoever comes after this one.
            let holder = store.holder(org, chat).await?.filter(|holder| **holder != *self.id());
            return Err(NotHeld::Elsewhere(holder.unwrap_or(other.id)));
        }
        self.join().await?;
        let mut claimed = store.claim(org, chat, &self.id(), self.home()).await?;
        if matches!(claimed, ChatClaim::Dead) {
            // It is found out here before the next beat.
            self.come_back().await;
            claimed = store.claim(org, chat, &self.id(), self.home()).await?;
        }
        match claimed {
            ChatClaim::Held { fence, moved } => {
                let was_lost = self.0.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                let moved = AtomicBool::new(moved || was_lost);
                let held = Arc::new(HeldChat { fence, used: Mutex::new(Instant::now()), moved });
                // Somebody may have asked at the same moment.
                let mut all = self.held();
                let known = all.get(&key).filter(|known| known.fence == held.fence).cloned();
                let held = known.unwrap_or(held);
                all.insert(key, Arc::clone(&held));
                Ok(Some(held))
            }
            ChatClaim::Elsewhere(node) => Err(NotHeld::Elsewhere(node)),
            ChatClaim::NoChat => Err(NotHeld::NoChat),
            ChatClaim::Dead => Err(StoreError::LeaseLost.into()),
        }
    }

    /// The other node that holds a chat.
    pub(crate) async fn holder_elsewhere(&self, org: &OrgId, chat: ChatId) -> Result<Option<String>, StoreError> {
        let Some(store) = &self.0.store else { return Ok(None) };
        if self.held().contains_key(&(org.clone(), chat)) {
            return Ok(None);
        }
        let me = self.id();
        Ok(store.holder(org, chat).await?.filter(|holder| **holder != *me))
    }

    /// A write as a chat's holder was refused: another one holds it, or this node is dead.
    pub(crate) fn lost_chat(&self, org: &OrgId, chat: ChatId, held: &HeldChat) {
        let key = (org.clone(), chat);
        let mut all = self.held();
        if all.get(&key).is_some_and(|known| known.fence == held.fence) {
            all.remove(&key);
            self.0.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        }
    }

    /// A chat is gone.
    pub(crate) fn forget_chat(&self, org: &OrgId, chat: ChatId) {
        self.held().remove(&(org.clone(), chat));
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(OrgId, ChatId), Arc<HeldChat>>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that nobody uses and that were used longest ago, if there are too many.
    fn too_many(&self) -> Vec<(OrgId, ChatId)> {
        let held = self.held();
        if held.len() <= MOST_HELD {
            return Vec::new();
        }
        let used = |chat: &HeldChat| *chat.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut idle: Vec<_> = held.iter().filter(|(_, chat)| Arc::strong_count(chat) == 1).collect();
        idle.sort_by_key(|(_, chat)| used(chat));
        idle.into_iter().take(MOST_HELD / 10).map(|(key, _)| key.clone()).collect()
    }
}
