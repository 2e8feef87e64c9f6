//! What holds for an organisation: its own settings, within what the operator lets it have. Whoever enforces a part of it asks here.

mod operator;

use std::sync::Arc;

use kitbag_model::resolution::Lists;
use kitbag_model::{OrgId, OrgSettings};
use kitbag_store::{Store, StoreError};

use crate::recent::Recent;

pub use operator::{OrganizationRules, OrganizationsRules};

/// The rules of all organisations. Clones share them.
#[derive(Clone)]
pub(crate) struct Rules(Arc<Inner>);

struct Inner {
    store: Store,
    operator: OrganizationsRules,
    read: Recent<OrgId, Arc<OrgRules>>,
}

/// What holds for one organisation now.
#[derive(Debug)]
pub(crate) struct OrgRules {
    pub(crate) settings: OrgSettings,
    /// What the operator lets it have at the most.
    pub(crate) limits: OrganizationRules,
}

impl Rules {
    pub(crate) fn new(store: &Store, operator: OrganizationsRules) -> Self {
        Self(Arc::new(Inner { store: store.clone(), operator, read: Recent::default() }))
    }

    /// What the operator lets an organisation have.
    pub(crate) fn limits(&self, org: &OrgId) -> OrganizationRules {
        self.0.operator.of(org)
    }

    /// What holds for an organisation.
    pub(crate) async fn of(&self, org: &OrgId) -> Result<Arc<OrgRules>, StoreError> {
        let store = &self.0.store;
        let read = async { store.read_beside(org).await?.settings().await };
        let read = async {
            let settings = read.await?.map(|(settings, _)| settings).unwrap_or_default();
            Ok::<_, StoreError>(Some(Arc::new(OrgRules { settings, limits: self.limits(org) })))
        };
        let known = self.0.read.get(store.edition(), org.clone(), read).await?;
        known.ok_or(StoreError::Corrupt { column: "organization_settings.settings" })
    }
}

impl OrgRules {
    /// The lists that hold for everything that an organisation other than `local` serves. They were checked when they were set.
    pub(crate) fn lists(&self) -> Lists {
        self.settings.resolution.lists().unwrap_or_default()
    }

    pub(crate) fn calls_per_minute(&self) -> Option<u64> {
        least(self.settings.quotas.calls_per_minute.map(|count| count.get()), self.limits.calls_per_minute)
    }

    pub(crate) fn concurrent_calls(&self) -> Option<u64> {
        least(self.settings.quotas.concurrent_calls.map(|count| count.get()), self.limits.concurrent_calls)
    }

    pub(crate) fn workspace_bytes(&self) -> Option<u64> {
        least(self.settings.quotas.workspace_bytes.map(|count| count.get()), self.limits.workspace_bytes)
    }
}

/// Settings only lower: the operator may have allowed more when they were made.
fn least(own: Option<u64>, most: Option<u64>) -> Option<u64> {
    own.into_iter().chain(most).min()
}
