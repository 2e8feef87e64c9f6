//! What a tool call does to a workspace: it holds it, and what it left is kept together with the call's own record.

use std::path::PathBuf;
use std::sync::Arc;

use kitbag_cas::workspace::Snapshot;
use kitbag_cas::{CasError, Change, tree};
use kitbag_model::{
    CallError, CallErrorCode, CallOutcome, ContentHash, Manifest, MessageId, NewManifest, Source, ToolCall, ToolCallId,
};
use kitbag_store::FinishError;

use super::lease::{restore, root_of, take, uncancelled};
use super::{Lease, WorkspaceError};
use crate::events::WorkspaceChange;

/// So many files that could not be kept are named in a call's record.
const MOST_WARNINGS: usize = 50;

/// Says who holds a workspace, for as long as it lives.
pub(crate) struct Holding(Lease);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.0.slot.holder.send_replace(None);
    }
}

/// So often a state is taken in a row that a collection came in between of. A server that slept collects when it wakes, whoever has the chat by then.
const TAKES: u32 = 5;

/// The state that a folder is in, if it was ever kept, and where the folder is.
type Ready = (Option<Manifest>, PathBuf);

impl Lease {
    /// Makes the folder ready for a call that belongs to a message: it is the active state, and what was changed in it by other
    /// means is kept. That state, and where the folder is; none if the chat went to another branch than the message's.
    pub(crate) async fn ready_for(&self, message: MessageId) -> Result<Option<Ready>, WorkspaceError> {
        let lease = self.clone();
        uncancelled(async move {
            for _ in 1..TAKES {
                match lease.do_ready_for(message).await {
                    Err(WorkspaceError::Collected) => {}
                    done => return done,
                }
            }
            lease.do_ready_for(message).await
        })
        .await
    }

    /// Every call waits for this, so it asks the database once and the disk once.
    async fn do_ready_for(&self, message: MessageId) -> Result<Option<Ready>, WorkspaceError> {
        let mut tx = self.0.workspaces.store.read(&self.0.org).await?;
        let generation = match self.0.workspaces.storage.is_shared() {
            true => tx.blob_generation(self.0.chat).await?,
            false => None,
        };
        let chat = tx.chat(self.0.chat).await?.ok_or(WorkspaceError::NoChat)?;
        if !tx.is_on_active_line(self.0.chat, message).await? {
            return Ok(None);
        }
        let active = match chat.active_manifest_id {
            Some(id) => tx.manifest(self.0.chat, id).await?,
            None => None,
        };
        drop(tx);
        let (root, moved) = (root_of(active.as_ref()), self.has_moved());
        if moved {
            self.alone().await;
        }
        let looked = self.work(move |workspace, nodes| {
            restore(workspace, nodes, root, moved, generation)?;
            workspace.open_up()?;
            Ok((take(workspace, nodes, root)?, workspace.path().to_owned()))
        });
        let (snapshot, folder) = looked.await?;
        self.has_arrived();
        Ok(Some((self.keep_taken(active, &snapshot, Source::Edit, None).await?, folder)))
    }

    /// From now on whoever wants to change something hears which call is at work.
    pub(crate) fn hold_for(&self, call: ToolCallId) -> Holding {
        self.0.slot.holder.send_replace(Some(call));
        Holding(self.clone())
    }

    /// The call that is at work.
    pub(super) fn holder(&self) -> Option<ToolCallId> {
        *self.0.slot.holder.borrow()
    }

    /// Keeps bytes that no state has, durably. Only what names them keeps them from being collected.
    pub(crate) async fn put_blob(&self, hash: ContentHash, bytes: Arc<Vec<u8>>) -> Result<(), WorkspaceError> {
        self.work_in_now(move |workspace, _| {
            let writer = workspace.blobs().writer()?;
            writer.put(&hash, &bytes)?;
            Ok(writer.finish().map(drop)?)
        })
        .await
    }

    /// Records the end of a call together with the state that it left, whatever came of it. If the workspace holds too much now,
    /// the call failed for that reason, and the folder goes back to what it was.
    pub(crate) async fn finish_call(
        &self,
        id: ToolCallId,
        pre: Option<&Manifest>,
        outcome: CallOutcome,
    ) -> Result<ToolCall, WorkspaceError> {
        let (lease, pre) = (self.clone(), pre.cloned());
        uncancelled(async move { lease.do_finish(id, pre, outcome).await }).await
    }

    async fn do_finish(
        &self,
        id: ToolCallId,
        pre: Option<Manifest>,
        mut outcome: CallOutcome,
    ) -> Result<ToolCall, WorkspaceError> {
        let before = pre.as_ref().map_or_else(|| tree::empty().root, |manifest| manifest.root);
        let pre_id = pre.as_ref().map(|manifest| manifest.id);
        (outcome.pre_manifest_id, outcome.post_manifest_id) = (pre_id, pre_id);
        let snapshot = match self.snapshot(before).await {
            Ok(snapshot) => Some(snapshot),
            Err(error @ (WorkspaceError::Cas(CasError::Limit { .. }) | WorkspaceError::NoRoom(_))) => {
                self.go_to(before).await?;
                self.settle().await?;
                let message = format!("{error}; the workspace is as it was before the call");
                outcome.error = Some(CallError::new(CallErrorCode::QuotaExceeded, message));
                (outcome.result, outcome.render_plan) = (None, None);
                (outcome.result_sha256, outcome.artifact_sha256) = (None, None);
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(snapshot) = &snapshot {
            outcome.warnings.extend(warnings(snapshot));
        }
        let new = snapshot.as_ref().filter(|snapshot| snapshot.tree.root != before).map(|snapshot| NewManifest {
            parent: pre_id,
            root: snapshot.tree.root,
            source: Source::ToolRun,
            source_ref: Some(id.to_string()),
        });
        let recorded = self.record(id, &outcome, snapshot.as_ref(), new.as_ref()).await;
        match &recorded {
            Ok((_, Some(manifest))) => self.tell(before, Some(manifest)).await,
            Ok(_) => {}
            Err(error) => {
                self.forget().await;
                // It is tried again, and brings then what is relied on.
                if matches!(error, WorkspaceError::Collected) {
                    self.work_in_now(|_, _| Ok(())).await?;
                }
            }
        }
        recorded.map(|(call, _)| call)
    }

    async fn record(
        &self,
        id: ToolCallId,
        outcome: &CallOutcome,
        snapshot: Option<&Snapshot>,
        new: Option<&NewManifest>,
    ) -> Result<(ToolCall, Option<Manifest>), WorkspaceError> {
        self.step("state taken")?;
        let nodes = snapshot.filter(|_| new.is_some()).map_or(&[][..], |snapshot| &snapshot.tree.new_nodes);
        let mut tx = self.write().await?;
        self.hold_generation(&mut tx, snapshot.and_then(|snapshot| snapshot.generation)).await?;
        tx.add_nodes(self.0.chat, nodes).await?;
        let (call, manifest) = tx.finish_call(self.0.chat, id, outcome, new).await.map_err(|error| match error {
            // Somebody else said that it is over.
            FinishError::NotRunning => WorkspaceError::Conflict,
            FinishError::Keep(error) => error.into(),
            FinishError::Store(error) => error.into(),
        })?;
        self.step("state written")?;
        tx.commit_chat().await?;
        self.step("state kept")?;
        self.0.slot.nodes.add(nodes).map_err(CasError::from)?;
        if let Some(new) = new {
            self.arrived_at(new.root).await?;
        }
        Ok((call, manifest))
    }

    /// Tells whoever listens what is other than before. What cannot be found out is not worth failing for.
    pub(super) async fn tell(&self, before: ContentHash, manifest: Option<&Manifest>) {
        let events = &self.0.workspaces.events;
        let root = manifest.map_or_else(|| tree::empty().root, |manifest| manifest.root);
        if !events.has_listeners() || before == root {
            return;
        }
        let Ok(changes) = self.diff(before, root).await else { return };
        let paths = |gone: bool| {
            let wanted = changes.iter().filter(|change: &&Change| change.after.is_none() == gone);
            wanted.map(|change| change.path.to_string()).collect()
        };
        let change = WorkspaceChange {
            manifest: manifest.map(|manifest| manifest.id.to_string()),
            changed: paths(false),
            deleted: paths(true),
            source: manifest.map_or("branch", |manifest| manifest.source.as_str()).to_owned(),
            source_ref: manifest.and_then(|manifest| manifest.source_ref.clone()),
        };
        events.workspace_changed(&self.0.org, self.0.chat, &change);
    }
}

fn warnings(snapshot: &Snapshot) -> Vec<String> {
    let mut said: Vec<String> = snapshot
        .warnings
        .iter()
        .take(MOST_WARNINGS)
        .map(|warning| format!("{} was not kept: {}", warning.path, warning.reason))
        .collect();
    if let Some(more) = snapshot.warnings.len().checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
        said.push(format!("{more} more files were not kept"));
    }
    said
}
