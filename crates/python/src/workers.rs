//! All workers of a server.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kitbag_model::{BUILTINS, ChatId, OrgId, PythonNeeds, Timestamp};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

use crate::call::{Event, Failure, FailureKind, Finished, Job, Stop};
use crate::program::{Description, Entry, Program};

/// How workers are set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data folder: environments and the SDK are kept below it.
    pub data: PathBuf,
    /// Whether a call is refused when a layer of the sandbox cannot be had.
    pub require_sandbox: bool,
    /// The most bytes of memory for one process of a call.
    pub memory: u64,
    /// The most bytes of one result.
    pub most_result_bytes: u64,
    /// The most processes of one chat that outlive their calls.
    pub most_left_running: usize,
    /// An idle parent ends after this long.
    pub idle: Duration,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The machine lacks something; the text says what, and what to do.
    #[error("{0}")]
    Unavailable(String),
}

/// Something that outlives the call that started it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id: that of the call.
    pub id: String,
    /// The toolset whose call it was.
    pub toolset: String,
    /// Command lines of what runs.
    pub commands: Vec<String>,
    /// Ports that it listens on.
    pub ports: Vec<u16>,
    /// Since when.
    pub started_at: Timestamp,
}

/// All workers of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Workers {
    settings: Settings,
}

impl Workers {
    /// Nothing is started yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// The tools that are compiled in. Their code comes with the program.
    pub fn builtin(&self) -> Program {
        let entry = |name: &str| {
            let module = if name == "run_command" { "shell" } else { "files" };
            let entrypoint =
                format!("kitbag_builtin.{module}:{name}").parse().expect("a module of ours and its function");
            Entry { entrypoint, input_schema: None }
        };
        Program {
            org: OrgId::local(),
            toolset: "builtin".to_owned(),
            generation: env!("CARGO_PKG_VERSION").to_owned(),
            folder: PathBuf::new(),
            entries: BUILTINS.iter().map(|tool| entry(tool.id)).collect(),
            needs: PythonNeeds::default(),
            network: false,
            listen: false,
            trusted: true,
        }
    }

    /// Builds the environment that a program needs, unless it is there. `heard` gets lines of progress.
    pub async fn prepare(&self, _program: &Program, _heard: UnboundedSender<String>) -> Result<(), WorkerError> {
        Err(self.nothing())
    }

    /// What a program's code says of its tools. The environment is built if it must be.
    pub async fn describe(&self, _program: &Program) -> Result<Description, WorkerError> {
        Err(self.nothing())
    }

    /// Makes one call, to its end: when this returns, everything that the call started is dead or listed by
    /// [`Workers::processes`].
    pub async fn call(&self, _program: &Program, _job: Job, _heard: UnboundedSender<Event>, _stop: Stop) -> Finished {
        let failure = Failure { kind: FailureKind::Unavailable, message: self.nothing().to_string(), traceback: None };
        Finished {
            result: Err(failure),
            logs: Vec::new(),
            logs_cut: 0,
            layers: Vec::new(),
            missing_layers: Vec::new(),
            left_running: false,
        }
    }

    /// What still runs of a chat's calls.
    pub async fn processes(&self, _org: &OrgId, _chat: ChatId) -> Vec<Process> {
        Vec::new()
    }

    /// Ends one of them. Whether there was one.
    pub async fn stop_process(&self, _org: &OrgId, _chat: ChatId, _id: &str) -> bool {
        false
    }

    /// Ends everything of a chat.
    pub async fn end_chat(&self, _org: &OrgId, _chat: ChatId) {}

    /// Ends everything of a toolset, for it was changed or removed.
    pub async fn end_toolset(&self, _org: &OrgId, _toolset: &str) {}

    /// Connects to a port that a process of the chat listens on, inside the chat's own network.
    pub async fn connect(&self, _org: &OrgId, _chat: ChatId, _port: u16) -> io::Result<TcpStream> {
        Err(io::Error::from(io::ErrorKind::ConnectionRefused))
    }

    /// Ends everything.
    pub async fn shut_down(&self) {}

    fn nothing(&self) -> WorkerError {
        WorkerError::Unavailable(format!("there are no workers in {}", self.settings.data.display()))
    }
}
