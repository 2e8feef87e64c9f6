//! Executors that vanished: what they had is given to somebody else.

use std::time::Duration;

use kitbag_model::run::wire::AttemptId;
use kitbag_model::{OrgId, RunId, Timestamp};
use kitbag_store::StoreError;

use super::AgentRuns;

/// So many leases that ended are looked at at a time.
const AT_ONCE: u32 = 100;

impl AgentRuns {
    /// Looks for leases that ended, for ever.
    pub(crate) async fn look_after_leases(&self) {
        // Executors that were connected to a server that stopped come back within a lease. They must not lose what they have because
        // nobody was there to hear of them.
        tokio::time::sleep(self.0.settings.lease).await;
        let pause = (self.0.settings.lease / 6).max(Duration::from_millis(200));
        loop {
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "leases that ended could not be looked for");
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let ended = self.0.store.system().await?.expired_leases(now, AT_ONCE).await?;
        for (org, run) in ended {
            self.take_back(&org, run, now).await?;
        }
        Ok(())
    }

    async fn take_back(&self, org: &OrgId, id: RunId, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.0.store.write(org).await?;
        let Some(run) = tx.run(id).await? else { return Ok(()) };
        let seconds = self.0.settings.lease.as_secs();
        let reason = format!("the executor that had it was not heard of for {seconds} s");
        let released = tx.release_run(id, run.attempt, Some(now), &reason).await?;
        tx.commit_chat().await?;
        self.forget(AttemptId { run_id: id, attempt: run.attempt });
        if let Some(run) = released {
            self.tell_state(org, &run);
        }
        Ok(())
    }
}
