//! A child that runs with our own rights. Its descendants are found again by three marks: they are in its session, they have a
//! random variable of ours in their environment, or they descend from one that has. So neither `setsid` nor a double fork hides
//! a process; only one that does both and wipes its environment at the same time gets away, and that is what a fence is for.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::tree::Family;
use super::walls::Walls;
use super::{ChildSpec, Pipes, StartError};
use crate::process::INHERITED;

/// The variable that marks a child and all that it starts.
pub(super) const MARK: &str = "CHILD_OF_KITBAG";

/// How often the family is looked for again while it is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// So often in a row nobody must be found before nobody is left.
const LOOKS: usize = 3;

/// How often the family is killed before we give up: each round catches what was forked during the one before.
const ROUNDS: usize = 300;

/// A process that runs. Dropping it kills it and its descendants at once.
#[derive(Debug)]
pub(super) struct Free {
    process: tokio::process::Child,
    family: Family,
    stopped: bool,
}

impl Free {
    pub(super) async fn start(spec: &ChildSpec, walls: Option<Walls>) -> Result<(Self, Pipes), StartError> {
        if !is_folder(&spec.folder).await {
            return Err(StartError::NoFolder(spec.folder.clone()));
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => StartError::NotFound(spec.program.clone()),
            _ => StartError::Io { program: spec.program.clone(), source },
        };
        let mark = random_mark().map_err(failed)?;
        let mut process = spawn(command(spec, &mark, walls)).await.map_err(failed)?;
        let leader = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let leader = leader.ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        let pipes = pipes_of(&mut process).map_err(failed)?;
        let family = Family { leader, mark: format!("{MARK}={mark}").into_bytes() };
        Ok((Self { process, family, stopped: false }, pipes))
    }

    pub(super) fn pid(&self) -> u32 {
        self.family.leader.as_raw_pid().unsigned_abs()
    }

    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    pub(super) async fn stop(mut self, patience: Duration) {
        let left = timeout(patience, self.process.wait()).await;
        if left.is_err() || !self.family.members().await.is_empty() {
            self.family.signal(Signal::TERM).await;
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                let gone = matches!(self.process.try_wait(), Ok(Some(_)));
                if gone && self.family.members().await.is_empty() {
                    break;
                }
                sleep(LOOK).await;
            }
        }
        let mut nobody = 0;
        for _ in 0..ROUNDS {
            // One that is just becoming another program has no environment for a moment, and if its parent is gone, no family.
            nobody = if self.family.signal(Signal::KILL).await == 0 { nobody + 1 } else { 0 };
            if nobody == LOOKS {
                break;
            }
            let _ = timeout(LOOK, self.process.wait()).await;
            sleep(LOOK).await;
        }
        self.stopped = true;
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        if !self.stopped {
            self.family.signal_now(Signal::KILL);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
#[allow(unsafe_code, reason = "what runs between fork and exec; it says why it is sound")]
fn command(spec: &ChildSpec, mark: &str, walls: Option<Walls>) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(&spec.program);
    command.args(&spec.args).current_dir(&spec.folder).env_clear();
    let known = INHERITED.iter().copied().chain(spec.passed.iter().map(String::as_str));
    command.envs(known.filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(spec.declared.iter().map(|(name, value)| (name, value))).env(MARK, mark);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let us = getpid();
    // SAFETY: system calls that take no lock and no memory.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have died before the line above.
            if getppid() != Some(us) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            walls.as_ref().map_or(Ok(()), Walls::raise)
        });
    }
    command
}

fn pipes_of(process: &mut tokio::process::Child) -> io::Result<Pipes> {
    let none = || io::Error::other("a pipe is missing");
    Ok(Pipes {
        stdin: pipe::Sender::from_owned_fd(process.stdin.take().ok_or_else(none)?.into_owned_fd()?)?,
        stdout: pipe::Receiver::from_owned_fd(process.stdout.take().ok_or_else(none)?.into_owned_fd()?)?,
        stderr: pipe::Receiver::from_owned_fd(process.stderr.take().ok_or_else(none)?.into_owned_fd()?)?,
    })
}

async fn is_folder(path: &Path) -> bool {
    tokio::fs::metadata(path).await.is_ok_and(|found| found.is_dir())
}

fn random_mark() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// One thread starts all children and never ends: the kernel kills a child when the *thread* that started it is gone, and
/// the runtime's threads come and go.
async fn spawn(command: tokio::process::Command) -> io::Result<tokio::process::Child> {
    type Job = (tokio::process::Command, Handle, oneshot::Sender<io::Result<tokio::process::Child>>);
    static JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (jobs, todo) = mpsc::channel::<Job>();
        let work = move || {
            for (mut command, runtime, reply) in todo {
                let _inside = runtime.enter();
                let _ = reply.send(command.spawn());
            }
        };
        // Without the thread the queue is closed, which the caller is told below.
        let _ = std::thread::Builder::new().name("kitbag-children".to_owned()).spawn(work);
        jobs
    });
    let (reply, done) = oneshot::channel();
    let gone = |_| io::Error::other("there is no thread to start it");
    jobs.send((command, Handle::current(), reply)).map_err(|_| io::Error::other("there is no thread to start it"))?;
    done.await.map_err(gone)?
}
