//! `kitbag tool …`

use clap::{ArgGroup, Args, Subcommand};

use super::lists::ClientLists;

#[derive(Subcommand)]
pub(crate) enum ToolCommand {
    /// List the tools, by toolset
    List {
        /// Only those whose id, name, toolset or description have all of these words
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
        /// Only those that can be called now
        #[arg(long)]
        available: bool,
    },
    /// Show a tool, with where each of its values comes from
    Show {
        /// The tool's id
        tool: String,
    },
    /// Show which tools a client gets, and what they take of a model's context
    Resolve(ResolveFlags),
    /// Call a tool, and show what it returned and what it changed
    Call(CallFlags),
    /// List the calls of a chat, the oldest first
    Calls {
        /// The chat's id [default: the chat of this folder]
        #[arg(long)]
        chat: Option<String>,
    },
    /// Say yes or no to a call that waits for it
    Decide(DecideFlags),
    /// Cancel a call, whether it waits or runs
    Cancel {
        /// The call's id
        call: String,
        /// The chat's id [default: the chat of this folder]
        #[arg(long)]
        chat: Option<String>,
    },
    /// Print all of what a call returned, however large it is
    Result {
        /// The call's id
        call: String,
        /// The chat's id [default: the chat of this folder]
        #[arg(long)]
        chat: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct ResolveFlags {
    #[command(flatten)]
    pub(crate) lists: ClientLists,
    /// A header that the client sends, such as "X-Mcp-Toolsets: files,folders"
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// The chat whose tools the client uses: what its selectors leave out is out
    #[arg(long)]
    pub(crate) chat: Option<String>,
    /// Show every tool, with the rule that put it in or out
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Args)]
pub(crate) struct CallFlags {
    /// The tool's id, such as app-builder:write_file
    pub(crate) tool: String,
    /// Its arguments, a JSON object: the text itself, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", allow_hyphen_values = true)]
    pub(crate) args: String,
    /// The chat whose workspace it works in [default: one for this folder, made when first needed]
    #[arg(long)]
    pub(crate) chat: Option<String>,
    /// Say yes at once if it asks before it runs
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The message that it belongs to [default: a new one below where the chat stands]
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) message: Option<String>,
}

#[derive(Args)]
#[command(group = ArgGroup::new("verdict").required(true).args(["yes", "no"]))]
pub(crate) struct DecideFlags {
    /// The call's id
    pub(crate) call: String,
    /// Let it run
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Do not let it run
    #[arg(long, short)]
    pub(crate) no: bool,
    /// Let it run with these arguments instead
    #[arg(long, value_name = "JSON|@FILE|-", requires = "yes", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,
    /// The chat's id [default: the chat of this folder]
    #[arg(long)]
    pub(crate) chat: Option<String>,
}
