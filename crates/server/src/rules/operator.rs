//! What the operator lets organisations have. It is read once, at the start.

use std::collections::BTreeMap;

use kitbag_guard::dial::Allowed;
use kitbag_model::OrgId;

/// So many runs of one organisation may wait for an executor, if the operator says nothing else.
pub(super) const MOST_QUEUED_RUNS: u64 = 1000;

/// What one organisation may have. What is absent is what the others have.
#[derive(Clone, Debug, Default)]
pub struct OrganizationRules {
    /// The most calls in a minute.
    pub calls_per_minute: Option<u64>,
    /// The most calls that run or wait for their turn.
    pub concurrent_calls: Option<u64>,
    /// The most bytes that all states of all its workspaces take.
    pub workspace_bytes: Option<u64>,
    /// The most runs that executors have at the same time.
    pub executors_in_flight: Option<u64>,
    /// The most runs that wait for an executor.
    pub queued_runs: Option<u64>,
    /// The variables of the server's environment that its servers may refer to.
    pub variables: Option<Vec<String>>,
    /// What the names of these variables begin with in the server's environment, and not in what refers to them.
    pub variables_prefix: Option<String>,
    /// Private addresses that it may dial, beside those that everybody may.
    pub egress_allow: Option<Vec<Allowed>>,
}

/// What organisations may have: all but `local`, where nothing else is said.
#[derive(Clone, Debug, Default)]
pub struct OrganizationsRules {
    /// Those that are not named.
    pub default: OrganizationRules,
    /// Those that are.
    pub each: BTreeMap<OrgId, OrganizationRules>,
    /// The most runs that wait for an executor, of each of which nothing else is said, and of `local`.
    pub queued_runs: Option<u64>,
}

impl OrganizationsRules {
    /// How many runs of an organisation may wait of which nothing else is said.
    pub(crate) fn most_queued_runs(&self) -> u64 {
        self.queued_runs.unwrap_or(MOST_QUEUED_RUNS)
    }

    /// What an organisation may have. `local` is the operator's own, and has no limits here but that of the queue, which is everybody's.
    pub fn of(&self, org: &OrgId) -> OrganizationRules {
        let queued_runs = self.most_queued_runs();
        if *org == OrgId::local() {
            return OrganizationRules { queued_runs: Some(queued_runs), ..OrganizationRules::default() };
        }
        let (own, all) = (self.each.get(org).cloned().unwrap_or_default(), &self.default);
        OrganizationRules {
            calls_per_minute: own.calls_per_minute.or(all.calls_per_minute),
            concurrent_calls: own.concurrent_calls.or(all.concurrent_calls),
            workspace_bytes: own.workspace_bytes.or(all.workspace_bytes),
            executors_in_flight: own.executors_in_flight.or(all.executors_in_flight),
            queued_runs: own.queued_runs.or(all.queued_runs).or(Some(queued_runs)),
            variables: own.variables.or_else(|| all.variables.clone()),
            variables_prefix: own.variables_prefix.or_else(|| all.variables_prefix.clone()),
            egress_allow: own.egress_allow.or_else(|| all.egress_allow.clone()),
        }
    }
}
