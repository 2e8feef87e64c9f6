//! That the end of a call is recorded, however long the database is away, and what it names kept, though the bucket may be away for a while. It is kept in memory until then, together with the call's place
//! in the queue, which bounds how much that can be, and with its chat's lease, so that nothing comes in between.
//!
//! Whoever waits for the call need not wait for as long: after a while they are told that its end is not known yet.

use std::sync::Arc;
use std::time::Duration;

use kitbag_cas::CasError;
use kitbag_model::{CallError, CallErrorCode, ChatId, ContentHash, OrgId, ToolCallId};
use kitbag_store::StoreError;
use tokio::time::{Instant, sleep};

use super::Calls;
use super::live::Live;
use super::plan::BlobsOf;
use super::run::RunError;
use crate::workspaces::WorkspaceError;

/// So often something is tried whose failure is nobody's absence. It may still pass.
const TRIES: u32 = 10;

/// How long is waited before it is tried again. The database may be away for a moment, and many calls may wait for it, each with a folder to look at.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// So long a record may still come that was about to be written when the connection was lost.
const STILL: Duration = Duration::from_secs(60);

/// The most calls of which it may be unknown whether they were recorded. More of them are found by their record when this server ends.
const MOST_DOUBTS: usize = 10_000;

impl Calls {
    /// Records something of a call's end, however often that must be tried.
    pub(super) async fn until_recorded<T, F>(&self, live: &Live, mut record: impl FnMut() -> F) -> Result<T, RunError>
    where
        F: Future<Output = Result<T, RunError>>,
    {
        let (begun, mut tries, mut pause) = (Instant::now(), 0, FIRST_PAUSE);
        loop {
            let error = match record().await {
                Err(error) if error.is_an_absence() || (error.may_pass() && tries < TRIES) => error,
                // A bucket may be away for longer than a call's place may be held: nothing bounds what would wait for it here.
                Err(error) if error.is_of_the_bucket() && begun.elapsed() < self.0.nodes.patience() => error,
                done => return done,
            };
            tries += 1;
            let call = live.key.2;
            if begun.elapsed() > self.0.nodes.patience() && live.is_late() {
                tracing::warn!(%error, %call, "the end of a call is kept until it can be recorded; nobody waits for it any more");
            } else {
                tracing::warn!(%error, %call, "the end of a call could not be recorded; trying again");
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Keeps bytes of a call's end that its record names. The tool is done, perhaps with something that nobody takes back: its answer is not
    /// dropped because the bucket is away for a moment.
    pub(super) async fn keep_bytes(
        &self,
        live: &Live,
        blobs: &BlobsOf<'_>,
        hash: ContentHash,
        bytes: Vec<u8>,
    ) -> Result<(), RunError> {
        let bytes = Arc::new(bytes);
        self.until_recorded(live, || async { Ok(blobs.put(hash, Arc::clone(&bytes)).await?) }).await
    }

    /// Nobody knows whether a call was recorded: the database went away while it was. It does not run.
    pub(super) fn doubt(&self, org: &OrgId, chat: ChatId, id: ToolCallId) {
        let mut doubts = self.doubts();
        if doubts.len() < MOST_DOUBTS {
            doubts.insert((org.clone(), chat, id), Instant::now());
        }
    }

    /// Ends the calls that turn out to be recorded, and that nothing runs.
    pub(crate) async fn settle_doubts(&self) {
        let doubted: Vec<_> = self.doubts().iter().map(|(key, since)| (key.clone(), *since)).collect();
        let why =
            CallError::new(CallErrorCode::Interrupted, "the database went away when it was asked for; it did not run");
        for (key, since) in doubted {
            let (org, chat, id) = &key;
            match self.end_unbegun(org, *chat, *id, &why).await {
                Ok(()) if since.elapsed() > STILL => drop(self.doubts().remove(&key)),
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "it is not known yet whether some calls were recorded");
                    return;
                }
            }
        }
    }

    /// Ends what this server could not end in time, when it stops. Whether nothing is left that would run for ever in the records.
    pub(crate) async fn end_the_rest(&self) -> bool {
        let mut orgs: Vec<OrgId> = self.doubts().keys().map(|(org, ..)| org.clone()).collect();
        orgs.extend(self.0.lives.all(|_| true).iter().map(|live| live.key.0.clone()));
        orgs.sort();
        orgs.dedup();
        for org in orgs {
            if let Err(error) = self.cut_off_of(&org, &self.0.nodes.id()).await {
                tracing::warn!(%error, %org, "calls that this server ran could not be ended; who finds it gone ends them");
                return false;
            }
        }
        true
    }
}

impl RunError {
    /// Whether the database is away, or has no room: then nothing is lost by trying again.
    fn is_an_absence(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Unavailable(_) | StoreError::Full)
                | Self::Workspace(WorkspaceError::Store(StoreError::Unavailable(_) | StoreError::Full))
        )
    }

    /// Whether the store that has the bytes is away.
    fn is_of_the_bucket(&self) -> bool {
        matches!(self, Self::Workspace(WorkspaceError::Cas(CasError::Distant { .. })))
    }

    /// Whether trying again may help. Not if somebody else has the chat.
    fn may_pass(&self) -> bool {
        if let Self::Workspace(WorkspaceError::Collected) = self {
            return true;
        }
        let store = match self {
            Self::Store(error) | Self::Workspace(WorkspaceError::Store(error)) => error,
            _ => return false,
        };
        !matches!(store, StoreError::LeaseLost)
    }
}
