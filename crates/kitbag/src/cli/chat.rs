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
    /// Have a model answer, with the chat's tools
    Ask {
        /// What you say; @FILE reads it from a file, - from standard input. Nothing: with --again, or to talk line by line
        text: Option<String>,
        /// The chat's id [default: the chat of this folder, which gets one]
        #[arg(long)]
        chat: Option<String>,
        /// anthropic/MODEL or openai/MODEL [default: the server's]
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// What the model is told before everything else
        #[arg(long, value_name = "TEXT")]
        system: Option<String>,
        /// How hard it should think: low, medium or high
        #[arg(long, value_name = "EFFORT")]
        thinking: Option<String>,
        /// Make every call that asks before it runs
        #[arg(long, short)]
        yes: bool,
        /// Answer this message again, as a branch with the files as they were
        #[arg(long, value_name = "MESSAGE", conflicts_with = "text")]
        again: Option<String>,
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
