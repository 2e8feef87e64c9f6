//! The flags with which a client, or somebody in its place, says which tools it wants.

use clap::Args;
use kitbag_model::resolution::Setting;

/// Which tools a client gets. Lists can only narrow what the server gives.
#[derive(Args)]
pub(crate) struct ClientLists {
    /// The toolsets whose tools the client gets, with commas between; empty is none, all is every one that the server allows [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) toolsets: Option<String>,
    /// Tools beside those of the toolsets: ids, names, mcp:SERVER_KEY, toolset:ID, patterns with *
    #[arg(long, value_name = "LIST")]
    pub(crate) enabled_tools: Option<String>,
    /// Tools that the client does not get
    #[arg(long, value_name = "LIST")]
    pub(crate) disabled_tools: Option<String>,
    /// List meta tools in place of the tools, which are then found and called through them
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) dynamic: Option<String>,
}

impl ClientLists {
    /// Those that were given, with their names in a query.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let of = |setting| match setting {
            Setting::Toolsets => &self.toolsets,
            Setting::EnabledTools => &self.enabled_tools,
            Setting::DisabledTools => &self.disabled_tools,
            Setting::Dynamic => &self.dynamic,
        };
        Setting::ALL.into_iter().filter_map(move |setting| Some((setting.query(), of(setting).as_deref()?)))
    }
}
