//! Engines: coding agents that somebody installed, driven headless. Each says in its own words what it does; here that becomes one
//! kind of event. What an engine needs to know (servers, allowed tools, the model) goes into files of the run's own home, never into
//! the command line, which every process of the machine can read; what it is told comes on its standard input.

pub mod claude;
pub mod codex;
mod find;
pub mod opencode;
pub mod sdk;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kitbag_model::WorkPath;
use kitbag_model::run::wire::FileRef;
use kitbag_model::run::{EngineId, Output, RunConfig};
use serde_json::Value;

pub use find::{Installed, find, find_all};

use crate::Failure;
use crate::prepare::{How, ReadyServers, RunFolder, Variables};

/// How to get out, and whom to believe there: every engine is told.
pub(crate) const REACH: [&str; 12] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];

/// What engines are told of models: addresses, keys, and where else a model may be had.
const MODELS: [&str; 12] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "AWS_REGION",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT",
];

/// The values among those that nobody may see.
pub(crate) fn keys(variables: &Variables) -> impl Iterator<Item = String> + '_ {
    let secret = MODELS.iter().filter(|name| name.ends_with("_KEY") || name.ends_with("_TOKEN"));
    secret.filter_map(|name| variables.of_this_machine(name))
}

/// What an engine is started with.
pub struct Start<'a> {
    /// What was asked for.
    pub config: &'a RunConfig,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// The files that the run began with. They are somebody's, and say nothing to the engine: see its settings.
    pub files: &'a BTreeMap<WorkPath, FileRef>,
    /// The servers it gets.
    pub servers: &'a ReadyServers,
    /// The skills that were staged.
    pub skills: &'a [String],
    /// Where those are, each in a folder of its name.
    pub skills_folder: &'a Path,
    /// Where it is installed.
    pub installed: &'a Installed,
    /// What this machine knows, of which an engine is told what is about models and about getting out.
    pub variables: &'a Variables,
}

impl Start<'_> {
    /// The variables that an engine is started with: those that all are told, those of this machine that it is to know of models,
    /// and its own.
    fn environment(&self, models: &[&'static str], own: &[(&str, String)]) -> BTreeMap<String, String> {
        let known = ["PATH"].iter().chain(&REACH).chain(models);
        let known = known.filter_map(|name| Some(((*name).to_owned(), self.variables.of_this_machine(name)?)));
        let home = [("HOME".to_owned(), self.folder.home().to_string_lossy().into_owned())];
        known.chain(home).chain(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone()))).collect()
    }

    /// The model that is asked.
    fn model(&self) -> &str {
        self.config.engine.model.as_deref().unwrap_or(self.config.engine.id.default_model())
    }

    /// What is said to it at first, for engines that have no other place for who it is to be and what its answer is to be.
    fn whole_prompt(&self) -> String {
        let prompt = &self.config.prompt;
        let parts = [prompt.system.clone(), Some(prompt.text()), self.form()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// What its answer is to be, in words; nothing where any text will do.
    fn form(&self) -> Option<String> {
        match &self.config.output {
            Output::Text => None,
            Output::Json { json_schema: None } => {
                Some("Answer with one JSON value and nothing else: no words around it, no fence.".to_owned())
            }
            Output::Json { json_schema: Some(schema) } => Some(format!(
                "Answer with one JSON value and nothing else: no words around it, no fence. It must fit this JSON Schema:\n{}",
                Value::Object(schema.clone())
            )),
        }
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: PathBuf,
    /// Its arguments. No secret is among them.
    pub args: Vec<String>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
    /// What it reads.
    pub stdin: String,
}

/// What an engine said, in our words.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The model is asked once more.
    Turn,
    /// What it says.
    Text(String),
    /// What it thinks.
    Thinking(String),
    /// It uses a tool.
    Call {
        /// Its own name for the call.
        id: String,
        /// The tool as the model sees it.
        tool: String,
        /// With what.
        input: Value,
    },
    /// What a tool gave back.
    Result {
        /// Which call it was.
        id: String,
        /// What it gave.
        output: Value,
        /// Whether it failed.
        failed: bool,
    },
    /// Tokens that were used since the last time this was said.
    Usage {
        /// That went in.
        input: u64,
        /// That came out.
        output: u64,
    },
    /// Something that whoever looks for a mistake wants to know.
    Note(String),
    /// The answer.
    Final(String),
    /// It gave up, or says so.
    Failed(Failure),
    /// It must not go on.
    Stop(Failure),
}

impl Heard {
    /// A server is not there. An agent without its tools would only make something up.
    fn lost(server: &str, why: &str) -> Self {
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        Self::Stop(Failure::new(
            NOT_CONNECTED,
            format_args!("the engine could not connect to the MCP server {server:?}{why}"),
        ))
    }
}

/// The code of a server that is not there.
const NOT_CONNECTED: &str = "MCP_SERVER_NOT_CONNECTED";

/// Listens to one engine.
pub trait Listener: Send {
    /// What a line means.
    fn hear(&mut self, line: &Value) -> Vec<Heard>;

    /// What a line beside its output means.
    fn beside(&mut self, _line: &str) -> Vec<Heard> {
        Vec::new()
    }

    /// What follows from the end of its output, for engines that do not say that they are done.
    fn end(&mut self) -> Vec<Heard> {
        Vec::new()
    }
}

/// How to start an engine, and who listens to it.
pub fn plan(start: &Start<'_>) -> Result<(Plan, Box<dyn Listener>), Failure> {
    match start.config.engine.id {
        EngineId::Claude => Ok((claude::plan(start)?, Box::new(claude::Claude::default()))),
        EngineId::Codex => Ok((codex::plan(start)?, Box::new(codex::Codex::default()))),
        EngineId::OpenCode => Ok((opencode::plan(start)?, Box::new(opencode::OpenCode::default()))),
        EngineId::ClaudeAgentSdk => Ok((sdk::plan(start)?, Box::new(claude::Claude::default()))),
    }
}

/// Writes a file that only this user can read: it may hold the values of variables.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<(), Failure> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content.as_bytes())
    };
    write().map_err(|error: std::io::Error| {
        Failure::new("EXECUTOR_CLI_FAILED", format_args!("`{}` could not be written: {error}", path.display()))
    })
}

/// A command for engines that can neither be told its folder nor keep their own variables from it: a toolset's server has no business
/// with the model's key, nor with `more`.
fn command_line(how: &How, more: &[String]) -> Option<(String, Vec<String>)> {
    let How::Stdio { command, args, cwd, env } = how else { return None };
    let unset = MODELS.into_iter().chain(more.iter().map(String::as_str)).filter(|name| !env.contains_key(*name));
    let script = format!(r#"unset {}; cd -- "$1" && shift && exec "$@""#, unset.collect::<Vec<_>>().join(" "));
    let words = ["-c".to_owned(), script, "sh".to_owned(), cwd.clone().unwrap_or(".".to_owned()), command.clone()];
    Some(("/bin/sh".to_owned(), words.into_iter().chain(args.iter().cloned()).collect()))
}

/// A number of tokens.
fn tokens(usage: &Value, name: &str) -> u64 {
    usage.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// A text of a message, or nothing.
fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
