//! Starting a process: an argument list (never a shell), an environment that is an allow list, no stdin, bounded
//! output, a deadline, and the end of the whole process group when that has passed.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What every child may know of our environment. Anything else is declared by who starts it.
pub(crate) const INHERITED: [&str; 8] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER"];

/// What is kept of each of a child's two outputs.
const OUTPUT_LIMIT: u64 = 64 * 1024;

/// A process to be.
#[derive(Clone, Debug)]
pub struct Spec {
    program: PathBuf,
    args: Vec<OsString>,
    passed: Vec<&'static str>,
    deadline: Duration,
}

/// A process that has ended by itself.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// The beginning of what it printed.
    pub stdout: String,
    /// The beginning of what it said beside.
    pub stderr: String,
}

/// Why a process gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such program.
    #[error("{} is not installed", program.display())]
    NotFound {
        /// Which.
        program: PathBuf,
    },
    /// It could not be started or read.
    #[error("{}: {source}", program.display())]
    Io {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It was still running at its deadline and was killed.
    #[error("{} did not end within {deadline:?}", program.display())]
    Deadline {
        /// Which program.
        program: PathBuf,
        /// How long it had.
        deadline: Duration,
    },
}

impl Spec {
    /// A program, by path or by name, with ten seconds to live.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), passed: Vec::new(), deadline: Duration::from_secs(10) }
    }

    /// With these arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With these variables of our environment too, where they are set.
    pub fn pass(mut self, names: &[&'static str]) -> Self {
        self.passed.extend(names);
        self
    }

    /// With so long to live.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end or its deadline.
    pub async fn run(self) -> Result<Ended, RunError> {
        let program = self.program.clone();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RunError::NotFound { program: program.clone() },
            _ => RunError::Io { program: program.clone(), source },
        };
        let mut child = self.command().spawn().map_err(failed)?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let finished = async {
            let (stdout, stderr) = tokio::try_join!(drain(stdout), drain(stderr))?;
            Ok::<_, io::Error>(Ended { code: child.wait().await?.code(), stdout, stderr })
        };
        let outcome = tokio::time::timeout(self.deadline, finished).await;
        // The group goes in every case: what a child left running must not outlive the call.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        outcome.map_err(|_| RunError::Deadline { program: program.clone(), deadline: self.deadline })?.map_err(failed)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the room for it")]
    fn command(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args).env_clear();
        let known = INHERITED.iter().chain(&self.passed);
        command.envs(known.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// Reads to the end and keeps the beginning, so that a child that prints without end never blocks or fills memory.
async fn drain(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(OUTPUT_LIMIT).read_to_end(&mut kept).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Spec {
        Spec::new("/bin/sh").args(["-c", script])
    }

    #[tokio::test]
    async fn output_and_code_come_back() {
        let ended = sh("echo out; echo err >&2; exit 3").run().await.unwrap();
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(3), "out\n", "err\n"));
    }

    #[tokio::test]
    async fn the_environment_is_an_allow_list() {
        // Cargo sets this for every test, so it is there to be inherited.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let ended = sh("env").run().await.unwrap();
        assert!(ended.stdout.contains("PATH=") && !ended.stdout.contains("CARGO"), "{}", ended.stdout);
    }

    #[tokio::test]
    async fn a_flood_is_cut_and_does_not_block() {
        let ended = sh("head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2").run().await.unwrap();
        assert_eq!(
            (ended.code, ended.stdout.len() as u64, ended.stderr.len() as u64),
            (Some(0), OUTPUT_LIMIT, OUTPUT_LIMIT)
        );
    }

    #[tokio::test]
    async fn the_deadline_ends_the_whole_group() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        // The grandchild holds stdout open, so the parent's end alone would not end the call.
        let script = format!("sleep 600 & echo $! > '{}'; wait", pid_file.display());
        let result = sh(&script).deadline(Duration::from_secs(2)).run().await;
        assert!(matches!(result, Err(RunError::Deadline { .. })), "{result:?}");
        let pid = std::fs::read_to_string(pid_file).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        while !stat().is_empty() && !stat().contains(" Z ") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error = Spec::new("no-such-program-here").run().await.unwrap_err();
        assert_eq!(error.to_string(), "no-such-program-here is not installed");
    }
}
