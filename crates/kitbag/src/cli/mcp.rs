//! `kitbag mcp …`

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::lists::ClientLists;

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server: kitbag mcp add NAME -- COMMAND ARGS…, or kitbag mcp add NAME --url URL
    Add(Box<AddServer>),
    /// List the servers, with how each is, how many tools it has, and what it starts
    List,
    /// Show a server, how it is, and its tools
    Show {
        /// The server key, or its id
        server: String,
    },
    /// Remove a server that was added by hand
    Remove {
        /// The server key, or its id
        server: String,
    },
    /// Give a server that was added by hand another id. Overrides, trust and the history of its calls go along
    Rename {
        /// The server key, or its id
        server: String,
        /// The new id
        id: String,
    },
    /// Turn a server on
    Enable {
        /// The server key, or its id
        server: String,
    },
    /// Turn a server off, with all its tools
    Disable {
        /// The server key, or its id
        server: String,
    },
    /// Let a server start as it is now
    Trust {
        /// The server key, or its id
        server: String,
    },
    /// Connect a server anew, at once
    Reconnect {
        /// The server key, or its id
        server: String,
    },
    /// Sign in to a server on the web: says where to go with a browser, and waits until that is done
    SignIn {
        /// The server key, or its id
        server: String,
        /// How many seconds to wait; 0 does not wait
        #[arg(long, value_name = "SECONDS", default_value_t = 300)]
        wait: u64,
    },
    /// Sign out of a server: what it gave us is given back and forgotten
    SignOut {
        /// The server key, or its id
        server: String,
    },
    /// Say how Kitbag is known where a server has people sign in, if it was registered there by hand
    Client(ServerClient),
    /// Ask a server for its tools, and say how long that took
    Test {
        /// The server key, or its id
        server: String,
    },
    /// Show what a server has changed about its tools, and accept it
    Accept {
        /// The server key, or its id
        server: String,
        /// Only these tools
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// What happens when a server changes a tool
    Policy {
        /// The server key, or its id
        server: String,
        /// warn: it can be called, and the change is shown; quarantine: it cannot be called until the change is accepted; accept
        #[arg(value_parser = ["warn", "quarantine", "accept", "default"])]
        policy: String,
    },
    /// Find the servers that other programs on this machine use, and take some of them
    Import(ImportServers),
    /// Print what a program must have in its configuration to use Kitbag, or write it there
    Config(ClientConfig),
    /// Be an MCP server on standard input and output: the command that an MCP client starts to get all tools
    Stdio(StdioFlags),
}

/// What a client gets on standard input and output.
#[derive(Args)]
pub(crate) struct StdioFlags {
    #[command(flatten)]
    pub(crate) lists: ClientLists,
    /// The chat whose workspace the tools work in [default: one that all such clients share]
    #[arg(long)]
    pub(crate) chat: Option<String>,
    /// Only this toolset, its tools under their own names
    #[arg(long, value_name = "ID", conflicts_with = "server")]
    pub(crate) toolset: Option<String>,
    /// Only this MCP server, as it is: nothing renamed
    #[arg(long, value_name = "KEY")]
    pub(crate) server: Option<String>,
}

#[derive(Args)]
pub(crate) struct AddServer {
    /// What to call it; the id is made from it
    pub(crate) name: String,
    /// The program to start and its arguments. No shell is involved
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "url")]
    pub(crate) command: Vec<String>,
    /// The address to dial
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// How it is spoken with: stdio, http or sse [default: stdio for a command, http for a URL]
    #[arg(long, value_name = "TRANSPORT", value_parser = ["stdio", "http", "streamable-http", "sse"])]
    pub(crate) transport: Option<String>,
    /// A header that every request carries; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub(crate) headers: Vec<String>,
    /// A variable that it is given: a value, or the name alone to take it from Kitbag's own environment; may be given several times
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// The folder it is started in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// What it is for
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Whether you are asked before each call of its tools [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) confirm: Option<bool>,
    /// Record every call of its tools before it runs, and again before it is answered
    #[arg(long)]
    pub(crate) strict_records: bool,
    /// Add it turned off
    #[arg(long)]
    pub(crate) disabled: bool,
    /// Run it in the sandbox: it sees the system's programs and a folder of its own, and none of your files
    #[arg(long, conflicts_with = "url")]
    pub(crate) sandbox: bool,
}

#[derive(Args)]
pub(crate) struct ImportServers {
    /// The servers to take, by name; none: list them and ask
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Only those of this program (claude-desktop, claude-code, cursor, vscode, …) or in this file
    #[arg(long, value_name = "PROGRAM|FILE")]
    pub(crate) from: Option<String>,
    /// Take all of your own; not those of the current folder's files
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// With --all: those of the current folder's files too
    #[arg(long, requires = "all")]
    pub(crate) project: bool,
    /// Let servers of files that are not your own start, too: you have looked at what they start
    #[arg(long)]
    pub(crate) trust: bool,
    /// Keep values that look like secrets here, instead of referring to variables
    #[arg(long)]
    pub(crate) keep_values: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A client that somebody registered by hand.
#[derive(Args)]
pub(crate) struct ServerClient {
    /// The server key, or its id
    pub(crate) server: String,
    /// The id that the authorization server gave
    #[arg(long, value_name = "ID", required_unless_present = "forget")]
    pub(crate) id: Option<String>,
    /// A file with the secret; - reads it from standard input
    #[arg(long, value_name = "FILE", group = "proof")]
    pub(crate) secret_file: Option<PathBuf>,
    /// A file with a private key, instead of a secret: PKCS#8 as PEM; - reads it from standard input
    #[arg(long, value_name = "FILE", group = "proof", requires = "algorithm")]
    pub(crate) key_file: Option<PathBuf>,
    /// How the key signs
    #[arg(long, value_parser = ["ES256", "RS256"], requires = "key_file")]
    pub(crate) algorithm: Option<String>,
    /// Nobody signs in: Kitbag does by itself, with the secret or the key
    #[arg(long, requires = "proof")]
    pub(crate) machine: bool,
    /// What to ask for when the server does not say; may be given several times
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// The authorization server that knows the client [default: the first one that the server names]
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// Forget it: Kitbag registers itself again
    #[arg(long, conflicts_with_all = ["id", "secret_file", "key_file", "algorithm", "machine", "scopes", "issuer"])]
    pub(crate) forget: bool,
}

/// How a program is to use Kitbag.
#[derive(Args)]
pub(crate) struct ClientConfig {
    /// Which program: claude-code, claude-desktop, cursor, vscode, codex or opencode
    #[arg(value_name = "CLIENT", value_parser = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "opencode"])]
    pub(crate) client: String,
    /// Write it into the program's own file. What it was stays beside it
    #[arg(long)]
    pub(crate) install: bool,
    /// Have the program start `kitbag mcp stdio`, instead of dialling the server
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Only the tools of this toolset, under their own names: it has an address of its own
    #[arg(long, value_name = "ID", conflicts_with_all = ["toolsets", "stdio"])]
    pub(crate) toolset: Option<String>,
    #[command(flatten)]
    pub(crate) lists: ClientLists,
    /// The chat whose files its tools use [default: one that is kept for it]
    #[arg(long, value_name = "CHAT")]
    pub(crate) chat: Option<String>,
}
