//! The commands of an executor. Doc comments here are the help texts; `kitbag executor` and `kitbag-executor` have the same.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};

/// What an executor can be asked.
#[derive(Clone, Debug, Subcommand)]
pub enum ExecutorCommand {
    /// Pair this machine with a server, by a token that somebody made there
    Pair(PairFlags),
    /// Take runs of the server that this machine is paired with, until it is stopped
    Start(Box<StartFlags>),
    /// Say whom this machine is paired with, which agents it has, and what the server does not know yet
    Status,
}

/// How to pair.
#[derive(Args, Clone, Debug)]
pub struct PairFlags {
    /// The pairing token; - reads it from standard input
    #[arg(value_name = "TOKEN", env = "KITBAG_EXECUTOR_PAIRING_TOKEN", hide_env_values = true)]
    pub token: String,

    /// The address of the server [default: that of the server that runs on the data folder]
    #[arg(long, env = "KITBAG_SERVER", value_name = "URL")]
    pub server: Option<String>,

    /// What people call this machine [default: its host name]
    #[arg(long, env = "KITBAG_EXECUTOR_NAME", value_name = "NAME")]
    pub name: Option<String>,

    /// Pair it anew, in place of what it is paired with; what the server there does not know yet is lost
    #[arg(long)]
    pub replace: bool,

    #[allow(missing_docs, reason = "clap would take it for the help of the whole command")]
    #[command(flatten)]
    pub route: RouteFlags,
}

/// How to reach the server.
#[derive(Args, Clone, Debug)]
pub struct RouteFlags {
    /// A file with certificates (PEM) that are trusted besides the system's
    #[arg(long, env = "KITBAG_EXECUTOR_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// A proxy, such as `http://proxy.corp:3128`, that leads to the server
    #[arg(long, env = "KITBAG_EXECUTOR_PROXY", value_name = "URL", hide_env_values = true)]
    pub proxy: Option<String>,
}

/// How to work.
#[derive(Args, Clone, Debug)]
pub struct StartFlags {
    /// How many runs at once
    #[arg(long, env = "KITBAG_EXECUTOR_CAPACITY", value_name = "COUNT", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=200))]
    pub capacity: u32,

    /// Variables of this machine that toolsets may use, with commas between; a name with * at its end stands for all that begin so
    /// [default: none]
    #[arg(long, env = "KITBAG_EXECUTOR_ALLOW_ENV", value_name = "NAMES", value_delimiter = ',')]
    pub allow_env: Vec<String>,

    /// Keep the folders of runs, to look at them afterwards
    #[arg(long, env = "KITBAG_EXECUTOR_KEEP_FOLDERS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value = "false", value_parser = BoolishValueParser::new(),
          value_name = "BOOL")]
    pub keep_folders: bool,

    /// Take no runs whose toolsets have containers, also where an engine for them is found (Docker, podman)
    #[arg(long, env = "KITBAG_EXECUTOR_NO_CONTAINERS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value = "false", value_parser = BoolishValueParser::new(),
          value_name = "BOOL")]
    pub no_containers: bool,

    /// How many seconds running attempts have to end when it is stopped
    #[arg(long, env = "KITBAG_EXECUTOR_GRACE", value_name = "SECONDS", default_value_t = 30)]
    pub grace: u64,

    #[allow(missing_docs, reason = "clap would take it for the help of the whole command")]
    #[command(flatten)]
    pub route: RouteFlags,

    /// Where traces go: the address of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318` [default: nowhere]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp: Option<String>,

    /// What to log on stderr: a level, or a filter such as info,kitbag_executor=debug [default: info]
    #[arg(long, env = "KITBAG_LOG", value_name = "FILTER")]
    pub log: Option<String>,

    /// How to log [default: text on a terminal, json otherwise]
    #[arg(long, env = "KITBAG_LOG_FORMAT", value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log_format: Option<String>,
}
