//! Starting a process that stays, talks over pipes, and is ended with everything that it started.
//!
//! The environment is an allow list, there is no shell, and the child leads a session of its own and dies with us. It runs with
//! our own rights (`free`) or behind a fence, in the sandbox (`fenced`).

mod fenced;
mod free;
mod tree;
mod walls;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::net::unix::pipe;

use fenced::Fenced;
pub use fenced::{Fence, Sandbox};
use free::Free;
use walls::Walls;

/// A process to be, that stays until it is stopped.
#[derive(Clone)]
pub struct ChildSpec {
    program: PathBuf,
    args: Vec<OsString>,
    folder: PathBuf,
    passed: Vec<String>,
    declared: Vec<(OsString, OsString)>,
}

/// The three pipes to a child.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub stdin: pipe::Sender,
    /// What it prints.
    pub stdout: pipe::Receiver,
    /// What it says beside.
    pub stderr: pipe::Receiver,
}

/// A process that runs. Dropping it kills it and its descendants at once.
#[derive(Debug)]
pub struct Child(Kind);

#[derive(Debug)]
enum Kind {
    Free(Free),
    Fenced(Fenced),
}

/// Why there is no child.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program.
    #[error("`{}` is not installed, or cannot be found on the path", .0.display())]
    NotFound(PathBuf),
    /// The folder it should start in is none.
    #[error("the folder `{}` does not exist, or is no folder", .0.display())]
    NoFolder(PathBuf),
    /// A name or a value that no environment can hold.
    #[error("`{0}` cannot be a variable of an environment")]
    BadVariable(String),
    /// It must be confined, and cannot be.
    #[error("it runs in the sandbox alone, and that does not work: {0}")]
    NoSandbox(String),
    /// It could not be started.
    #[error("`{}` cannot be started: {source}", program.display())]
    Io {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ChildSpec {
    /// A program, by path or by name, that starts in `folder`.
    pub fn new(program: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            folder: folder.into(),
            passed: Vec::new(),
            declared: Vec::new(),
        }
    }

    /// With these arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With these variables of our environment too, where they are set.
    pub fn pass(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.passed.extend(names);
        self
    }

    /// With these variables, whatever ours are.
    pub fn declare<V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (V, V)>) -> Self {
        self.declared.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Starts it, with our own rights.
    pub async fn start(self) -> Result<(Child, Pipes), StartError> {
        self.check()?;
        let (child, pipes) = Free::start(&self, None).await?;
        Ok((Child(Kind::Free(child)), pipes))
    }

    /// Starts it behind a fence. Its folder is one that it sees there.
    pub async fn start_behind(self, fence: &Fence, sandbox: &Sandbox) -> Result<(Child, Pipes), StartError> {
        self.check()?;
        fence.make_home().await?;
        if fence.open {
            let home = ["HOME", "TMPDIR"].map(|name| (name.into(), fence.home.clone().into_os_string()));
            let declared = home.into_iter().chain(self.declared).collect();
            let walls = Walls::around(fence, sandbox).map_err(|error| StartError::NoSandbox(error.to_string()))?;
            let (child, pipes) = Free::start(&Self { declared, ..self }, Some(walls)).await?;
            return Ok((Child(Kind::Free(child)), pipes));
        }
        let (program, fence, sandbox) = (self.program.clone(), fence.clone(), sandbox.clone());
        // Whoever waits may go away meanwhile. What was started then is dropped, which ends it, not forgotten.
        let started = tokio::spawn(async move { Fenced::start(self, &fence, &sandbox).await }).await;
        let (child, pipes) = started.map_err(|error| StartError::Io { program, source: error.into() })??;
        Ok((Child(Kind::Fenced(child)), pipes))
    }

    fn check(&self) -> Result<(), StartError> {
        for (name, value) in &self.declared {
            let bytes = name.as_encoded_bytes();
            if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) || value.as_encoded_bytes().contains(&0)
            {
                return Err(StartError::BadVariable(name.to_string_lossy().into_owned()));
            }
        }
        Ok(())
    }
}

/// Kills what children of a process that was killed left alive with their home or their working folder below `folder`, and says how many
/// that were. A child dies with us, but what it started need not. Whoever calls this knows that nobody else uses the folder; it reads
/// much of `/proc`, so it is not for a thread that serves others.
pub fn end_orphans(folder: &Path) -> usize {
    tree::end_orphans(free::MARK, folder)
}

impl Child {
    /// The process id; of one behind a fence, that of the first process there.
    pub fn pid(&self) -> u32 {
        match &self.0 {
            Kind::Free(child) => child.pid(),
            Kind::Fenced(child) => child.pid(),
        }
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        match &mut self.0 {
            Kind::Free(child) => child.ended().await,
            Kind::Fenced(child) => child.ended().await,
        }
    }

    /// Ends it and everything it started: waits `patience` for it to go by itself (its stdin should be closed by now), asks
    /// (SIGTERM) and waits again, then kills.
    pub async fn stop(self, patience: Duration) {
        match self.0 {
            Kind::Free(child) => child.stop(patience).await,
            Kind::Fenced(child) => child.stop(patience).await,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
