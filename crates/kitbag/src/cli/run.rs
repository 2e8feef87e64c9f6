//! `kitbag run …` and `kitbag runs …`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What an agent is to do, and with what.
#[derive(Args)]
pub(crate) struct RunFlags {
    /// What the agent is told; @FILE reads it from a file, - from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,

    /// The toolset [default: the organisation's, if it has one]
    #[arg(long, value_name = "ID")]
    pub(crate) toolset: Option<String>,

    /// Which agent: claude, codex, opencode, sdk, or the whole id of an engine
    #[arg(long, default_value = "claude", value_name = "ENGINE")]
    pub(crate) engine: String,

    /// The model [default: the engine's own choice]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Who the agent is to be
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// What people call the run
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The chat whose files it begins with
    #[arg(long, value_name = "CHAT")]
    pub(crate) chat: Option<String>,

    /// Make what it leaves the chat's next state, if the chat has not changed meanwhile
    #[arg(long, requires = "chat")]
    pub(crate) apply: bool,

    /// A tool that it may use beside the toolset's, in the engine's own words (Bash, Read, shell), or a built-in of Kitbag's (kitbag:write_file)
    #[arg(long, value_name = "TOOL")]
    pub(crate) allow: Vec<String>,

    /// The executor that is to do it
    #[arg(long, value_name = "EXECUTOR")]
    pub(crate) on: Option<String>,

    /// A label that the executor must have
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Vec<String>,

    /// The group that the executor must be of
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,

    /// Whose executors: byon (the organisation's own) or managed (the operator's)
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: Option<String>,

    /// How many seconds it may take [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,

    /// How often the model may be asked [default: 8]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_turns: Option<u64>,

    /// How many tools may be called [default: 20]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_tool_calls: Option<u64>,

    /// Want the answer as JSON that fits the schema in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Do not follow it: print its id and go
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List {
        /// Only those in this state
        #[arg(long)]
        state: Option<String>,
        /// How many at the most; all, if absent
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Show a run: its state, its answer, and which files it changed
    Show {
        /// The run
        run: String,
    },
    /// Follow a run to its end; Ctrl-C stops following and leaves the run alone
    Follow {
        /// The run
        run: String,
    },
    /// End a run before its time
    Cancel {
        /// The run
        run: String,
    },
    /// Do a run that is over again, as a new one
    Retry {
        /// The run
        run: String,
    },
    /// Make what a run left the next state of its chat
    Apply {
        /// The run
        run: String,
    },
    /// List the executors that runs go to, or change what is said of one
    #[command(subcommand)]
    Executors(ExecutorsCommand),
}

#[derive(Subcommand)]
pub(crate) enum ExecutorsCommand {
    /// List the executors
    List,
    /// Make a pairing token, which lets one machine become an executor within a quarter of an hour
    Invite {
        /// A label that the executor will have; a group is group:NAME
        #[arg(long, value_name = "LABEL")]
        label: Vec<String>,
        /// Let it serve every organisation of this server
        #[arg(long)]
        managed: bool,
    },
    /// Call an executor otherwise, or give it other labels
    Update {
        /// The executor
        executor: String,
        /// What to call it
        #[arg(long)]
        name: Option<String>,
        /// A label; all that it is to have. "" alone takes them all away
        #[arg(long, value_name = "LABEL")]
        label: Vec<String>,
    },
    /// Take an executor out, at once
    Revoke {
        /// The executor
        executor: String,
    },
}
