//! Workspaces that are laid out here though nobody uses them, while a bucket has all that is in them: those that were used longest ago are cleared, until
//! they take no more than they may together. Who uses one again has it laid out anew. Without a bucket the folder is what people look at, and stays.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kitbag_cas::laid;
use kitbag_cas::workspace::Workspace;
use kitbag_model::{ChatId, OrgId};
use tokio::time::sleep;

use super::lease::{Right, uncancelled};
use super::{Lease, Slot, WorkspaceError, Workspaces};
use crate::app::App;
use crate::nodes::NotHeld;

/// So often it is looked.
const EVERY: Duration = Duration::from_secs(60);

/// Of the most that there may be, so much is left after some had to go.
const AFTERWARDS: (u64, u64) = (9, 10);

/// What is laid out here, as far as it was looked at.
#[derive(Default)]
pub(super) struct LaidOut {
    /// By their folders. One that nobody used since takes what it took.
    known: Mutex<HashMap<PathBuf, Laid>>,
    taken: AtomicU64,
}

/// A workspace that is laid out.
#[derive(Clone, Debug)]
struct Laid {
    chat: (OrgId, ChatId),
    used: SystemTime,
    bytes: u64,
}

impl App {
    /// Clears workspaces whenever there are too many.
    pub(crate) async fn shed_for_ever(self) {
        while self.workspaces().storage.is_shared() {
            self.shed().await;
            sleep(EVERY).await;
        }
    }

    async fn shed(&self) {
        let most = self.settings().blobs.workspace_bytes;
        let mut laid = self.workspaces().laid_out().await;
        let mut taken: u64 = laid.iter().map(|one| one.bytes).sum();
        if taken > most {
            laid.sort_by_key(|one| one.used);
            for Laid { chat: (org, chat), bytes, .. } in laid.into_iter().filter(|one| one.bytes > 0) {
                if taken <= most / AFTERWARDS.1 * AFTERWARDS.0 || self.is_draining() {
                    break;
                }
                // What runs in it goes on.
                if !self.workers().processes(&org, chat).await.is_empty() || self.containers().stay_for(&org, chat) {
                    continue;
                }
                match self.workspaces().clear_out(&org, chat).await {
                    Ok(true) => taken -= bytes,
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, %chat, "a workspace that nobody uses could not be cleared"),
                }
            }
        }
        self.workspaces().laid.taken.store(taken, Ordering::Relaxed);
    }
}

impl Workspaces {
    /// How many bytes the workspaces take that are laid out here, as far as that was measured.
    pub(crate) fn laid_out_bytes(&self) -> u64 {
        self.laid.taken.load(Ordering::Relaxed)
    }

    /// All that are laid out here.
    async fn laid_out(&self) -> Vec<Laid> {
        let workspaces = self.clone();
        let looking = tokio::task::spawn_blocking(move || workspaces.look_around());
        looking.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn look_around(&self) -> Vec<Laid> {
        let mut known = self.laid.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = HashMap::new();
        for org in self.orgs_here() {
            for (home, used) in laid::chats(&self.homes(&org)) {
                let Some(id) = home.file_name().and_then(|name| name.to_str()?.parse::<ChatId>().ok()) else {
                    continue;
                };
                let chat = (org.clone(), id);
                // Files say when it was opened and closed, and not what happened in between.
                let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&chat).map(|slot| slot.used());
                let used = open.map_or(used, |open| used.max(open));
                let bytes = match known.get(&home) {
                    Some(known) if known.used == used => known.bytes,
                    _ => laid::size(&home),
                };
                found.insert(home, Laid { chat, used, bytes });
            }
        }
        *known = found;
        known.values().cloned().collect()
    }

    /// Removes what is laid out of a chat, unless somebody uses it. What was changed in it and not kept is kept first. Whether it is gone.
    async fn clear_out(&self, org: &OrgId, chat: ChatId) -> Result<bool, WorkspaceError> {
        let slot = self.slot(org, chat);
        let Ok(turn) = Arc::clone(&slot.turn).try_lock_owned() else { return Ok(false) };
        let held = match self.nodes.hold(org, chat).await {
            Ok(held) => held,
            // What is here is behind, and would be made anew. Nobody does so before the turn is given back.
            Err(NotHeld::Elsewhere(_)) => None,
            // Whoever deletes it removes all of it.
            Err(NotHeld::NoChat) => return Ok(false),
            Err(NotHeld::Store(error)) => return Err(error.into()),
        };
        let is_ours = held.is_some();
        let lease = Lease::new(self.clone(), org.clone(), chat, Arc::clone(&slot), Right::Change(turn, held));
        uncancelled(async move {
            let is_torn = lease.work(|workspace, _| Ok(workspace.is_torn()?)).await?;
            if is_ours && !lease.has_moved() && !is_torn {
                lease.current().await?;
            }
            lease.alone().await;
            lease.change(Workspace::clear_out).await?;
            // What is open knows the files, and listens to them.
            *slot.workspace.lock().unwrap_or_else(PoisonError::into_inner) = None;
            Ok(true)
        })
        .await
    }
}

impl Slot {
    fn used(&self) -> SystemTime {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
