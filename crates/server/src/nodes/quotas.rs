//! Quotas hold for all nodes together.

use kitbag_model::OrgId;
use kitbag_store::{Budget, StoreError};

use super::Nodes;
use crate::rules::Quota;

impl Nodes {
    /// Takes calls from what an organisation has left of a minute's. None where there is but one process.
    pub(crate) async fn take_calls(&self, org: &OrgId, most: u64, wanted: u64) -> Result<Option<Budget>, StoreError> {
        match &self.0.store {
            Some(store) => store.take_calls(org, most, wanted).await.map(Some),
            None => Ok(None),
        }
    }

    /// A quota of what may be at the same time, with what of it others have. It is counted without a lock: in a burst at
    /// many nodes each may take all that it saw free, so there are never more than the quota at any of them. `counted` are calls that this node counts itself, wherever they run.
    pub(crate) async fn with_others(
        &self,
        org: &OrgId,
        quota: Option<Quota>,
        counted: &[String],
    ) -> Result<Option<Quota>, StoreError> {
        match (&self.0.store, quota) {
            (Some(store), Some(mut quota)) if self.has_peers() => {
                quota.elsewhere = Box::pin(store.running_elsewhere(org, &self.id(), counted)).await?;
                Ok(Some(quota))
            }
            (_, quota) => Ok(quota),
        }
    }
}
