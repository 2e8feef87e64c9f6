//! A child behind a fence: it runs in a house of the sandbox, sees the system's programs, its own toolset and a folder that it
//! keeps, and ends with everything that it started, wherever that hid.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::{ChildSpec, Pipes, StartError};
use crate::keeper::{House, Keeper, KeeperError, Resident, SharedKeeper};
use crate::process::INHERITED;

/// The most bytes of a file that it writes.
pub(super) const FILE: u64 = 16 << 30;

/// So many times the memory that it may use it may reserve: programs with a garbage collector reserve it by the dozen.
pub(super) const RESERVED: u64 = 64;

/// The most processes at a time.
const PROCESSES: u64 = 512;

/// How long the kernel may take to end what was killed.
const LAST: Duration = Duration::from_secs(5);

/// Where programs are looked for if our own environment does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What of our environment means something else there.
const ITS_OWN: [&str; 3] = ["HOME", "TMPDIR", "USER"];

/// What stands around one child, and what is inside.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fence {
    /// The folder that it keeps, and sees as [`Fence::HOME`]. It is made if it is not there.
    pub home: PathBuf,
    /// The folder of its toolset, if it has one, which it sees as [`Fence::TOOLSET`] and cannot change.
    pub toolset: Option<PathBuf>,
    /// Whether it is in the machine's own network. If not, it is alone.
    pub network: bool,
    /// Whether there are only walls, for the machine has no namespaces and that was allowed. It sees everything where it is.
    pub open: bool,
    /// Whether the child runs with every layer of the sandbox or not at all, whatever the configuration allows others.
    pub required: bool,
}

/// What all fences have in common.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Who makes them.
    pub keeper: SharedKeeper,
    /// Folders with programs that everybody inside may see, besides the system's. They can only be read.
    pub programs: Vec<PathBuf>,
    /// The most bytes of memory for each process.
    pub memory: u64,
}

impl Fence {
    /// Where a child sees the folder that it keeps.
    pub const HOME: &'static str = "/server";
    /// Where it sees its toolset's files.
    pub const TOOLSET: &'static str = "/toolset";

    /// Where the child finds the folder that it keeps.
    pub fn home_inside(&self) -> &Path {
        if self.open { &self.home } else { Path::new(Self::HOME) }
    }

    /// Where the child finds its toolset's files, if it has any.
    pub fn toolset_inside(&self) -> Option<&Path> {
        let toolset = self.toolset.as_deref()?;
        Some(if self.open { toolset } else { Path::new(Self::TOOLSET) })
    }

    pub(super) async fn make_home(&self) -> Result<(), StartError> {
        let home = self.home.clone();
        let made = tokio::task::spawn_blocking(move || DirBuilder::new().recursive(true).mode(0o700).create(home));
        let made = made.await.map_err(io::Error::other).and_then(|made| made);
        made.map_err(|error| StartError::NoSandbox(format!("its folder cannot be made: {error}")))
    }
}

/// A process that runs in a house. Dropping it ends the house.
#[derive(Debug)]
pub(super) struct Fenced {
    /// The first process there. It is readable when everything in the house is over.
    handle: AsyncFd<OwnedFd>,
    report: OwnedFd,
    pid: u32,
    ended: Option<ExitStatus>,
    /// Without it the house would end.
    _keeper: Arc<Keeper>,
}

impl Fenced {
    pub(super) async fn start(spec: ChildSpec, fence: &Fence, sandbox: &Sandbox) -> Result<(Self, Pipes), StartError> {
        let refused = |error: KeeperError| {
            StartError::NoSandbox(match error {
                KeeperError::Refused(reason) => reason,
                other => other.to_string(),
            })
        };
        let broken = |source: io::Error| StartError::Io { program: spec.program.clone(), source };
        let keeper = sandbox.keeper.get().await.map_err(refused)?;
        if fence.required && !keeper.has_namespaces() {
            let lacks = keeper.lacks().unwrap_or("there are no namespaces").to_owned();
            return Err(StartError::NoSandbox(lacks));
        }
        let (mut trees, mut mounts) = (Vec::new(), Vec::new());
        if let Some(toolset) = &fence.toolset {
            trees.push(keeper.tree(toolset).await.map_err(refused)?);
            mounts.push(Fence::TOOLSET.into());
        }
        for folder in &sandbox.programs {
            trees.push(keeper.public_tree(folder).await.map_err(refused)?);
            mounts.push(folder.clone());
        }
        trees.push(keeper.tree(&fence.home).await.map_err(refused)?);
        let house = House {
            command: command(&spec)?,
            environment: environment(&spec, fence)?,
            mounts,
            kept: vec![Fence::HOME.into()],
            network: fence.network,
            memory: sandbox.memory,
            file: FILE,
            resident: Some(Resident {
                folder: spec.folder.clone(),
                reserved: RESERVED,
                processes: PROCESSES,
                require: fence.required || sandbox.keeper.is_required(),
            }),
        };
        let made = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| broken(error.into()));
        let (their_stdin, stdin) = made()?;
        let (stdout, their_stdout) = made()?;
        let (stderr, their_stderr) = made()?;
        let (report, their_report) = made()?;
        let theirs = [their_stdin, their_stdout, their_stderr, their_report];
        let handle = keeper.resident(house, trees, theirs).await.map_err(refused)?;
        let pid = number_of(&handle).map_err(broken)?;
        // SAFETY: the descriptor is owned by what it is registered for, which never gives it away.
        #[allow(unsafe_code, reason = "the library cannot know that the descriptor stays open")]
        let handle = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
        let handle = handle.map_err(|error| broken(error.into()))?;
        let child = Self { handle, report, pid, ended: None, _keeper: keeper };
        let pipes = || -> io::Result<Pipes> {
            Ok(Pipes {
                stdin: pipe::Sender::from_owned_fd(stdin)?,
                stdout: pipe::Receiver::from_owned_fd(stdout)?,
                stderr: pipe::Receiver::from_owned_fd(stderr)?,
            })
        };
        Ok((child, pipes().map_err(broken)?))
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        // It stays so: the readiness is never cleared.
        let _ = self.handle.readable().await?;
        let mut bytes = [0; 4];
        // Nobody has the other end any more, so this does not wait. Without a word the house was ended from outside.
        let said = rustix::io::read(&self.report, &mut bytes)? == bytes.len();
        let status = if said { i32::from_le_bytes(bytes) } else { libc::SIGKILL };
        Ok(*self.ended.insert(ExitStatus::from_raw(status)))
    }

    pub(super) async fn stop(mut self, patience: Duration) {
        for signal in [Signal::TERM, Signal::KILL] {
            if timeout(patience, self.ended()).await.is_ok() {
                return;
            }
            self.signal(signal);
        }
        let _ = timeout(LAST, self.ended()).await;
    }

    fn signal(&self, signal: Signal) {
        // One that is gone already is as good as one that goes now.
        let _ = pidfd_send_signal(self.handle.get_ref().as_fd(), signal);
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
        }
    }
}

fn command(spec: &ChildSpec) -> Result<Vec<String>, StartError> {
    let words = std::iter::once(spec.program.as_os_str()).chain(spec.args.iter().map(AsRef::as_ref));
    let text = |word: &std::ffi::OsStr| word.to_str().map(ToOwned::to_owned);
    words.map(text).collect::<Option<_>>().ok_or_else(|| StartError::Io {
        program: spec.program.clone(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "its command is not UTF-8"),
    })
}

fn environment(spec: &ChildSpec, fence: &Fence) -> Result<Vec<(String, String)>, StartError> {
    let inherited = INHERITED.iter().copied().filter(|name| !ITS_OWN.contains(name));
    // How to get out is only for those who may.
    let passed = spec.passed.iter().map(String::as_str).filter(|_| fence.network);
    let ours = inherited.chain(passed).filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let own = [("PATH", PATH), ("HOME", Fence::HOME), ("TMPDIR", "/tmp"), ("USER", "server")];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut all: Vec<(String, String)> = own.into_iter().chain(ours).collect();
    for (name, value) in &spec.declared {
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => all.push((name.to_owned(), value.to_owned())),
            _ => return Err(StartError::BadVariable(name.to_string_lossy().into_owned())),
        }
    }
    Ok(all)
}

/// The number that a process has here.
fn number_of(handle: &OwnedFd) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("its number is not known"))
}
