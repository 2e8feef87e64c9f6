//! A warm parent: a process in a house of its own that has imported a toolset's modules and forks for every call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kitbag_guard::keeper::{self, House, Keeper, Started};
use kitbag_model::{Description as ToolDescription, DisplayName, Entrypoint, OrgId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::environment::Lent;
use crate::frames;
use crate::interpreter::Interpreter;
use crate::packets;
use crate::program::{Described, Description, Entry, Program};
use crate::workers::{Settings, WorkerError};

/// The most bytes that a toolset may say of its tools.
const LONGEST: u64 = 16 * 1024 * 1024;
/// How many children wait for a call.
const AHEAD: u32 = 1;
/// The most processes of one chat at a time.
const PROCESSES: u32 = 512;
/// The interpreter finds its functions when it starts, not in every process that it forks. It forgets this variable then.
const BIND_NOW: (&str, &str) = ("LD_BIND_NOW", "1");
/// The most bytes of a file that a tool writes.
const FILE: u64 = 16 * 1024 * 1024 * 1024;
/// What is kept of what the parent itself says.
const SAID: usize = 8 * 1024;

/// Why there is no parent.
pub(crate) enum StartError {
    /// The toolset's own code ended it, or did not come to an end.
    Code(String),
    /// Everything else.
    Worker(WorkerError),
}

impl From<keeper::KeeperError> for StartError {
    fn from(error: keeper::KeeperError) -> Self {
        Self::Worker(WorkerError::Unavailable(error.to_string()))
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Worker(WorkerError::Unavailable(format!("a worker cannot be started: {error}")))
    }
}

impl From<rustix::io::Errno> for StartError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// A warm parent. Its house ends when this is dropped.
pub(crate) struct Parent {
    keeper: Arc<Keeper>,
    house: Started,
    door: OwnedFd,
    /// The parent ends when this closes.
    _hello: UnixStream,
    pub(crate) generation: String,
    pub(crate) powers: (bool, bool),
    pub(crate) description: Description,
    /// Its packages stay as long as it does.
    _environment: Option<Lent>,
    used: Mutex<Instant>,
    alive: Arc<AtomicBool>,
    ending: AtomicBool,
}

/// Where things are, as the parent sees them.
struct Places {
    sdk: PathBuf,
    root: PathBuf,
    environment: Option<PathBuf>,
    workspace: &'static str,
    writing: Vec<&'static str>,
    reading: Vec<PathBuf>,
}

/// What a parent is made from, beside the program.
pub(crate) struct Makings<'a> {
    pub(crate) keeper: &'a Arc<Keeper>,
    pub(crate) packages: &'a Path,
    pub(crate) interpreter: &'a Interpreter,
    pub(crate) environment: Option<&'a Lent>,
    pub(crate) settings: &'a Settings,
}

impl Parent {
    /// Starts one that imports these entries' modules.
    pub(crate) async fn start(makings: &Makings<'_>, program: &Program, entries: &[Entry]) -> Result<Self, StartError> {
        let Makings { keeper, packages, interpreter, environment, settings } = makings;
        let namespaces = keeper.has_namespaces();
        let places = places(makings, program);
        let mut folders: Vec<(&Path, &Path)> = vec![(packages, &places.sdk), (&program.folder, &places.root)];
        folders.extend(environment.map(|folder| folder.as_path()).zip(places.environment.as_deref()));
        folders.extend(interpreter.folder().map(|folder| (folder, folder)));
        let (mut trees, mut mounts) = (Vec::new(), Vec::new());
        if namespaces {
            for (folder, seen) in folders {
                trees.push(keeper.tree(folder).await?);
                mounts.push(seen.to_owned());
            }
        }
        let (hello, theirs) = StdUnixStream::pair()?;
        hello.set_nonblocking(true)?;
        let mut hello = UnixStream::from_std(hello)?;
        let (door, their_door) = packets::pair()?;
        let (said, says) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let alive = Arc::new(AtomicBool::new(true));
        let said = listen(said, &program.toolset, &alive)?;
        let house = House {
            command: command(&places, interpreter),
            environment: variables(&places, if program.network { &settings.passed } else { &[] }),
            mounts,
            kept: Vec::new(),
            network: program.network,
            memory: settings.memory,
            file: FILE,
            resident: None,
        };
        let started = keeper.house(house, trees, vec![says, theirs.into(), their_door]).await?;
        let filters: Vec<String> =
            keeper::for_calls().iter().map(|program| STANDARD.encode(keeper::to_bytes(program))).collect();
        let first = json!({
            "root": places.root,
            "entries": entries.iter().map(|entry| json!({ "entrypoint": entry.entrypoint, "schema": entry.input_schema }))
                .collect::<Vec<_>>(),
            "filters": filters,
            "namespaces": namespaces,
            "network": program.network,
            "workspace": places.workspace,
            "reading": places.reading,
            "writing": places.writing,
            "require": settings.require_sandbox || program.org != OrgId::local(),
            "processes": PROCESSES,
            "ahead": AHEAD,
        });
        let described = async {
            frames::write(&mut hello, &first).await?;
            frames::read::<Found>(&mut hello, LONGEST).await
        };
        let found = match tokio::time::timeout(settings.import, described).await {
            Ok(Ok(Some(found))) => found,
            outcome => {
                let _ = keeper.end(started).await;
                let what = match outcome {
                    Err(_) => format!("its code was still being imported after {} seconds", settings.import.as_secs()),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
                    Ok(_) => "its code ended the process that imported it".to_owned(),
                };
                let last = said.lock().unwrap_or_else(PoisonError::into_inner);
                let last = String::from_utf8_lossy(&last);
                return Err(StartError::Code(format!("{what}\n{}", last.trim()).trim().to_owned()));
            }
        };
        let description = Description { tools: found.tools.into_iter().map(Described::from).collect() };
        Ok(Self {
            keeper: Arc::clone(keeper),
            house: started,
            door,
            _hello: hello,
            generation: program.generation.clone(),
            powers: (program.network, program.listen),
            description,
            _environment: environment.cloned(),
            used: Mutex::new(Instant::now()),
            alive,
            ending: AtomicBool::new(false),
        })
    }

    /// Sends whichever child waits to a chat's room: a note, and descriptors.
    pub(crate) async fn send_to_room(&self, note: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.touch();
        packets::send(self.door.as_fd(), note, fds).await
    }

    /// It is being used.
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether it can take calls.
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// When it was last used.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was told to end, with all its calls.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Ends it and everything in it, now.
    pub(crate) async fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = self.keeper.end(self.house).await;
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        // It ends by itself when its socket closes, unless its code has seen to it that it does not.
        let (keeper, house) = (Arc::clone(&self.keeper), self.house);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { keeper.end(house).await });
        }
    }
}

fn places(makings: &Makings<'_>, program: &Program) -> Places {
    if makings.keeper.has_namespaces() {
        return Places {
            sdk: "/kitbag".into(),
            root: "/toolset".into(),
            environment: makings.environment.map(|_| "/env".into()),
            workspace: "/workspace",
            writing: vec!["/tmp", "/dev"],
            reading: vec!["/".into()],
        };
    }
    let mut reading: Vec<PathBuf> =
        ["/usr", "/bin", "/lib", "/lib64", "/dev", "/proc/self"].into_iter().map(PathBuf::from).collect();
    reading.extend(keeper::ETC.iter().map(|name| Path::new("/etc").join(name)));
    reading.extend([makings.packages.to_owned(), program.folder.clone()]);
    reading.extend(makings.environment.map(|folder| folder.to_path_buf()));
    reading.extend(makings.interpreter.folder().map(Path::to_owned));
    Places {
        sdk: makings.packages.to_owned(),
        root: program.folder.clone(),
        environment: makings.environment.map(|folder| folder.to_path_buf()),
        workspace: "",
        writing: vec!["/tmp", "/dev/null", "/dev/zero", "/dev/shm"],
        reading,
    }
}

fn command(places: &Places, interpreter: &Interpreter) -> Vec<String> {
    let program = match &places.environment {
        Some(environment) => environment.join("bin/python"),
        None => interpreter.program.clone(),
    };
    let mut command = vec![program.display().to_string(), "-I".to_owned(), "-B".to_owned()];
    if places.environment.is_none() {
        // Packages that happen to be on this machine are none of the toolset's.
        command.push("-S".to_owned());
    }
    command.extend([
        places.sdk.join("kitbag_worker/__main__.py").display().to_string(),
        "{0}".to_owned(),
        "{1}".to_owned(),
    ]);
    command
}

fn variables(places: &Places, passed: &[String]) -> Vec<(String, String)> {
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let path = match &places.environment {
        Some(environment) => format!("{}:{system}", environment.join("bin").display()),
        None => system.to_owned(),
    };
    let mut variables: Vec<(String, String)> = [
        ("PATH", path.as_str()),
        ("HOME", "/tmp"),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
        ("USER", "tool"),
        BIND_NOW,
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let known = passed.iter().map(String::as_str).chain(["TZ"]);
    variables.extend(known.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))));
    variables
        .extend(places.environment.as_ref().map(|folder| ("VIRTUAL_ENV".to_owned(), folder.display().to_string())));
    variables
}

/// Keeps the end of what the parent itself says: it matters when it ends.
fn listen(pipe: OwnedFd, toolset: &str, alive: &Arc<AtomicBool>) -> io::Result<Arc<Mutex<Vec<u8>>>> {
    let mut pipe = pipe::Receiver::from_owned_fd(pipe)?;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (said, toolset, alive) = (Arc::clone(&kept), toolset.to_owned(), Arc::clone(alive));
    tokio::spawn(async move {
        let mut chunk = vec![0; 4096];
        while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
            tracing::debug!(toolset, said = %String::from_utf8_lossy(&chunk[..length]), "a worker said something");
            let mut kept = said.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&chunk[..length]);
            let excess = kept.len().saturating_sub(SAID);
            kept.drain(..excess);
        }
        // Nobody is left who could say anything.
        alive.store(false, Ordering::Relaxed);
    });
    Ok(kept)
}

#[derive(Deserialize)]
struct Found {
    tools: Vec<FoundTool>,
}

/// As the SDK says it. It is the toolset's code that says it, so nothing about it is sure.
#[derive(Deserialize)]
struct FoundTool {
    entrypoint: Entrypoint,
    problem: Option<String>,
    name: Option<String>,
    description: Option<String>,
    requires_confirmation: Option<bool>,
    category: Option<String>,
    input_schema: Option<Map<String, Value>>,
    output_schema: Option<Map<String, Value>>,
}

impl From<FoundTool> for Described {
    fn from(found: FoundTool) -> Self {
        // What a manifest may not say, code may not say either.
        let name = found.name.as_deref().map(str::parse::<DisplayName>).and_then(Result::err).map(|e| ("name", e));
        let text = found.description.as_deref().map(str::parse::<ToolDescription>).and_then(Result::err);
        if let Some((what, error)) = name.or_else(|| text.map(|error| ("description", error))) {
            return Self::broken(found.entrypoint, format!("its {what} {error}"));
        }
        Self {
            entrypoint: found.entrypoint,
            problem: found.problem,
            name: found.name,
            description: found.description,
            requires_confirmation: found.requires_confirmation,
            category: found.category,
            input_schema: found.input_schema.unwrap_or_default(),
            output_schema: found.output_schema,
        }
    }
}
