//! `kitbag audit …`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// List who did what, newest first
    List {
        #[command(flatten)]
        filter: AuditFilterFlags,
        /// How many at the most
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Write all of it to a file, or to stdout
    Export {
        #[command(flatten)]
        filter: AuditFilterFlags,
        /// How it is written
        #[arg(long, value_enum, default_value_t = AuditFormat::Jsonl)]
        format: AuditFormat,
        /// The file; stdout, if absent
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Which lines.
#[derive(Args)]
pub(crate) struct AuditFilterFlags {
    /// Only what somebody did: the id of a member or of a token, an e-mail address, or `server`
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only what was done, such as `toolset.trusted`; with a dot at its end all that begin so
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Only what was done to this
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Only what was done then or later, such as 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only what was done before then
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum AuditFormat {
    /// A JSON object a line
    Jsonl,
    /// Comma-separated values
    Csv,
}
