//! The right to change one chat's workspace.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kitbag_cas::blobs::{BlobReader, Blobs};
use kitbag_cas::tree::{self, NodeError, NodeMap, Tree};
use kitbag_cas::workspace::{Snapshot, Workspace};
use kitbag_cas::{CasError, Change, Entry, care};
use kitbag_model::{ChatId, ContentHash, Manifest, ManifestId, MessageId, NewManifest, OrgId, Source, WorkPath};
use kitbag_store::{StoreError, WriteTx};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument;

use super::nodes::StoredNodes;
use super::{Slot, WorkspaceError, Workspaces, shared};
use crate::nodes::HeldChat;

/// What a collection forgot.
pub(crate) struct Collected {
    pub(crate) nodes: usize,
    pub(crate) blobs: u64,
    pub(crate) bytes: u64,
}

/// What a check found.
pub(crate) struct Checked {
    pub(crate) states: usize,
    pub(crate) nodes: usize,
    pub(crate) blobs: usize,
    pub(crate) problems: Vec<String>,
    pub(crate) mended: Vec<String>,
}

/// Held while a workspace is used. The next one waits until the last clone is gone.
///
/// One without a turn ([`Workspaces::look`] while a tool runs) only looks: its [`Lease::current`] is the state that was kept last.
///
/// Whatever has begun is done to its end, even if the caller goes away in the middle: between taking a state and keeping it,
/// the folder is known to be at a state that nobody has.
#[derive(Clone)]
pub(crate) struct Lease(pub(super) Arc<Held>);

pub(super) struct Held {
    pub(super) workspaces: Workspaces,
    pub(super) org: OrgId,
    pub(super) chat: ChatId,
    pub(super) slot: Arc<Slot>,
    right: Right,
}

/// What may be done.
pub(super) enum Right {
    /// Everything, as the chat's holder where there are several nodes.
    Change(#[allow(dead_code, reason = "it is held")] OwnedMutexGuard<()>, Option<Arc<HeldChat>>),
    /// Nothing but looking: a tool is at work.
    Look,
    /// The same: another node holds the chat, or nobody could find out.
    Elsewhere(WorkspaceError),
}

/// Does `work` to its end even if nobody waits for it any more. It is the task's at once: who waits holds only a handle.
pub(super) fn uncancelled<T: Send + 'static>(
    work: impl Future<Output = Result<T, WorkspaceError>> + Send + 'static,
) -> impl Future<Output = Result<T, WorkspaceError>> {
    let task = tokio::spawn(work.in_current_span());
    async move { task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) }
}

impl Lease {
    pub(super) fn new(workspaces: Workspaces, org: OrgId, chat: ChatId, slot: Arc<Slot>, right: Right) -> Self {
        Self(Arc::new(Held { workspaces, org, chat, slot, right }))
    }

    /// Whether it is the right to change the workspace, and not only to look.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self.0.right, Right::Change(..))
    }

    /// Whether that is so because of another node.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.0.right, Right::Elsewhere(_))
    }

    /// Why nothing may be changed.
    pub(super) fn why_not(&self) -> WorkspaceError {
        match &self.0.right {
            Right::Elsewhere(WorkspaceError::Elsewhere(node)) => WorkspaceError::Elsewhere(node.clone()),
            _ => WorkspaceError::Lost,
        }
    }

    /// A transaction that writes as the chat's holder: it is refused if that is another one by now.
    pub(crate) async fn write(&self) -> Result<WriteTx, WorkspaceError> {
        let Held { workspaces, org, chat, right, .. } = &*self.0;
        let mut tx = workspaces.store.write(org).await?;
        if let Right::Change(_, Some(held)) = right {
            match tx.hold_chat(*chat, held.fence()).await {
                Err(StoreError::LeaseLost) => {
                    workspaces.nodes.lost_chat(org, *chat, held);
                    return Err(WorkspaceError::Lost);
                }
                held => held?,
            }
        }
        Ok(tx)
    }

    /// Whether the folder must be made anew, whatever is known of it.
    pub(super) fn has_moved(&self) -> bool {
        matches!(&self.0.right, Right::Change(_, Some(held)) if held.has_moved())
    }

    /// It was.
    pub(super) fn has_arrived(&self) {
        if let Right::Change(_, Some(held)) = &self.0.right {
            held.has_arrived();
        }
    }

    /// The chat's active state; none before the first.
    pub(crate) async fn active(&self) -> Result<Option<Manifest>, WorkspaceError> {
        let mut tx = self.0.workspaces.store.read(&self.0.org).await?;
        let chat = tx.chat(self.0.chat).await?.ok_or(WorkspaceError::NoChat)?;
        match chat.active_manifest_id {
            Some(id) => Ok(tx.manifest(self.0.chat, id).await?),
            None => Ok(None),
        }
    }

    /// One state of the chat.
    pub(crate) async fn manifest(&self, id: ManifestId) -> Result<Manifest, WorkspaceError> {
        let found = self.0.workspaces.store.read(&self.0.org).await?.manifest(self.0.chat, id).await?;
        found.ok_or(WorkspaceError::NoManifest)
    }

    /// The same, and the generation that the chat's blobs are written into, where they are shared.
    pub(super) async fn active_in(&self) -> Result<(Option<Manifest>, Option<u64>), WorkspaceError> {
        let Held { workspaces, org, chat, .. } = &*self.0;
        // First: what is active after a generation began was not taken away when it did.
        let generation = match workspaces.storage.is_shared() {
            true => workspaces.store.read_beside(org).await?.blob_generation(*chat).await?,
            false => None,
        };
        Ok((self.active().await?, generation))
    }

    /// Makes sure that the folder is the active state, with what was changed in it since. The active state.
    pub(crate) async fn restore(&self) -> Result<Option<Manifest>, WorkspaceError> {
        let lease = self.clone();
        uncancelled(async move { lease.do_restore().await }).await
    }

    async fn do_restore(&self) -> Result<Option<Manifest>, WorkspaceError> {
        let (active, generation) = self.active_in().await?;
        let (root, moved) = (root_of(active.as_ref()), self.has_moved());
        if moved {
            self.alone().await;
        }
        self.work(move |workspace, nodes| restore(workspace, nodes, root, moved, generation)).await?;
        self.has_arrived();
        Ok(active)
    }

    /// Changes the folder.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Workspace) -> Result<T, CasError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        self.work(move |workspace, _| Ok(change(workspace)?)).await
    }

    /// Keeps what the folder is now, if it is not the active state. The active state from now on.
    pub(crate) async fn keep(
        &self,
        source: Source,
        source_ref: Option<String>,
    ) -> Result<Option<Manifest>, WorkspaceError> {
        let lease = self.clone();
        uncancelled(async move { lease.do_keep(source, source_ref).await }).await
    }

    /// Takes the state that the folder is in, which follows `before`.
    pub(super) async fn snapshot(&self, before: ContentHash) -> Result<Snapshot, WorkspaceError> {
        self.work(move |workspace, nodes| take(workspace, nodes, before)).await
    }

    async fn do_keep(&self, source: Source, source_ref: Option<String>) -> Result<Option<Manifest>, WorkspaceError> {
        let active = self.active().await?;
        let before = root_of(active.as_ref());
        let snapshot = self.snapshot(before).await?;
        self.keep_taken(active, &snapshot, source, source_ref).await
    }

    /// Keeps a state that was taken, if it is not the active one. The active state from now on.
    pub(super) async fn keep_taken(
        &self,
        active: Option<Manifest>,
        snapshot: &Snapshot,
        source: Source,
        source_ref: Option<String>,
    ) -> Result<Option<Manifest>, WorkspaceError> {
        let before = root_of(active.as_ref());
        if snapshot.tree.root == before {
            return Ok(active);
        }
        let new =
            NewManifest { parent: active.map(|manifest| manifest.id), root: snapshot.tree.root, source, source_ref };
        let kept = self.commit(&snapshot.tree, &new, snapshot.generation).await;
        match &kept {
            Ok(manifest) => self.tell(before, Some(manifest)).await,
            Err(_) => self.forget().await,
        }
        kept.map(Some)
    }

    /// Forgets a state that was taken and not kept: the nodes that later trees would be made from are not in the database. This asks nothing of
    /// the database, and so cannot fail: it may be away, which is why the state was not kept. What was remembered then would be named by the next
    /// state, without its nodes.
    pub(super) async fn forget(&self) {
        let lease = self.clone();
        let forgetting = tokio::task::spawn_blocking(move || {
            let mut open = lease.0.slot.workspace.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter_mut().for_each(Workspace::forget);
        });
        forgetting.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }

    async fn commit(
        &self,
        tree: &Tree,
        new: &NewManifest,
        generation: Option<u64>,
    ) -> Result<Manifest, WorkspaceError> {
        self.step("state taken")?;
        let mut tx = self.write().await?;
        self.hold_generation(&mut tx, generation).await?;
        tx.add_nodes(self.0.chat, &tree.new_nodes).await?;
        let manifest = tx.keep_manifest(self.0.chat, new).await?;
        self.step("state written")?;
        tx.commit_chat().await?;
        self.step("state kept")?;
        self.0.slot.nodes.add(&tree.new_nodes).map_err(CasError::from)?;
        self.arrived_at(new.root).await?;
        Ok(manifest)
    }

    /// Makes sure that nothing was collected since a state was taken that relies on what was there. Before anything else is written.
    pub(super) async fn hold_generation(
        &self,
        tx: &mut WriteTx,
        generation: Option<u64>,
    ) -> Result<(), WorkspaceError> {
        match generation {
            Some(generation) if !tx.hold_blob_generation(self.0.chat, generation).await? => {
                Err(WorkspaceError::Collected)
            }
            _ => Ok(()),
        }
    }

    /// Writes down which state the folder is at, where another server may bring the chat to the next one.
    pub(super) async fn arrived_at(&self, root: ContentHash) -> Result<(), WorkspaceError> {
        match self.0.workspaces.storage.is_shared() {
            true => self.change(move |workspace| workspace.comes_from(&root)).await,
            false => Ok(()),
        }
    }

    /// A fault point between the folder and the books.
    pub(super) fn step(&self, name: &'static str) -> Result<(), WorkspaceError> {
        let failed = |source| CasError::Io { path: self.0.workspaces.home(&self.0.org, self.0.chat), source };
        Ok(kitbag_cas::fault::step(name).map_err(failed)?)
    }

    /// Makes sure that the folder is the active state, and keeps what was changed in it by other means. The active state.
    pub(crate) async fn current(&self) -> Result<Option<Manifest>, WorkspaceError> {
        if !self.may_change() {
            return self.active().await;
        }
        self.restore().await?;
        self.keep(Source::Edit, None).await
    }

    /// Changes the folder and keeps what came of it. If that cannot be done, the folder goes back to the active state: what
    /// the caller was refused must not be in the way of everything that follows. [`Lease::current`] comes before.
    pub(crate) async fn edit<T: Send + 'static>(
        &self,
        source: Source,
        source_ref: Option<String>,
        change: impl FnOnce(&mut Workspace) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<(Option<Manifest>, T), WorkspaceError> {
        let lease = self.clone();
        uncancelled(async move {
            let active = lease.active().await?;
            let edited = match lease.work(|workspace, _| change(workspace)).await {
                Ok(done) => lease.keep(source, source_ref).await.map(|manifest| (manifest, done)),
                Err(error) => Err(error),
            };
            if edited.is_err() {
                lease.go_to(active.map_or_else(|| tree::empty().root, |manifest| manifest.root)).await?;
                lease.settle().await?;
            }
            edited
        })
        .await
    }

    /// Brings an earlier state back, as a new one that follows the active one. What was changed is kept first.
    pub(crate) async fn checkout(&self, target: &Manifest) -> Result<Manifest, WorkspaceError> {
        let (lease, target) = (self.clone(), target.clone());
        uncancelled(async move { lease.do_checkout(&target).await }).await
    }

    async fn do_checkout(&self, target: &Manifest) -> Result<Manifest, WorkspaceError> {
        self.alone().await;
        self.restore().await?;
        let active = self.keep(Source::Branch, None).await?;
        let active_root = active.as_ref().map_or_else(|| tree::empty().root, |manifest| manifest.root);
        let root = target.root;
        self.go_to(root).await?;
        let parent = active.map(|manifest| manifest.id);
        let new = NewManifest { parent, root, source: Source::Edit, source_ref: Some(target.id.to_string()) };
        // A state that was kept before relies on nothing new.
        let manifest = self.commit(&Tree { root, new_nodes: Vec::new() }, &new, None).await?;
        self.settle().await?;
        self.tell(active_root, Some(&manifest)).await;
        Ok(manifest)
    }

    /// Makes a message the one that the chat stands at, and the folder its state. What was changed is kept first, with the
    /// message that the chat stood at.
    pub(crate) async fn switch(&self, message: MessageId) -> Result<(), WorkspaceError> {
        let lease = self.clone();
        uncancelled(async move { lease.do_switch(message).await }).await
    }

    async fn do_switch(&self, message: MessageId) -> Result<(), WorkspaceError> {
        self.alone().await;
        self.restore().await?;
        let left = self.keep(Source::Branch, None).await?;
        let mut tx = self.0.workspaces.store.read(&self.0.org).await?;
        let target = match tx.manifest_of_message(self.0.chat, message).await? {
            Some(id) => Some(tx.manifest(self.0.chat, id).await?.ok_or(WorkspaceError::NoManifest)?),
            None => None,
        };
        let root = target.as_ref().map_or_else(|| tree::empty().root, |manifest| manifest.root);
        drop(tx);
        self.go_to(root).await?;
        let mut tx = self.write().await?;
        tx.set_active_leaf(self.0.chat, message).await?;
        self.step("switch written")?;
        tx.commit().await?;
        self.step("switch kept")?;
        self.settle().await?;
        self.arrived_at(root).await?;
        self.tell(left.map_or_else(|| tree::empty().root, |manifest| manifest.root), target.as_ref()).await;
        Ok(())
    }

    /// Ends what stays in containers and works in the folder: its files are about to be exchanged, and what was not kept by then is lost.
    pub(super) async fn alone(&self) {
        if let Some(containers) = self.0.workspaces.containers.get() {
            containers.end_chat(&self.0.org, self.0.chat).await;
        }
    }

    /// Makes the folder be a state. Until [`Lease::settle`] it counts as torn: if the database is not told, the folder goes
    /// back to what the database says.
    pub(super) async fn go_to(&self, root: ContentHash) -> Result<(), WorkspaceError> {
        self.alone().await;
        self.work(move |workspace, nodes| Ok(workspace.materialise(&root, nodes).map(drop)?)).await
    }

    pub(super) async fn settle(&self) -> Result<(), WorkspaceError> {
        self.change(|workspace| workspace.settle()).await
    }

    /// Everything in a state.
    pub(crate) async fn entries(&self, root: ContentHash) -> Result<Vec<(WorkPath, Entry)>, WorkspaceError> {
        self.work(move |_, nodes| Ok(tree::entries(&root, nodes).map_err(CasError::from)?)).await
    }

    /// One entry of a state.
    pub(crate) async fn find(&self, root: ContentHash, path: WorkPath) -> Result<Option<Entry>, WorkspaceError> {
        self.work(move |_, nodes| Ok(tree::find(&root, path.as_str(), nodes).map_err(CasError::from)?)).await
    }

    /// What differs between two states.
    pub(crate) async fn diff(&self, from: ContentHash, to: ContentHash) -> Result<Vec<Change>, WorkspaceError> {
        self.work(move |_, nodes| Ok(tree::diff(&from, &to, nodes).map_err(CasError::from)?)).await
    }

    /// All blobs of the chat.
    pub(crate) async fn blobs(&self) -> Result<Arc<dyn Blobs>, WorkspaceError> {
        self.work(|workspace, _| Ok(Arc::clone(workspace.blobs()))).await
    }

    /// A blob, to be read in parts. It can be read even when the lease is over.
    pub(crate) async fn open(&self, hash: ContentHash) -> Result<Box<dyn BlobReader>, WorkspaceError> {
        self.work(move |workspace, _| Ok(workspace.blobs().open(&hash)?)).await
    }

    /// The bytes of a blob.
    pub(crate) async fn read(&self, hash: ContentHash) -> Result<Vec<u8>, WorkspaceError> {
        self.work(move |workspace, _| Ok(workspace.blobs().read(&hash)?)).await
    }

    /// Forgets what no state needs any more and is older than `grace`. Nobody else writes meanwhile: that is the lease.
    pub(crate) async fn collect(&self, grace: Duration) -> Result<Collected, WorkspaceError> {
        let lease = self.clone();
        uncancelled(async move { lease.do_collect(grace).await }).await
    }

    async fn do_collect(&self, grace: Duration) -> Result<Collected, WorkspaceError> {
        if self.0.workspaces.storage.is_shared() {
            return self.collect_shared(grace).await;
        }
        let mut tx = self.0.workspaces.store.read(&self.0.org).await?;
        tx.chat(self.0.chat).await?.ok_or(WorkspaceError::NoChat)?;
        let roots = tx.manifest_roots(self.0.chat).await?;
        let kept = tx.nodes(self.0.chat).await?;
        let mut besides = tx.call_blobs(self.0.chat).await?;
        besides.extend(tx.run_blobs(self.0.chat).await?);
        drop(tx);
        let marking = self.work(move |_, nodes| {
            let mut needed = care::needed(&roots, nodes);
            match needed.problems.pop() {
                // What is below a missing node is not known, so nothing can be said to be unneeded.
                Some(problem) => Err(CasError::from(problem).into()),
                None => Ok(needed),
            }
        });
        let needed = marking.await?;
        let dead: Vec<ContentHash> =
            kept.iter().map(|(hash, _)| *hash).filter(|hash| !needed.nodes.contains(hash)).collect();
        let mut tx = self.write().await?;
        tx.sweep_nodes(self.0.chat, &dead).await?;
        self.step("nodes swept")?;
        tx.commit().await?;
        self.step("nodes gone")?;
        let mut blobs = needed.blobs;
        blobs.extend(besides);
        let swept = self.change(move |workspace| workspace.sweep(&|hash| blobs.contains(hash), grace)).await?;
        Ok(Collected { nodes: dead.len(), blobs: swept.blobs, bytes: swept.bytes })
    }

    /// Looks whether everything that the states need is there and whole, and mends what the folder still has.
    pub(crate) async fn check(&self) -> Result<Checked, WorkspaceError> {
        let mut tx = self.0.workspaces.store.read(&self.0.org).await?;
        tx.chat(self.0.chat).await?.ok_or(WorkspaceError::NoChat)?;
        let roots = tx.manifest_roots(self.0.chat).await?;
        let mut besides = tx.call_blobs(self.0.chat).await?;
        besides.extend(tx.run_blobs(self.0.chat).await?);
        drop(tx);
        let states = roots.len();
        self.work(move |workspace, nodes| {
            // Not what is remembered: what is kept.
            let forgetful = NodeMap::default();
            let kept = nodes.with(&forgetful);
            let mut needed = care::needed(&roots, &kept);
            // A database that is away says nothing about the states.
            if let Some(unread) = needed.problems.iter().find(|problem| matches!(problem, NodeError::Unreadable { .. }))
            {
                return Err(kept.explain(CasError::from(unread.clone()).into()));
            }
            needed.blobs.extend(besides);
            let mut problems: Vec<String> = needed.problems.iter().map(ToString::to_string).collect();
            let mut mended = Vec::new();
            for hash in care::check_blobs(&needed.blobs, &**workspace.blobs())? {
                match workspace.mend(&hash)? {
                    true => mended.push(hash.to_string()),
                    false => problems.push(format!("the blob {hash} is missing or damaged")),
                }
            }
            Ok(Checked { states, nodes: needed.nodes.len(), blobs: needed.blobs.len(), problems, mended })
        })
        .await
    }

    /// Works beside the workspace on a thread that may block.
    pub(super) async fn with_home(
        &self,
        work: impl FnOnce(&Path) -> Result<(), CasError> + Send + 'static,
    ) -> Result<(), WorkspaceError> {
        let lease = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&lease.0.workspaces.home(&lease.0.org, lease.0.chat)));
        Ok(done.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?)
    }

    /// Works with the folder on a thread that may block.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Workspace, &StoredNodes<'_>) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let lease = self.clone();
        let (_, quota) = self.0.workspaces.metered(&self.0.org).await?;
        let runtime = Handle::current();
        let done = tokio::task::spawn_blocking(move || {
            let Held { workspaces, org, chat, slot, .. } = &*lease.0;
            let mut open = slot.workspace.lock().unwrap_or_else(PoisonError::into_inner);
            slot.nodes.add(&tree::empty().new_nodes).map_err(CasError::from)?;
            let nodes = StoredNodes::new(&workspaces.store, (org, *chat), &slot.nodes, runtime);
            let workspace = match &mut *open {
                Some(workspace) => workspace,
                closed => closed.insert(shared::open(workspaces, org, *chat, &nodes)?),
            };
            work(workspace, &nodes).map_err(|error| nodes.explain(error))
        });
        let done = done.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        done.map_err(|error| error.of_quota(quota.as_ref()))
    }
}

pub(super) fn root_of(manifest: Option<&Manifest>) -> ContentHash {
    manifest.map_or_else(|| tree::empty().root, |manifest| manifest.root)
}

/// Makes the folder be a state, if it is known to be another or none.
pub(super) fn restore(
    workspace: &mut Workspace,
    nodes: &StoredNodes<'_>,
    root: ContentHash,
    moved: bool,
    generation: Option<u64>,
) -> Result<(), WorkspaceError> {
    if let Some(generation) = generation {
        shared::follow(workspace, nodes, root, generation);
    }
    let elsewhere = match workspace.known_state() {
        Some(known) => known != root,
        // What is in it came from that state, or another server has brought the chat to this one since.
        None => generation.is_some() && workspace.came_from().unwrap_or_else(|| tree::empty().root) != root,
    };
    if moved || workspace.is_torn()? || elsewhere {
        workspace.materialise(&root, nodes)?;
        workspace.settle()?;
    }
    if generation.is_some() {
        workspace.comes_from(&root)?;
    }
    Ok(())
}

/// Takes the state that the folder is in, which follows `before`.
pub(super) fn take(
    workspace: &mut Workspace,
    nodes: &StoredNodes<'_>,
    before: ContentHash,
) -> Result<Snapshot, WorkspaceError> {
    match workspace.snapshot(nodes) {
        Err(CasError::Limit { .. }) => {
            // Perhaps nothing was added, and the limits were higher when the active state was kept.
            let kept = tree::entries(&before, nodes).map_err(CasError::from)?;
            workspace.had(kept.iter().map(|(_, entry)| entry.size));
            Ok(workspace.snapshot(nodes)?)
        }
        taken => Ok(taken?),
    }
}
