//! What holds for an organisation: its own settings, within what the operator lets it have. Whoever enforces a part of it asks here.

mod operator;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kitbag_guard::dial::EgressPolicy;
use kitbag_model::resolution::Lists;
use kitbag_model::{OrgId, OrgSettings, ToolsetId};
use kitbag_store::{Store, StoreError};

use crate::recent::Recent;

use operator::MOST_QUEUED_RUNS;
pub use operator::{OrganizationRules, OrganizationsRules};

/// Where others write to the database too, what was read is used for so long. What this server writes counts at once.
const FRESH: Duration = Duration::from_secs(1);

/// The rules of so many organisations are remembered.
const MOST: usize = 1024;

/// The rules of all organisations. Clones share them.
#[derive(Clone)]
pub(crate) struct Rules(Arc<Inner>);

struct Inner {
    store: Store,
    operator: OrganizationsRules,
    egress: EgressPolicy,
    read: Recent<OrgId, Arc<OrgRules>>,
    /// What was read last, and when.
    last: Mutex<HashMap<OrgId, (Instant, Arc<OrgRules>)>>,
    /// How often this server has changed settings: what was read meanwhile may be from before.
    changes: AtomicU64,
    /// The hosts that an organisation may dial, for those who ask while they cannot wait.
    hosts: Mutex<HashMap<OrgId, Option<Vec<String>>>>,
}

/// What holds for one organisation now.
#[derive(Debug)]
pub(crate) struct OrgRules {
    org: OrgId,
    settings: OrgSettings,
    /// What the operator lets it have at the most.
    limits: OrganizationRules,
}

impl Rules {
    pub(crate) fn new(store: &Store, operator: OrganizationsRules, egress: EgressPolicy) -> Self {
        Self(Arc::new(Inner {
            store: store.clone(),
            operator,
            egress,
            read: Recent::default(),
            last: Mutex::default(),
            changes: AtomicU64::new(0),
            hosts: Mutex::default(),
        }))
    }

    /// What the operator lets an organisation have.
    pub(crate) fn limits(&self, org: &OrgId) -> OrganizationRules {
        self.0.operator.of(org)
    }

    /// What holds for an organisation.
    pub(crate) async fn of(&self, org: &OrgId) -> Result<Arc<OrgRules>, StoreError> {
        let edition = self.0.store.edition();
        if edition.is_some() {
            let read = async || Ok::<_, StoreError>(Some(self.read(org).await?));
            let known = self.0.read.get(edition, org.clone(), read).await?;
            return known.ok_or(StoreError::Corrupt { column: "organization_settings.settings" });
        }
        if let Some((at, known)) = self.last().get(org)
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(known));
        }
        let (began, changes) = (Instant::now(), self.0.changes.load(Ordering::SeqCst));
        let rules = self.read(org).await?;
        let mut last = self.last();
        if self.0.changes.load(Ordering::SeqCst) == changes {
            if last.len() >= MOST {
                last.clear();
            }
            last.insert(org.clone(), (began, Arc::clone(&rules)));
        }
        Ok(rules)
    }

    async fn read(&self, org: &OrgId) -> Result<Arc<OrgRules>, StoreError> {
        let found = self.0.store.read_beside(org).await?.settings().await?;
        let settings = found.map(|(settings, _)| settings).unwrap_or_default();
        let hosts = settings.network.allow.as_ref().map(|hosts| hosts.iter().map(ToString::to_string).collect());
        self.hosts().insert(org.clone(), hosts);
        Ok(Arc::new(OrgRules { org: org.clone(), settings, limits: self.limits(org) }))
    }

    /// Settings were changed: what was read before is not so any more. What holds now is read at once, for those who cannot wait.
    pub(crate) async fn changed(&self, org: &OrgId) -> Result<(), StoreError> {
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        self.last().remove(org);
        self.of(org).await.map(drop)
    }

    /// Where an organisation may dial. Of one that nobody has asked about yet nothing is known, and it may dial nobody.
    pub(crate) fn egress(&self, org: &OrgId) -> EgressPolicy {
        let mut policy = self.0.egress.clone();
        policy.allow.extend(self.limits(org).egress_allow.unwrap_or_default());
        policy.only = self.hosts().get(org).cloned().unwrap_or_else(|| Some(Vec::new()));
        policy
    }

    fn last(&self) -> MutexGuard<'_, HashMap<OrgId, (Instant, Arc<OrgRules>)>> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<OrgId, Option<Vec<String>>>> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrgRules {
    /// The lists that hold for everything that an organisation other than `local` serves. They were checked when they were set.
    pub(crate) fn lists(&self) -> Lists {
        self.settings.resolution.lists().unwrap_or_default()
    }

    /// The toolset that is used where none is named.
    pub(crate) fn default_toolset(&self) -> Option<&ToolsetId> {
        self.settings.toolsets.default_toolset_id.as_ref()
    }

    pub(crate) fn calls_per_minute(&self) -> Option<Quota> {
        self.quota(
            "callsPerMinute",
            self.settings.quotas.calls_per_minute.map(|count| count.get()),
            self.limits.calls_per_minute,
        )
    }

    pub(crate) fn concurrent_calls(&self) -> Option<Quota> {
        self.quota(
            "concurrentCalls",
            self.settings.quotas.concurrent_calls.map(|count| count.get()),
            self.limits.concurrent_calls,
        )
    }

    pub(crate) fn workspace_bytes(&self) -> Option<Quota> {
        self.quota(
            "workspaceBytes",
            self.settings.quotas.workspace_bytes.map(|count| count.get()),
            self.limits.workspace_bytes,
        )
    }

    pub(crate) fn executors_in_flight(&self) -> Option<Quota> {
        self.quota(
            "executorsInFlight",
            self.settings.quotas.executors_in_flight.map(|count| count.get()),
            self.limits.executors_in_flight,
        )
    }

    /// There always is one: a queue without an end is a database without one.
    pub(crate) fn queued_runs(&self) -> Quota {
        let own = self.settings.quotas.queued_runs.map(|count| count.get());
        let most = self.limits.queued_runs.unwrap_or(MOST_QUEUED_RUNS);
        let (is_own, most) = (own.is_some_and(|own| own <= most), own.map_or(most, |own| own.min(most)));
        Quota { name: "queuedRuns", most, elsewhere: 0, is_own, org: self.org.clone() }
    }

    /// A quota to measure with.
    #[cfg(test)]
    pub(crate) fn allowing_calls(most: u64) -> Quota {
        Quota { name: "callsPerMinute", most, elsewhere: 0, is_own: true, org: OrgId::local() }
    }

    /// Settings only lower: the operator may have allowed more when they were made.
    fn quota(&self, name: &'static str, own: Option<u64>, most: Option<u64>) -> Option<Quota> {
        let is_own = own.is_some_and(|own| most.is_none_or(|most| own <= most));
        let most = own.into_iter().chain(most).min()?;
        Some(Quota { name, most, elsewhere: 0, is_own, org: self.org.clone() })
    }
}

/// How much of something an organisation may have.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    name: &'static str,
    pub(crate) most: u64,
    /// How much of it other nodes have taken.
    pub(crate) elsewhere: u64,
    is_own: bool,
    org: OrgId,
}

impl Quota {
    /// What somebody is told who wanted more: which quota it is, its value, and who can change it.
    pub(crate) fn told(&self, what: &str) -> String {
        let Self { name, most, is_own, org, .. } = self;
        let who = match is_own {
            true => "an owner or admin can change it in the organisation's settings",
            false => "the operator of this server can change it",
        };
        format!("{what}: the quota {name} of the organisation {org} is {most}; {who}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_one_counts_and_whoever_set_it_is_named() {
        let rules = |own: Option<u64>, most: Option<u64>| OrgRules {
            org: "acme".parse().unwrap(),
            settings: serde_json::from_value(serde_json::json!({ "quotas": { "callsPerMinute": own } })).unwrap(),
            limits: OrganizationRules { calls_per_minute: most, ..OrganizationRules::default() },
        };
        for (own, most, holds) in [
            (None, None, None),
            (Some(5), None, Some((5, "an owner or admin"))),
            (None, Some(7), Some((7, "the operator"))),
            (Some(5), Some(7), Some((5, "an owner or admin"))),
            (Some(9), Some(7), Some((7, "the operator"))),
        ] {
            let quota = rules(own, most).calls_per_minute();
            assert_eq!(quota.as_ref().map(|quota| quota.most), holds.map(|(most, _)| most));
            if let (Some(quota), Some((most, who))) = (quota, holds) {
                let told = quota.told("it is too much");
                assert!(
                    told.contains(who) && told.contains(&format!("callsPerMinute of the organisation acme is {most}")),
                    "{told}"
                );
            }
        }
    }
}
