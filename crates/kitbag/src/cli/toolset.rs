//! What importing a toolset and overriding a tool take.

use clap::Args;

#[derive(Args)]
pub(crate) struct ImportFlags {
    /// Let the servers that it declares start, with your own rights, and its containers run
    #[arg(long)]
    pub(crate) trust: bool,
    /// Install an older version over a newer one
    #[arg(long)]
    pub(crate) force: bool,
    /// Only say what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// In a file of another program: forget the values of variables and headers, and put placeholders there
    #[arg(long)]
    pub(crate) replace_literals: bool,
}

#[derive(Args)]
pub(crate) struct OverrideFlags {
    /// How results are shown: code, document, html, frame, …
    #[arg(long)]
    pub(crate) renderer: Option<String>,
    /// What the renderer shows, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) renderer_config: Option<String>,
    /// A title
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What a model reads about it
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Whether you are asked before each call
    #[arg(long, value_name = "BOOL")]
    pub(crate) confirm: Option<bool>,
    /// Whether it is there at all
    #[arg(long, value_name = "BOOL")]
    pub(crate) enabled: Option<bool>,
}
