//! `kitbag chat …`

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum ChatCommand {
    /// Make a chat
    New {
        /// Its title
        #[arg(long)]
        title: Option<String>,
        /// A tool it may use; may be given several times
        #[arg(long = "tool", value_name = "SELECTOR")]
        tools: Vec<String>,
    },
    /// List the chats, newest first
    List {
        /// How many at the most; all, if absent
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Show a chat and its messages
    Show {
        /// The chat's id
        chat: String,
    },
    /// Add a message, which becomes the one the chat stands at
    Say {
        /// The chat's id
        chat: String,
        /// What it says
        text: String,
        /// user, assistant or tool
        #[arg(long, default_value = "user")]
        role: String,
        /// The message to go below; the one the chat stands at, if absent
        #[arg(long, value_name = "MESSAGE")]
        parent: Option<String>,
    },
    /// Delete a chat with everything in it
    Delete {
        /// The chat's id
        chat: String,
    },
    /// List what calls left running: servers that a tool started and that outlive its call
    Processes {
        /// The chat's id [default: the chat of this folder]
        #[arg(long)]
        chat: Option<String>,
    },
    /// Stop what a call left running
    Stop {
        /// The process, as `processes` lists it
        process: String,
        /// The chat's id [default: the chat of this folder]
        #[arg(long)]
        chat: Option<String>,
    },
}
