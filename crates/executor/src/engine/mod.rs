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

use kitbag_model::run::{EngineId, RunConfig};
use serde_json::Value;

pub use find::{Installed, find, find_all};

use crate::Failure;
use crate::prepare::{How, ReadyServers, RunFolder};

/// What an engine is started with.
pub struct Start<'a> {
    /// What was asked for.
    pub config: &'a RunConfig,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// The servers it gets.
    pub servers: &'a ReadyServers,
    /// The skills that were staged.
    pub skills: &'a [String],
    /// Where it is installed.
    pub installed: &'a Installed,
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: PathBuf,
    /// Its arguments. No secret is among them.
    pub args: Vec<String>,
    /// Its variables beside those that are passed.
    pub env: BTreeMap<String, String>,
    /// Names of variables of this process that it gets: the model's address and key.
    pub pass: Vec<&'static str>,
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
    /// It gave up.
    Failed(Failure),
}

/// Listens to one engine.
pub trait Listener: Send {
    /// What a line means.
    fn hear(&mut self, line: &Value) -> Vec<Heard>;

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
fn write_private(path: &Path, content: &str) -> Result<(), Failure> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content.as_bytes())
    };
    write().map_err(|error: std::io::Error| {
        Failure::new("EXECUTOR_CLI_FAILED", format_args!("`{}` could not be written: {error}", path.display()))
    })
}

/// A command that begins in a folder of its own, for engines that cannot be told one.
fn command_line(how: &How) -> Option<(String, Vec<String>)> {
    let How::Stdio { command, args, cwd, .. } = how else { return None };
    Some(match cwd {
        None => (command.clone(), args.clone()),
        Some(cwd) => {
            let script = r#"cd -- "$1" && shift && exec "$@""#;
            let words = ["-c", script, "sh", cwd, command].map(str::to_owned);
            ("/bin/sh".to_owned(), words.into_iter().chain(args.iter().cloned()).collect())
        }
    })
}

/// A number of tokens.
fn tokens(usage: &Value, name: &str) -> u64 {
    usage.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// A text of a message, or nothing.
fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
