//! What happens to calls by the clock: those that a crash cut off end at the next start, those that nobody decides about end in
//! time.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use kitbag_model::{CallError, CallErrorCode, CallStatus, OrgId, Timestamp};
use kitbag_store::StoreError;

use super::Calls;
use crate::turns::is_being_written;

impl Calls {
    /// Ends the calls that this server ran when it was cut off, and looks after those that wait for a yes. Only for whoever has
    /// the data folder alone.
    pub(crate) async fn take_up(&self) -> Result<(), StoreError> {
        self.cut_off(self.0.nodes.home()).await?;
        // A backup of what several nodes served, in a file: whatever ran then does not.
        let behind = self.0.store.write(&OrgId::local()).await?.nodes_left_behind().await?;
        for node in behind {
            self.cut_off(&node).await?;
            let mut tx = self.0.store.write(&OrgId::local()).await?;
            tx.forget_node_left_behind(&node).await?;
            tx.commit().await?;
        }
        self.look_after_waiting().await
    }

    /// Ends calls that wait for a yes when their time is up, whoever asked for them.
    pub(crate) async fn look_after_waiting(&self) -> Result<(), StoreError> {
        for org in self.0.store.system().await?.organization_ids().await? {
            let ends = self.0.store.read(&org).await?.pending_ends().await?;
            if ends.iter().any(|end| *end <= Timestamp::now()) {
                self.expire(&org).await?;
            }
            ends.into_iter().for_each(|end| self.expire_later(&org, Some(end)));
        }
        Ok(())
    }

    /// Ends the calls of servers that are gone, and that somebody has cleared up after already: one that does not know that it is dead records calls until
    /// it finds out, and may be killed before.
    pub(crate) async fn end_strays(&self) -> Result<(), StoreError> {
        let (me, home) = (self.0.nodes.id(), self.0.nodes.home());
        for org in self.0.store.system().await?.organization_ids().await? {
            let gone = self.0.store.read(&org).await?.nodes_gone().await?;
            // What this very server has begun it ends itself, as soon as it knows that it must.
            for node in gone.iter().filter(|node| **node != *me && *node != home) {
                self.cut_off_of(&org, node).await?;
            }
        }
        Ok(())
    }

    /// Ends the calls that a server made which is over.
    pub(crate) async fn cut_off(&self, node: &str) -> Result<(), StoreError> {
        for org in self.0.store.system().await?.organization_ids().await? {
            self.cut_off_of(&org, node).await?;
        }
        Ok(())
    }

    /// The same for those of one organisation.
    pub(super) async fn cut_off_of(&self, org: &OrgId, node: &str) -> Result<(), StoreError> {
        let why = CallError::new(CallErrorCode::Interrupted, "the server ended while it ran");
        let mut tx = self.0.store.write(org).await?;
        let cut_off = tx.interrupt_calls(node, &why).await?;
        tx.commit().await?;
        if !cut_off.is_empty() {
            tracing::warn!(%org, calls = cut_off.len(), "calls were cut off when the server ended");
        }
        cut_off.iter().for_each(|call| self.tell(org, call));
        self.end_calls_of_turns(org, node).await
    }

    /// Ends the calls that waited for a yes while a turn waited for them: the turn was cut off, so nobody would be told what they gave.
    async fn end_calls_of_turns(&self, org: &OrgId, node: &str) -> Result<(), StoreError> {
        let why = CallError::new(CallErrorCode::Interrupted, "the server ended while the turn that asked for it ran");
        let mut tx = self.0.store.write(org).await?;
        for call in tx.waiting_calls_of(node).await? {
            let message = tx.message(call.chat_id, call.message_id).await?;
            if message.is_some_and(|message| is_being_written(&message.content)) {
                tx.end_call(call.chat_id, call.id, CallStatus::Pending, &why).await?;
            }
        }
        tx.commit().await
    }

    /// Ends the calls of an organisation that nobody decided about in time.
    pub(super) async fn expire(&self, org: &OrgId) -> Result<(), StoreError> {
        let why = CallError::new(CallErrorCode::Denied, "nobody answered in time whether this call may be made");
        let mut tx = self.0.store.write(org).await?;
        let expired = tx.expire_calls(Timestamp::now(), &why).await?;
        tx.commit().await?;
        expired.iter().for_each(|call| self.tell(org, call));
        Ok(())
    }

    /// Does so when a call's time is up.
    pub(super) fn expire_later(&self, org: &OrgId, end: Option<Timestamp>) {
        let Some(end) = end else { return };
        let key = (org.clone(), end);
        // Somebody waits for that time already.
        if !self.waited_for().insert(key.clone()) {
            return;
        }
        let left = end.as_datetime() - Timestamp::now().as_datetime();
        // Times have milliseconds: a little later it is over for sure.
        let left = Duration::try_from(left).unwrap_or_default() + Duration::from_millis(5);
        let (calls, org) = (self.clone(), org.clone());
        tokio::spawn(async move {
            tokio::time::sleep(left).await;
            // Before it is looked at: what is asked for from here on waits for itself.
            calls.waited_for().remove(&key);
            while let Err(error) = calls.expire(&org).await {
                tracing::warn!(%error, "calls that nobody decided about could not be ended; trying again");
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
    }

    fn waited_for(&self) -> MutexGuard<'_, HashSet<(OrgId, Timestamp)>> {
        self.0.waited_for.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
