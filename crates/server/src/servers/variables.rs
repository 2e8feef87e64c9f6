//! The values that placeholders get.

use kitbag_mcp::manager::Variables;
use kitbag_mcp::resolve::TOOLSET_DIR;
use kitbag_model::{Launch, OrgId};

/// The variables of this program's own environment, for whoever runs it. Others have none of them.
pub(super) struct Environment {
    pub(super) is_local: bool,
}

impl Variables for Environment {
    fn get(&self, _org: &OrgId, name: &str) -> Option<String> {
        self.is_local.then(|| std::env::var(name).ok()).flatten()
    }
}

/// The variables that a launch refers to and that have no value, each once.
pub(crate) fn missing_variables(org: &OrgId, launch: &Launch) -> Vec<String> {
    let values = Environment { is_local: *org == OrgId::local() };
    let mut missing: Vec<String> = Vec::new();
    for name in launch.templates().into_iter().flat_map(kitbag_model::Template::names) {
        let has_value = name == TOOLSET_DIR || values.get(org, name).is_some_and(|value| !value.is_empty());
        if !has_value && !missing.iter().any(|one| one == name) {
            missing.push(name.to_owned());
        }
    }
    missing
}
