//! Bytes on their way in: they are in the inbox, on the same disk, before anybody can say whether the workspace has them already. An
//! organisation with a quota has no more of them there than it has room for, or else one request alone, which may bring what is there already
//! and so takes no room in the end. How many bytes that one may have is its own limit.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use kitbag_model::OrgId;

use super::meter::Meter;
use super::{WorkspaceError, Workspaces};
use crate::rules::Quota;

/// Of a body that does not say how long it is, so many bytes are counted at a time.
const STEP: u64 = 1 << 20;

/// What one request brings, until it is let go of.
pub(crate) struct Arriving {
    meter: Arc<Meter>,
    quota: Option<Quota>,
    /// What is counted.
    counted: u64,
    /// What has come.
    come: u64,
}

impl Workspaces {
    /// Says no before files are taken that there is no room for: to any if there is none at all, and to those that announce more than there
    /// is beside what others bring just now. How much they bring that is not there already is found out when they have come.
    pub(crate) async fn arriving(&self, org: &OrgId, headers: &HeaderMap) -> Result<Arriving, WorkspaceError> {
        let (meter, quota) = self.metered(org).await?;
        meter.check(1).map_err(|error| WorkspaceError::from(error).of_quota(quota.as_ref()))?;
        let mut arriving = Arriving { meter, quota, counted: 0, come: 0 };
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        arriving.count(announced.unwrap_or_default())?;
        Ok(arriving)
    }
}

impl Arriving {
    /// So much more has come, or is about to.
    pub(crate) fn came(&mut self, bytes: u64) -> Result<(), WorkspaceError> {
        self.come += bytes;
        match self.come.checked_sub(self.counted) {
            Some(more) if more > 0 => self.count(more.max(STEP)),
            _ => Ok(()),
        }
    }

    fn count(&mut self, more: u64) -> Result<(), WorkspaceError> {
        let let_in = self.meter.expect(self.counted, more);
        let_in.map_err(|error| WorkspaceError::from(error).of_quota(self.quota.as_ref()))?;
        self.counted += more;
        Ok(())
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.meter.expected(self.counted);
    }
}
