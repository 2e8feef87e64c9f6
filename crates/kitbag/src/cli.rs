//! The tree of commands. Doc comments here are the help texts.

mod admin;
mod audit;
mod chat;
mod gallery;
mod lists;
mod mcp;
mod run;
mod tool;
mod toolset;

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use kitbag_executor::program::cli::ExecutorCommand;

pub(crate) use admin::{AdminCommand, TokenCommand};
pub(crate) use audit::{AuditCommand, AuditFilterFlags, AuditFormat};
pub(crate) use chat::ChatCommand;
pub(crate) use gallery::{GalleryCommand, PublishCommand};
pub(crate) use mcp::{AddServer, ClientConfig, ImportServers, McpCommand, ServerClient, StdioFlags};
pub(crate) use run::{ExecutorsCommand, RunFlags, RunsCommand};
pub(crate) use tool::{CallFlags, DecideFlags, ResolveFlags, ToolCommand};
pub(crate) use toolset::{ImportFlags, OverrideFlags};

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILT_FROM_COMMIT"), ")");

const AFTER_HELP: &str = "\
A command talks to the server that runs on its data folder, or opens the folder itself.
Exit codes: 0 done, 1 failed or not found, 2 wrong use or invalid input.";

/// Packages tools, runs them, shows their results and serves them to any agent.
#[derive(Parser)]
#[command(name = "kitbag", version = VERSION, after_help = AFTER_HELP, infer_long_args = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Print JSON on stdout, and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where everything is kept.
#[derive(Args, Clone)]
pub(crate) struct Place {
    /// The data folder [default: $XDG_DATA_HOME/kitbag, else ~/.local/share/kitbag]
    #[arg(long, global = true, env = "KITBAG_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The configuration file [default: kitbag.toml in the data folder]
    #[arg(long, global = true, env = "KITBAG_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Serve(Box<ServeFlags>),
    /// Make, list, read and delete chats and their messages; see what their tools left running
    #[command(subcommand)]
    Chat(ChatCommand),
    /// The files of a chat, and every state they were ever in
    Workspace {
        /// The chat's id
        #[arg(long, global = true, value_name = "CHAT")]
        chat: Option<String>,
        #[command(subcommand)]
        command: WorkspaceCommand,
    },
    /// Make, check, install, change and take along toolsets
    #[command(subcommand)]
    Toolset(ToolsetCommand),
    /// Look at what organisations published, and adopt it
    #[command(subcommand)]
    Gallery(GalleryCommand),
    /// List, read and call the tools of all toolsets
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Add, list, change, trust and import MCP servers; have other programs use Kitbag, also over a pipe
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Who did what: list it, take it along
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Set up the database, tokens
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Check what this machine offers, and say what to do about what is missing
    Doctor {
        /// Look at what several servers share in place of the machine: the database of the configuration, its role, its walls, its clock,
        /// its connections, and the servers on it
        #[arg(long)]
        cluster: bool,
    },
    /// Print what the HTTP API is, as an OpenAPI document
    Openapi,
    /// Print the completion script of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// The process that makes sandboxes. The server starts it.
    #[command(hide = true)]
    GuardKeeper {
        /// A folder like those that will be mounted.
        sample: PathBuf,
        /// Make no namespaces.
        #[arg(long)]
        plain: bool,
    },
    /// Run agents on this machine for a server: pair with it, take its runs
    #[command(subcommand)]
    Executor(ExecutorCommand),
    /// Kitbag's own tools, as an MCP server of an agent on an executor, which starts it.
    #[command(hide = true, name = kitbag_executor::tools::COMMAND)]
    ExecutorTools {
        /// The job.
        file: PathBuf,
    },
    /// Have an agent work on something, on an executor, with a toolset; follows it
    Run(Box<RunFlags>),
    /// Look at runs of agents, end them and do them again; say which machines may run agents
    #[command(subcommand)]
    Runs(RunsCommand),
}

/// How to serve. Every flag also reads `KITBAG_<FLAG>` and a key of `kitbag.toml`; the flag wins over the variable, the
/// variable over the file.
#[derive(Args, Clone, Default)]
pub(crate) struct ServeFlags {
    /// The address to listen on; port 0 picks a free one [default: 127.0.0.1:8700]
    #[arg(long, env = "KITBAG_LISTEN", value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// Where other servers on the same PostgreSQL reach this one, such as `http://10.0.0.5:8700`; port 0 is the one that it listens on.
    /// Without it they answer for themselves alone
    #[arg(long, env = "KITBAG_ADVERTISE", value_name = "URL")]
    pub(crate) advertise: Option<String>,

    /// How long a server that shares a database may be silent before another takes over what it holds [default: 15]
    #[arg(long, env = "KITBAG_NODE_LEASE_SECONDS", value_name = "SECONDS")]
    pub(crate) node_lease_seconds: Option<u64>,

    /// How long a server that stops goes on as before, while /readyz says no, so that a balancer finds out [default: 0]
    #[arg(long, env = "KITBAG_DRAIN_DELAY_SECONDS", value_name = "SECONDS")]
    pub(crate) drain_delay_seconds: Option<u64>,

    /// A PostgreSQL URL; without one, SQLite in the data folder
    #[arg(long, env = "KITBAG_DATABASE", value_name = "URL", hide_env_values = true)]
    pub(crate) database: Option<String>,

    /// A bucket that files, results and toolsets are kept in instead of the data folder, such as `s3://bucket/prefix`; endpoint,
    /// region and credentials come from `AWS_…`, or `?endpoint=…&region=…&style=virtual` behind it
    #[arg(long, env = "KITBAG_BLOBS", value_name = "URL")]
    pub(crate) blobs: Option<String>,

    /// How many bytes copies of what a bucket has may take in the data folder [default: 10 GiB]
    #[arg(long, env = "KITBAG_BLOB_CACHE_BYTES", value_name = "BYTES")]
    pub(crate) blob_cache_bytes: Option<u64>,

    /// How many bytes workspaces that nobody uses may take in the data folder while a bucket has what is in them [default: 20 GiB]
    #[arg(long, env = "KITBAG_WORKSPACE_CACHE_BYTES", value_name = "BYTES")]
    pub(crate) workspace_cache_bytes: Option<u64>,

    /// Let everybody in who reaches the server; on a loopback address only
    #[arg(long, env = "KITBAG_NO_AUTH", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    pub(crate) no_auth: Option<bool>,

    /// The toolsets whose tools clients get, with commas between; empty is none [default: all]
    #[arg(long, env = "KITBAG_TOOLSETS", value_name = "LIST")]
    pub(crate) toolsets: Option<String>,

    /// Tools that clients get beside those of the toolsets: ids, names, mcp:SERVER_KEY, toolset:ID, patterns with *
    #[arg(long, env = "KITBAG_ENABLED_TOOLS", value_name = "LIST")]
    pub(crate) enabled_tools: Option<String>,

    /// Tools that no client gets, whatever else names them
    #[arg(long, env = "KITBAG_DISABLED_TOOLS", value_name = "LIST")]
    pub(crate) disabled_tools: Option<String>,

    /// List meta tools in place of the tools, which are then found and called through them
    #[arg(long, env = "KITBAG_DYNAMIC", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub(crate) dynamic: Option<String>,

    /// What the names of headers with a client's own lists begin with; empty: no header is read [default: X-Mcp-]
    #[arg(long, env = "KITBAG_HEADER_PREFIX", value_name = "TEXT")]
    pub(crate) header_prefix: Option<String>,

    /// Names, beside localhost and addresses, under which the server may be reached
    #[arg(long, env = "KITBAG_ALLOWED_HOSTS", value_name = "LIST", value_delimiter = ',')]
    pub(crate) allowed_hosts: Option<Vec<String>>,

    /// The address under which people reach the server, such as `https://kitbag.example.org`, where another program stands in
    /// front of it: links begin with it, its name is one of the allowed hosts, and with https cookies travel no other way
    #[arg(long, env = "KITBAG_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,

    /// A domain whose every name leads here, such as *.stage.example.org, for pages and frames of tools: browsers on other
    /// machines need one [default: names below localhost]
    #[arg(long, env = "KITBAG_STAGE_DOMAIN", value_name = "DOMAIN")]
    pub(crate) stage_domain: Option<String>,

    /// Origins that a tool's frame may show, beside the ports of its own chat, such as *.example.org
    #[arg(long, env = "KITBAG_FRAME_ALLOW", value_name = "LIST", value_delimiter = ',')]
    pub(crate) frame_allow: Option<Vec<String>>,

    /// The most bytes that a request's body may have [default: 4194304]
    #[arg(long, env = "KITBAG_MAX_BODY_BYTES", value_name = "BYTES")]
    pub(crate) max_body_bytes: Option<usize>,

    /// The most bytes that a file, or a body with files, may have on its way into a workspace [default: 1073741824]
    #[arg(long, env = "KITBAG_MAX_UPLOAD_BYTES", value_name = "BYTES")]
    pub(crate) max_upload_bytes: Option<u64>,

    /// How many bytes the files of one workspace may have [default: 21474836480]
    #[arg(long, env = "KITBAG_MAX_WORKSPACE_BYTES", value_name = "BYTES")]
    pub(crate) max_workspace_bytes: Option<u64>,

    /// How many files, links and empty folders one workspace may have [default: 200000]
    #[arg(long, env = "KITBAG_MAX_WORKSPACE_FILES", value_name = "COUNT")]
    pub(crate) max_workspace_files: Option<u64>,

    /// Programs in front of the server whose `X-Forwarded-For` is believed: addresses and networks
    #[arg(long, env = "KITBAG_TRUSTED_PROXIES", value_name = "LIST", value_delimiter = ',')]
    pub(crate) trusted_proxies: Option<Vec<String>>,

    /// Private addresses that the server may dial: names, addresses, ranges such as 10.0.0.0/8
    #[arg(long, env = "KITBAG_EGRESS_ALLOW", value_name = "LIST", value_delimiter = ',')]
    pub(crate) egress_allow: Option<Vec<String>>,

    /// A file with certificates (PEM) that are trusted besides the system's when the server dials
    #[arg(long, env = "KITBAG_EGRESS_CA_FILE", value_name = "FILE")]
    pub(crate) egress_ca_file: Option<PathBuf>,

    /// A proxy, such as `http://proxy.corp:3128`, that everything the server dials goes through
    #[arg(long, env = "KITBAG_EGRESS_PROXY", value_name = "URL")]
    pub(crate) egress_proxy: Option<String>,

    /// How many seconds a tool may take [default: 300]
    #[arg(long, env = "KITBAG_TOOL_TIMEOUT", value_name = "SECONDS")]
    pub(crate) tool_timeout: Option<u64>,

    /// How many seconds somebody may take to say whether a call may be made [default: 300]
    #[arg(long, env = "KITBAG_CONFIRMATION_TIMEOUT", value_name = "SECONDS")]
    pub(crate) confirmation_timeout: Option<u64>,

    /// Record every call before it runs, and again before it is answered, those of MCP servers too
    #[arg(long, env = "KITBAG_STRICT_RECORDS", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    pub(crate) strict_records: Option<bool>,

    /// Of a result with more bytes a call's record has a summary [default: 262144]
    #[arg(long, env = "KITBAG_MAX_RESULT_BYTES", value_name = "BYTES")]
    pub(crate) max_result_bytes: Option<usize>,

    /// The most bytes of memory for one process of a tool call [default: 2147483648]
    #[arg(long, env = "KITBAG_TOOL_MEMORY_BYTES", value_name = "BYTES")]
    pub(crate) tool_memory_bytes: Option<u64>,

    /// What happens when this machine cannot give a layer of the sandbox: `required` refuses calls, `relaxed` notes it in their
    /// records [default: required]
    #[arg(long, env = "KITBAG_SANDBOX", value_name = "MODE", value_parser = ["required", "relaxed"])]
    pub(crate) sandbox: Option<String>,

    /// Whose tools may run in containers: nobody's, those of the organisation local, everybody's. An engine fetches images with the
    /// credentials that it has itself [default: local]
    #[arg(long, env = "KITBAG_CONTAINERS", value_name = "WHOSE", value_parser = ["off", "local", "all"])]
    pub(crate) containers: Option<String>,

    /// Folders with programs that MCP servers in the sandbox may see besides the system's, with colons between. They can only
    /// be read
    #[arg(long, env = "KITBAG_SANDBOX_PROGRAMS", value_name = "DIRS", value_delimiter = ':')]
    pub(crate) sandbox_programs: Option<Vec<PathBuf>>,

    /// Whether MCP servers of organisations other than local are in this machine's own network, where they reach all that it
    /// reaches, itself included. If not, they have none [default: false]
    #[arg(long, env = "KITBAG_SANDBOX_NETWORK", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    pub(crate) sandbox_network: Option<bool>,

    /// How many processes of one chat may outlive the calls that started them [default: 8]
    #[arg(long, env = "KITBAG_MAX_PROCESSES", value_name = "COUNT")]
    pub(crate) max_processes: Option<usize>,
    /// Variables of this environment that toolsets with network access may know, with commas between.
    #[arg(long, env = "KITBAG_PASS_ENVIRONMENT", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) pass_environment: Option<Vec<String>>,

    /// When an MCP server that is a process starts: `lazy` when it is first used, if its tools are known, or `eager` at once
    /// [default: lazy]
    #[arg(long, env = "KITBAG_MCP_START", value_name = "WHEN", value_parser = ["lazy", "eager"])]
    pub(crate) mcp_start: Option<String>,

    /// After how long an MCP server that nobody uses is stopped; 0 is never [default: 0]
    #[arg(long, env = "KITBAG_MCP_IDLE_SECONDS", value_name = "SECONDS")]
    pub(crate) mcp_idle_seconds: Option<u64>,

    /// How long connecting to an MCP server may take [default: 30]
    #[arg(long, env = "KITBAG_MCP_CONNECT_SECONDS", value_name = "SECONDS")]
    pub(crate) mcp_connect_seconds: Option<u64>,

    /// How many requests a second one client may make at the MCP endpoint; 0 is no limit [default: 5000]
    #[arg(long, env = "KITBAG_MCP_RATE", value_name = "COUNT")]
    pub(crate) mcp_rate: Option<u32>,

    /// How long an executor has a run of an agent without being heard of [default: 60]
    #[arg(long, env = "KITBAG_EXECUTOR_LEASE_SECONDS", value_name = "SECONDS")]
    pub(crate) executor_lease_seconds: Option<u64>,

    /// The model that answers in chats where nobody names one: anthropic/MODEL or openai/MODEL
    #[arg(long, env = "KITBAG_MODEL", value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Where Anthropic's models are, or others that are spoken to alike [default: Anthropic itself]
    #[arg(long, env = "KITBAG_ANTHROPIC_URL", value_name = "URL")]
    pub(crate) anthropic_url: Option<String>,

    /// Where OpenAI's models are, or others that are spoken to alike, as those of llama.cpp and Ollama [default: OpenAI itself]
    #[arg(long, env = "KITBAG_OPENAI_URL", value_name = "URL")]
    pub(crate) openai_url: Option<String>,

    /// Of more bytes of tools' schemas than this a model gets a search in their place [default: 32768]
    #[arg(long, env = "KITBAG_MAX_TOOL_SCHEMA_BYTES", value_name = "BYTES")]
    pub(crate) max_tool_schema_bytes: Option<usize>,

    /// A folder with a built page, in place of the one in the program; for those who work on it
    #[arg(long, env = "KITBAG_PAGE", value_name = "DIR")]
    pub(crate) page: Option<PathBuf>,

    /// The key that seals what is kept encrypted: 32 bytes as base64 or hex, in place of the one in the data folder. Better as
    /// KITBAG_MASTER_KEY than as a flag, which others on this machine can see
    #[arg(long, env = "KITBAG_MASTER_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) master_key: Option<String>,

    /// How many calls of one chat may run or wait for their turn [default: 64]
    #[arg(long, env = "KITBAG_MAX_QUEUE_PER_CHAT", value_name = "COUNT")]
    pub(crate) max_queue_per_chat: Option<usize>,

    /// How many calls of all chats may run or wait for their turn [default: 256]
    #[arg(long, env = "KITBAG_MAX_QUEUE", value_name = "COUNT")]
    pub(crate) max_queue: Option<usize>,

    /// How many runs of one organisation may wait for an executor [default: 1000]
    #[arg(long, env = "KITBAG_MAX_QUEUED_RUNS", value_name = "COUNT")]
    pub(crate) max_queued_runs: Option<u64>,

    /// How many turns of models may run, with the questions of the toolset builder [default: 128]
    #[arg(long, env = "KITBAG_MAX_TURNS", value_name = "COUNT")]
    pub(crate) max_turns: Option<usize>,

    /// How long a request may take [default: 30]
    #[arg(long, env = "KITBAG_REQUEST_TIMEOUT_SECONDS", value_name = "SECONDS")]
    pub(crate) request_timeout_seconds: Option<u64>,

    /// How long running requests may take to finish when the server stops [default: 10]
    #[arg(long, env = "KITBAG_DRAIN_SECONDS", value_name = "SECONDS")]
    pub(crate) drain_seconds: Option<u64>,

    /// Where traces go: the address of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318` [default: nowhere]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp: Option<String>,

    /// What to log: a level, or a filter such as info,kitbag_store=debug [default: info]
    #[arg(long, env = "KITBAG_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// How to log [default: text on a terminal, json otherwise]
    #[arg(long, env = "KITBAG_LOG_FORMAT", value_name = "FORMAT", value_parser = ["text", "json"])]
    pub(crate) log_format: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// List the files
    Ls {
        /// Of this state, instead of the active one
        #[arg(long)]
        manifest: Option<String>,
    },
    /// Print a file
    Cat {
        /// The file
        path: String,
        /// Of this state, instead of the active one
        #[arg(long)]
        manifest: Option<String>,
    },
    /// Write a file
    Put {
        /// Where in the workspace
        path: String,
        /// The file to take the content from; - for standard input
        file: PathBuf,
    },
    /// Put files into the workspace; one whose name is taken gets another, such as name_1.ext
    Upload {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The folder of the workspace that they go to
        #[arg(long, value_name = "FOLDER")]
        to: Option<String>,
        /// Replace files of the same name
        #[arg(long)]
        replace: bool,
    },
    /// Unpack a ZIP into the workspace; a file whose name is taken gets another, such as name_1.ext
    Unpack {
        /// The archive; - for standard input
        archive: PathBuf,
        /// The folder of the workspace that it goes to
        #[arg(long, value_name = "FOLDER")]
        to: Option<String>,
        /// Replace files of the same name
        #[arg(long)]
        replace: bool,
    },
    /// Write the workspace, or a folder of it, into a ZIP
    Download {
        /// The ZIP to write
        #[arg(value_name = "FILE.zip")]
        output: PathBuf,
        /// Only what is in this folder
        #[arg(long, value_name = "FOLDER")]
        folder: Option<String>,
        /// A manifest; the current state, if absent
        #[arg(long)]
        manifest: Option<String>,
    },
    /// Rename a file or a folder
    Mv {
        /// What it is called
        from: String,
        /// What to call it
        to: String,
    },
    /// Bring one file back as it was in an earlier state
    Restore {
        /// The file
        path: String,
        /// The state that has it
        #[arg(long)]
        manifest: String,
    },
    /// Delete a file; earlier states still have it
    Rm {
        /// The file
        path: String,
    },
    /// Keep what was changed in the folder by other means
    Snapshot,
    /// List the states, newest first
    Log {
        /// How many at the most; all, if absent
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Show what differs between two states
    Diff {
        /// The earlier manifest
        from: String,
        /// The later manifest
        to: String,
    },
    /// Forget what no state needs any more
    Gc {
        /// What is younger than so many seconds stays
        #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
        grace: u32,
    },
    /// Look whether every state is whole, and mend what can be mended
    Fsck,
    /// Bring an earlier state back, as a new one
    Checkout {
        /// The manifest
        manifest: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum ToolsetCommand {
    /// Make the folder of a new toolset, with two tools to start from
    New {
        /// What to call it; the id is made from it
        name: String,
        /// The folder to make [default: the id]
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Say everything that is wrong with a toolset, and what installing it would change
    Validate {
        /// A folder, a file or a URL, as for import
        source: String,
    },
    /// Print the JSON Schema of toolset.yaml
    Schema,
    /// Install a toolset, in place of an older version of it. None of its code runs; no server or container of it starts
    Import {
        /// A folder, a ZIP, a URL; also an MCP bundle, a plugin, a skill, or the server list of another program
        source: String,
        #[command(flatten)]
        how: ImportFlags,
    },
    /// Look where a toolset came from, show what is different there, and install it
    Update {
        /// The toolset
        id: String,
        #[command(flatten)]
        how: ImportFlags,
    },
    /// Write a toolset into a ZIP, with what was changed about it and without secrets
    Export {
        /// The toolset
        id: String,
        /// The ZIP to write [default: ID-vVERSION.zip]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Also if an argument or an address in it looks like a secret
        #[arg(long)]
        force: bool,
    },
    /// Build what its Python tools need and look into their code, which is otherwise done at the first call
    Prepare {
        /// The toolset
        id: String,
    },
    /// List the installed toolsets
    List,
    /// Show a toolset with its tools, servers and skills
    Show {
        /// The toolset
        id: String,
    },
    /// Turn a toolset on
    Enable {
        /// The toolset
        id: String,
    },
    /// Turn a toolset off, with all its tools
    Disable {
        /// The toolset
        id: String,
    },
    /// Let its servers start and its tools do what it asks for, as it is now
    Trust {
        /// The toolset
        id: String,
    },
    /// Remove a toolset
    Uninstall {
        /// The toolset
        id: String,
    },
    #[command(flatten)]
    Publishing(PublishCommand),
    /// List what is overridden in a toolset
    Overrides {
        /// The toolset; builtin for the built-in tools
        id: String,
    },
    /// Override what a tool is, or take that back
    Override {
        /// The toolset; builtin for the built-in tools
        id: String,
        /// A tool's id, SERVER:TOOL, or a pattern such as SERVER:*
        key: String,
        /// Take back what was overridden
        #[arg(long)]
        clear: bool,
        #[command(flatten)]
        flags: OverrideFlags,
    },
}
