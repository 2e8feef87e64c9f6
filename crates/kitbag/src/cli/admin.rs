//! `kitbag admin …`

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Make or upgrade the schema on PostgreSQL, and grant the role that serves what it needs
    Migrate {
        /// The URL of the role that owns the tables
        #[arg(long, env = "KITBAG_OWNER_DATABASE", value_name = "OWNER_URL", hide_env_values = true)]
        database: String,
        /// The role that `kitbag serve` connects as; made if it is missing
        #[arg(long, value_name = "ROLE", default_value = "kitbag_app")]
        app_role: String,
    },
    /// Make an organisation, if it is not there, and print an invitation for an owner of it
    Owner {
        /// The organisation's id, as it stands in addresses
        #[arg(long)]
        org: String,
        /// What people call it; its id, if absent
        #[arg(long)]
        name: Option<String>,
        /// The owner's e-mail address
        #[arg(long)]
        email: String,
    },
    /// Delete now what is older than organisations want it kept: chats that nobody touched, and lines of the audit
    Retain {
        /// The URL of the role that owns the tables on PostgreSQL: deletes lines of the audit, which the role that serves cannot, and
        /// nothing else
        #[arg(long, env = "KITBAG_OWNER_DATABASE", value_name = "OWNER_URL", hide_env_values = true)]
        database: Option<String>,
    },
    /// Seal all secrets with the first line of the master key's file, so that the lines below it are needed no more
    Reseal,
    /// Move a whole installation: rows, files, toolsets. Stop its servers first; the source is only read, and what is cut off goes on when it
    /// is run again
    Move {
        /// Where it is: a data folder, or the URL of the role that owns the tables on PostgreSQL
        #[arg(long, env = "KITBAG_MOVE_FROM", value_name = "FOLDER|OWNER_URL", hide_env_values = true)]
        from: String,
        /// Where its bytes are, if not in that folder: a bucket, or a folder
        #[arg(long, value_name = "URL|FOLDER")]
        from_blobs: Option<String>,
        /// Where it is to be: an empty folder, or the URL of the owner of an empty database whose schema `kitbag admin migrate` made
        #[arg(long, env = "KITBAG_MOVE_TO", value_name = "FOLDER|OWNER_URL", hide_env_values = true)]
        to: String,
        /// Where its bytes are to be, if not in that folder: a bucket, or a folder
        #[arg(long, value_name = "URL|FOLDER")]
        to_blobs: Option<String>,
        /// Look whether it could be moved, and how much that is
        #[arg(long)]
        dry_run: bool,
    },
    /// Copy this installation into a folder, from which it can be restored or served. On PostgreSQL with a bucket its servers go on; one whose
    /// files are in its data folder is stopped first
    Backup {
        /// An empty folder, or one whose backup was cut off
        folder: PathBuf,
        /// The URL of the role that owns the tables, on PostgreSQL
        #[arg(long, env = "KITBAG_OWNER_DATABASE", value_name = "OWNER_URL", hide_env_values = true)]
        database: Option<String>,
        /// Look whether it could be done, and how much that is
        #[arg(long)]
        dry_run: bool,
    },
    /// Copy a backup into this installation, which must be empty
    Restore {
        /// The folder of the backup
        folder: PathBuf,
        /// The URL of the role that owns the tables, on PostgreSQL
        #[arg(long, env = "KITBAG_OWNER_DATABASE", value_name = "OWNER_URL", hide_env_values = true)]
        database: Option<String>,
        /// Look whether it could be done, and how much that is
        #[arg(long)]
        dry_run: bool,
    },
    /// Make, list and revoke API tokens
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    New {
        /// What it is for
        #[arg(long)]
        name: String,
        /// use (list, read, call), manage (decide, trust, install); may be given several times
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<String>,
        /// After how many seconds it ends; never, if absent
        #[arg(long, value_name = "SECONDS")]
        expires_in: Option<u32>,
    },
    /// List the tokens
    List,
    /// End a token at once
    Revoke {
        /// The token's id
        token: String,
    },
}
