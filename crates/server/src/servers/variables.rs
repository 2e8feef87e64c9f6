//! The values that placeholders get.

use kitbag_mcp::manager::Variables;
use kitbag_mcp::resolve::TOOLSET_DIR;
use kitbag_model::{Launch, OrgId};

use super::Servers;
use crate::rules::OrganizationsRules;

/// What the names of our own variables begin with. They hold our token, our database's address and our master key.
const OURS: &str = "KITBAG_";

/// The variables of this program's own environment: all of them for whoever runs it, for others those that the operator lists for
/// them, perhaps under longer names. Our own are nobody's.
pub(super) struct Environment {
    pub(super) operator: OrganizationsRules,
}

impl Variables for Environment {
    fn get(&self, org: &OrgId, name: &str) -> Option<String> {
        if name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS)) {
            return None;
        }
        if *org == OrgId::local() {
            return std::env::var(name).ok();
        }
        let rules = self.operator.of(org);
        rules.variables?.iter().any(|listed| listed == name).then_some(())?;
        std::env::var(rules.variables_prefix.unwrap_or_default() + name).ok()
    }
}

impl Servers {
    /// The value of a variable, for an organisation that may have it.
    pub(crate) fn variable(&self, org: &OrgId, name: &str) -> Option<String> {
        self.0.variables.get(org, name)
    }

    /// The variables that a launch refers to and that have no value, each once.
    pub(crate) fn missing_variables(&self, org: &OrgId, launch: &Launch) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for name in launch.templates().into_iter().flat_map(kitbag_model::Template::names) {
            let value = self.0.variables.get(org, name);
            let has_value = name == TOOLSET_DIR || value.is_some_and(|value| !value.is_empty());
            if !has_value && !missing.iter().any(|one| one == name) {
                missing.push(name.to_owned());
            }
        }
        missing
    }
}
