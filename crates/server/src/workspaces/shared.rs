//! Workspaces whose blobs several servers share: which generation of them is written into, and how a collection begins the next
//! (docs/decisions/bytes-in-a-bucket.md).

use std::collections::HashSet;
use std::time::Duration;

use kitbag_cas::care::{self, Needed};
use kitbag_cas::tree::{self, NodeMap};
use kitbag_cas::workspace::Workspace;
use kitbag_cas::{CasError, Nodes};
use kitbag_model::{ChatId, ContentHash, OrgId};
use kitbag_store::StoreError;

use super::lease::{Collected, root_of};
use super::meter::Meter;
use super::nodes::StoredNodes;
use super::{Lease, WorkspaceError, Workspaces};

/// Opens a chat's workspace. Where its blobs are shared, it is known from the first which of them can be relied on.
pub(super) fn open(
    workspaces: &Workspaces,
    org: &OrgId,
    chat: ChatId,
    nodes: &StoredNodes<'_>,
) -> Result<Workspace, WorkspaceError> {
    if !workspaces.storage.is_shared() {
        return workspaces.open_workspace(org, chat, 0);
    }
    let read = async {
        let mut tx = workspaces.store.read_beside(org).await?;
        let generation = tx.blob_generation(chat).await?.unwrap_or_default();
        let active = tx.chat(chat).await?.and_then(|chat| chat.active_manifest_id);
        let root = match active {
            Some(id) => tx.manifest(chat, id).await?.map(|manifest| manifest.root),
            None => None,
        };
        Ok::<_, StoreError>((generation, root))
    };
    let (generation, root) = nodes.runtime.block_on(read)?;
    let mut workspace = workspaces.open_workspace(org, chat, generation)?;
    // What the files held when this server stopped may have been collected by another one since.
    if workspace.saved_in() != Some(generation) {
        workspace.forget_files();
    }
    workspace.blobs().enter(generation, kept(root.unwrap_or_else(|| tree::empty().root), nodes));
    Ok(workspace)
}

/// Writes into another generation if a collection began it. What the folder's files hold is read again: it may be gone. Who read the
/// number earlier and comes later changes nothing.
pub(super) fn follow(workspace: &mut Workspace, nodes: &impl Nodes, root: ContentHash, generation: u64) {
    if workspace.blobs().generation() < Some(generation) {
        workspace.forget_files();
        workspace.blobs().enter(generation, kept(root, nodes));
    }
}

/// What a state has: as long as it is there, its blobs are.
fn kept(root: ContentHash, nodes: &impl Nodes) -> HashSet<ContentHash> {
    care::needed(&[root], nodes).blobs
}

impl Lease {
    /// Works with the blobs as they are now, wherever they were collected last. For whoever keeps some that no state has, or relies on
    /// such, and has not restored the folder: any node does that, and only the chat's holder hears of a collection by itself.
    pub(super) async fn work_in_now<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Workspace, &StoredNodes<'_>) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        if !self.0.workspaces.storage.is_shared() {
            return self.work(work).await;
        }
        let (active, generation) = self.active_in().await?;
        let root = root_of(active.as_ref());
        self.work(move |workspace, nodes| {
            if let Some(generation) = generation {
                follow(workspace, nodes, root, generation);
            }
            work(workspace, nodes)
        })
        .await
    }

    /// The collection of what several servers share. Everything about rows is one transaction, which those wait for who would keep a
    /// state, and which begins a new generation: they then notice that what they relied on may be gone.
    pub(super) async fn collect_shared(&self, grace: Duration) -> Result<Collected, WorkspaceError> {
        let (org, chat) = (&self.0.org, self.0.chat);
        let mut tx = self.0.workspaces.store.write(org).await?;
        let generation = tx.next_blob_generation(chat).await?.ok_or(WorkspaceError::NoChat)?;
        let roots = tx.manifest_roots(chat).await?;
        let kept = tx.nodes(chat).await?;
        let mut besides = tx.call_blobs(chat).await?;
        besides.extend(tx.run_blobs(chat).await?);
        let (kept, needed) = marked(kept, roots).await?;
        let dead: Vec<ContentHash> = kept.into_iter().filter(|hash| !needed.nodes.contains(hash)).collect();
        tx.sweep_nodes(chat, &dead).await?;
        self.step("nodes swept")?;
        tx.commit().await?;
        self.step("nodes gone")?;
        let mut blobs = needed.blobs;
        blobs.extend(besides);
        let has_moved = self.has_moved();
        let swept = self.change(move |workspace| {
            // Another node may have collected since the files were read: what they hold is no proof that it is there.
            if has_moved || workspace.blobs().generation() != generation.checked_sub(1) {
                workspace.forget_files();
            }
            // What the folder's files hold stays, too, so they need not be read again; but only what is there can.
            let known: HashSet<ContentHash> = workspace.known_contents().collect();
            if !known.is_empty() {
                blobs.extend(workspace.blobs().list()?.into_iter().filter(|hash| known.contains(hash)));
            }
            workspace.blobs().enter(generation, blobs.clone());
            workspace.sweep(&|hash| blobs.contains(hash), grace)
        });
        let swept = swept.await?;
        Ok(Collected { nodes: dead.len(), blobs: swept.blobs, bytes: swept.bytes })
    }

    /// Removes what the bucket has of the chat, if there is one.
    pub(super) async fn remove_shared(&self, meter: &Meter) -> Result<(), CasError> {
        let Some(place) = self.0.workspaces.storage.chat(&self.0.org, self.0.chat) else { return Ok(()) };
        let there = place.list().await?;
        place.remove_keys(there.iter().map(|object| object.key.clone()).collect()).await?;
        meter.give_back(there.iter().map(|object| object.size).sum());
        Ok(())
    }
}

/// Which nodes there are, and what these states need of them.
async fn marked(
    kept: Vec<(ContentHash, Vec<u8>)>,
    roots: Vec<ContentHash>,
) -> Result<(Vec<ContentHash>, Needed), WorkspaceError> {
    let marking = tokio::task::spawn_blocking(move || {
        let nodes = NodeMap::default();
        nodes.add(&tree::empty().new_nodes).and_then(|()| nodes.add(&kept)).map_err(CasError::from)?;
        let mut needed = care::needed(&roots, &nodes);
        match needed.problems.pop() {
            // What is below a missing node is not known, so nothing can be said to be unneeded.
            Some(problem) => Err(CasError::from(problem)),
            None => Ok((kept.into_iter().map(|(hash, _)| hash).collect(), needed)),
        }
    });
    let marked = marking.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    Ok(marked?)
}
