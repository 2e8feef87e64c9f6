//! What the operator says about resolution.

use kitbag_model::resolution::Lists;

/// Which tools clients get, and how they may ask for fewer.
#[derive(Clone, Debug)]
pub struct ResolutionSettings {
    /// The lists that hold for everything the organisation `local` serves.
    pub lists: Lists,
    /// What the names of headers with a request's own lists begin with; empty if no header is read.
    pub header_prefix: String,
}

impl Default for ResolutionSettings {
    fn default() -> Self {
        Self { lists: Lists::default(), header_prefix: "X-Mcp-".to_owned() }
    }
}
