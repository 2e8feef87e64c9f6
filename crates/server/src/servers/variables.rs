//! The values that placeholders get.

use kitbag_mcp::manager::Variables;
use kitbag_model::OrgId;

/// The variables of this program's own environment, for whoever runs it. Others have none of them.
pub(super) struct Environment {
    pub(super) is_local: bool,
}

impl Variables for Environment {
    fn get(&self, _org: &OrgId, name: &str) -> Option<String> {
        self.is_local.then(|| std::env::var(name).ok()).flatten()
    }
}
