//! What the operator lets organisations have. It is read once, at the start.

use std::collections::BTreeMap;

use kitbag_guard::dial::Allowed;
use kitbag_model::OrgId;

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
    /// The variables of the server's environment that its servers may refer to.
    pub variables: Option<Vec<String>>,
    /// What the names of these variables begin with in the server's environment, and not in what refers to them.
    pub variables_prefix: Option<String>,
    /// Private addresses that it may dial, beside those that everybody may.
    pub egress_allow: Option<Vec<Allowed>>,
}

/// What organisations other than `local` may have.
#[derive(Clone, Debug, Default)]
pub struct OrganizationsRules {
    /// Those that are not named.
    pub default: OrganizationRules,
    /// Those that are.
    pub each: BTreeMap<OrgId, OrganizationRules>,
}

impl OrganizationsRules {
    /// What an organisation may have. `local` is the operator's own, and has no limits here.
    pub fn of(&self, org: &OrgId) -> OrganizationRules {
        if *org == OrgId::local() {
            return OrganizationRules::default();
        }
        let (own, all) = (self.each.get(org).cloned().unwrap_or_default(), &self.default);
        OrganizationRules {
            calls_per_minute: own.calls_per_minute.or(all.calls_per_minute),
            concurrent_calls: own.concurrent_calls.or(all.concurrent_calls),
            workspace_bytes: own.workspace_bytes.or(all.workspace_bytes),
            executors_in_flight: own.executors_in_flight.or(all.executors_in_flight),
            variables: own.variables.or_else(|| all.variables.clone()),
            variables_prefix: own.variables_prefix.or_else(|| all.variables_prefix.clone()),
            egress_allow: own.egress_allow.or_else(|| all.egress_allow.clone()),
        }
    }
}
