//! `kitbag gallery …`, and what `kitbag toolset` has for it

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum GalleryCommand {
    /// List what is published, newest first
    List {
        /// Words to look for; what fits best comes first
        words: Vec<String>,
        /// How many at the most; all, if absent
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Show a published toolset: its tools, servers, skills and files
    Show {
        /// What it is published as
        slug: String,
    },
    /// Install a copy of a published toolset. None of its servers starts before it is trusted
    Adopt {
        /// What it is published as
        slug: String,
        /// The id of the copy [default: the original's, with a number if that is taken]
        #[arg(long)]
        id: Option<String>,
        /// What to call it [default: as the original is called]
        #[arg(long)]
        name: Option<String>,
        /// What it is for [default: what the original says]
        #[arg(long)]
        description: Option<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum PublishCommand {
    /// Let everybody who is signed in look at a copy of a toolset, without secrets, and adopt it
    Publish {
        /// The toolset
        id: String,
        /// The name in the gallery: small letters, digits and hyphens. It stays your organisation's for good
        #[arg(long)]
        slug: String,
    },
    /// Take a published toolset back. Copies that others adopted stay
    Unpublish {
        /// The toolset
        id: String,
        /// From now on only whoever made it, and who manages the organisation, sees it
        #[arg(long)]
        private: bool,
    },
}
