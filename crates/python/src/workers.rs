//! All workers of a server: the keeper, the warm parents, the rooms.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use kitbag_guard::keeper::{Keeper, SharedKeeper};
use kitbag_model::{BUILTINS, ChatId, OrgId, PythonNeeds, Timestamp};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OnceCell, broadcast, watch};

use crate::call::{Event, Failure, FailureKind, Finished, Job, Stop, stopped};
use crate::environment::Environments;
use crate::interpreter::{Interpreter, Interpreters};
use crate::packages;
use crate::parent::{Makings, Parent, StartError};
use crate::program::{Described, Description, Entry, Program};
use crate::rooms::Rooms;
use crate::running::Running;

/// A chat in which a toolset has not been called for so long has no process of it any more. The next call starts one.
const HOST_IDLE: Duration = Duration::from_secs(20);

/// How workers are set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data folder: environments and the packages of the program are kept below it.
    pub data: PathBuf,
    /// The program and the arguments that start the keeper.
    pub keeper: Vec<PathBuf>,
    /// Whether a call is refused when a layer of the sandbox cannot be had.
    pub require_sandbox: bool,
    /// The most bytes of memory for one process of a call.
    pub memory: u64,
    /// The most bytes of one result.
    pub most_result_bytes: u64,
    /// The most calls of one chat that leave something running.
    pub most_left_running: usize,
    /// The variables of our environment that a toolset with network access may know, where they are set.
    pub passed: Vec<String>,
    /// An idle parent ends after this long.
    pub idle: Duration,
    /// How long a toolset's modules may take to be imported.
    pub import: Duration,
}

/// Why there is no worker.
#[derive(Clone, Debug, thiserror::Error)]
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

type Key = (OrgId, String);

/// All workers of a server. Clones share them.
#[derive(Clone)]
pub struct Workers(Arc<Inner>);

struct Inner {
    settings: Settings,
    environments: Environments,
    interpreters: Interpreters,
    packages: OnceCell<PathBuf>,
    keeper: SharedKeeper,
    /// The keeper that the rooms belong to.
    last: Mutex<Weak<Keeper>>,
    parents: Mutex<HashMap<Key, Arc<Slot>>>,
    rooms: Rooms,
    over: watch::Sender<bool>,
    ended: broadcast::Sender<(OrgId, ChatId)>,
}

/// The place of one toolset's parent. Whoever holds it is starting one.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<Arc<Parent>>>);

impl Workers {
    /// Nothing is started yet.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Inner {
            environments: Environments::new(&settings.data),
            keeper: SharedKeeper::new(settings.keeper.clone(), settings.data.clone(), settings.require_sandbox),
            last: Mutex::default(),
            settings,
            interpreters: Interpreters::default(),
            packages: OnceCell::new(),
            parents: Mutex::default(),
            rooms: Rooms::default(),
            over: watch::Sender::new(false),
            ended: broadcast::Sender::new(64),
        }))
    }

    /// The tools that are compiled in, as a program.
    pub async fn builtin(&self) -> Result<Program, WorkerError> {
        let entry = |tool: &kitbag_model::Builtin| {
            let module = if tool.id == "run_command" { "shell" } else { "files" };
            let entrypoint = format!("kitbag_builtin.{module}:{}", tool.id);
            Entry { entrypoint: entrypoint.parse().expect("built-in tools have good names"), input_schema: None }
        };
        let folder = self.packages().await?;
        Ok(Program {
            org: OrgId::local(),
            toolset: "builtin".to_owned(),
            // Named by what is in it, and so the same wherever it is.
            generation: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            folder,
            entries: BUILTINS.iter().map(entry).collect(),
            needs: PythonNeeds::default(),
            network: false,
            listen: false,
            trusted: true,
        })
    }

    /// Whether everything that a program needs is there, so that it can start without fetching anything.
    pub async fn is_prepared(&self, program: &Program) -> bool {
        let interpreter = self.interpreter(program).await;
        interpreter.is_ok_and(|interpreter| self.0.environments.is_ready(program, &interpreter))
    }

    /// Builds the environment that a program needs, unless it is there. `heard` gets lines of progress.
    pub async fn prepare(&self, program: &Program, heard: UnboundedSender<String>) -> Result<(), WorkerError> {
        let interpreter = self.interpreter(program).await?;
        self.0.environments.of(program, &interpreter, &heard).await.map(drop)
    }

    /// Removes the environments that none of these programs needs, which are all that there are, and that no worker uses.
    pub async fn keep_environments(&self, programs: &[Program]) {
        if self.0.environments.is_empty() {
            return;
        }
        let mut needed = Vec::new();
        for program in programs {
            // One without an interpreter cannot run, and needs nothing.
            if let Ok(interpreter) = self.interpreter(program).await {
                needed.push((program.clone(), interpreter));
            }
        }
        let inner = Arc::clone(&self.0);
        let removed = tokio::task::spawn_blocking(move || inner.environments.keep(&needed)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "packages that no toolset needs could not be removed");
        }
    }

    /// What a program's code says of its tools. The environment is built if it must be.
    pub async fn describe(&self, program: &Program) -> Result<Description, WorkerError> {
        Ok(self.parent(program, None).await?.description.clone())
    }

    /// Makes one call, to its end: when this returns, everything that the call started is dead or listed by
    /// [`Workers::processes`].
    pub async fn call(&self, program: &Program, job: Job, heard: UnboundedSender<Event>, stop: Stop) -> Finished {
        let made = async {
            let parent = self.parent(program, Some(&heard)).await?;
            let keeper = self.keeper().await?;
            let unavailable = |error: kitbag_guard::keeper::KeeperError| WorkerError::Unavailable(error.to_string());
            let room = self.0.rooms.of(&keeper, &job.org, job.chat).await.map_err(unavailable)?;
            Ok::<_, WorkerError>((parent, keeper, room))
        };
        let mut cancelled = stop.clone();
        let made = tokio::select! {
            made = made => made,
            () = stopped(&mut cancelled) => return without_a_worker(FailureKind::Cancelled, "the call was cancelled"),
        };
        match made {
            Ok((parent, keeper, room)) => {
                let settings = &self.0.settings;
                let running =
                    Running { keeper: &keeper, parent: &parent, room: &room, settings, program, ended: &self.0.ended };
                running.run(job, heard, stop).await
            }
            Err(error) => without_a_worker(FailureKind::Unavailable, &error.to_string()),
        }
    }

    /// Tells in which chats something that outlived its call has ended.
    pub fn ended(&self) -> broadcast::Receiver<(OrgId, ChatId)> {
        self.0.ended.subscribe()
    }

    /// What still runs of a chat's calls.
    pub async fn processes(&self, org: &OrgId, chat: ChatId) -> Vec<Process> {
        let Some(room) = self.0.rooms.find(org, chat) else { return Vec::new() };
        let looked = tokio::task::spawn_blocking(move || room.processes());
        looked.await.unwrap_or_default()
    }

    /// Ends one of them. Whether there was one.
    pub async fn stop_process(&self, org: &OrgId, chat: ChatId, id: &str) -> bool {
        self.0.rooms.find(org, chat).is_some_and(|room| room.end(|left| left.id == id))
    }

    /// Ends everything of a chat.
    pub async fn end_chat(&self, org: &OrgId, chat: ChatId) {
        if let Some(room) = self.0.rooms.remove(org, chat) {
            room.end(|_| true);
            room.end_hosts(None).await;
        }
    }

    /// Ends everything of a toolset, for it was changed or removed.
    pub async fn end_toolset(&self, org: &OrgId, toolset: &str) {
        for ((owner, _), room) in self.0.rooms.all() {
            if owner == *org {
                room.end(|left| left.toolset == toolset);
            }
        }
        let slot = self.parents().remove(&(org.clone(), toolset.to_owned()));
        if let Some(slot) = slot
            && let Some(parent) = slot.0.lock().await.take()
        {
            parent.end().await;
        }
        for ((owner, _), room) in self.0.rooms.all() {
            if owner == *org {
                room.end_hosts(Some(toolset)).await;
            }
        }
    }

    /// Connects to a port that a process of the chat listens on, inside the chat's own network.
    pub async fn connect(&self, org: &OrgId, chat: ChatId, port: u16) -> io::Result<TcpStream> {
        let nothing = || io::Error::new(io::ErrorKind::ConnectionRefused, format!("nothing listens on port {port}"));
        let room = self.0.rooms.find(org, chat).ok_or_else(nothing)?;
        let keeper = self.0.keeper.there().await.ok_or_else(nothing)?;
        room.connect(&keeper, port).await
    }

    /// Ends parents that have been idle for long. Call it now and then.
    pub async fn tidy(&self) {
        if let Some(since) = Instant::now().checked_sub(HOST_IDLE) {
            self.0.rooms.all().iter().for_each(|(_, room)| room.end_idle_hosts(since));
        }
        let slots: Vec<Arc<Slot>> = self.parents().values().cloned().collect();
        for slot in slots {
            let Ok(mut parent) = slot.0.try_lock() else { continue };
            let idle = |parent: &Arc<Parent>| {
                // A call that runs, or left something running, holds it too.
                Arc::strong_count(parent) == 1 && parent.used().elapsed() > self.0.settings.idle
            };
            if parent.as_ref().is_some_and(idle) {
                *parent = None;
            }
        }
    }

    /// Ends everything.
    pub async fn shut_down(&self) {
        self.0.over.send_replace(true);
        for (_, room) in self.0.rooms.all() {
            room.end(|_| true);
            room.end_hosts(None).await;
        }
        let slots: Vec<Arc<Slot>> = self.parents().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            if let Some(parent) = slot.0.lock().await.take() {
                parent.end().await;
            }
        }
        self.0.keeper.end().await;
    }

    fn parents(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.0.parents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn packages(&self) -> Result<PathBuf, WorkerError> {
        let install = || async { packages::install(&self.0.settings.data) };
        let installed = self.0.packages.get_or_try_init(install).await;
        installed
            .cloned()
            .map_err(|error| WorkerError::Unavailable(format!("the worker's files cannot be written: {error}")))
    }

    async fn interpreter(&self, program: &Program) -> Result<Interpreter, WorkerError> {
        self.0.interpreters.choose(program.needs.version.as_ref()).await
    }

    /// The keeper, for others who need it.
    pub fn shared_keeper(&self) -> SharedKeeper {
        self.0.keeper.clone()
    }

    /// The keeper, which is started if there is none, or none any more.
    async fn keeper(&self) -> Result<Arc<Keeper>, WorkerError> {
        let keeper = self.0.keeper.get().await.map_err(|error| WorkerError::Unavailable(error.to_string()))?;
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(last.as_ptr(), Arc::as_ptr(&keeper)) {
            // Rooms are gone with the keeper that made them.
            self.0.rooms.clear();
            if let Some(error) = keeper.lacks() {
                tracing::warn!(error, "tools run without namespaces, as the configuration allows");
            }
            *last = Arc::downgrade(&keeper);
        }
        Ok(keeper)
    }

    /// The warm parent of a program as it is now.
    async fn parent(
        &self,
        program: &Program,
        call: Option<&UnboundedSender<Event>>,
    ) -> Result<Arc<Parent>, WorkerError> {
        let slot = Arc::clone(self.parents().entry((program.org.clone(), program.toolset.clone())).or_default());
        let mut place = slot.0.lock().await;
        let keeper = self.keeper().await?;
        if program.org != OrgId::local() && !keeper.has_namespaces() {
            // The operator may take that risk alone, not for everybody who shares the machine.
            let lacks = keeper.lacks().unwrap_or("this machine gives no namespaces");
            return Err(WorkerError::Unavailable(format!(
                "the sandbox cannot be had, and organisations other than `local` run nothing without it: {lacks}"
            )));
        }
        let fits = |parent: &&Arc<Parent>| {
            parent.generation == program.generation
                && parent.powers == (program.network, program.listen)
                && parent.is_alive()
        };
        if let Some(parent) = place.as_ref().filter(fits) {
            return Ok(Arc::clone(parent));
        }
        let packages = self.packages().await?;
        let interpreter = self.interpreter(program).await?;
        let (heard, mut lines) = unbounded_channel();
        let (toolset, call) = (program.toolset.clone(), call.cloned());
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                tracing::info!(toolset, "{line}");
                // Whoever waits for the call hears what it waits for.
                if let Some(call) = &call {
                    let _ = call.send(Event::Progress { fraction: None, message: Some(line) });
                }
            }
        });
        let environment = self.0.environments.of(program, &interpreter, &heard).await?;
        let makings = Makings {
            keeper: &keeper,
            packages: &packages,
            interpreter: &interpreter,
            environment: environment.as_ref(),
            settings: &self.0.settings,
        };
        let parent = match Parent::start(&makings, program, &program.entries).await {
            Err(StartError::Code(_)) => one_by_one(&makings, program).await?,
            started => started.map_err(|error| match error {
                StartError::Code(message) => WorkerError::Unavailable(message),
                StartError::Worker(error) => error,
            })?,
        };
        let parent = Arc::new(parent);
        *place = Some(Arc::clone(&parent));
        Ok(parent)
    }
}

/// The code of some module ends its process, or never ends. Each is tried alone, and those that do so are left out.
async fn one_by_one(makings: &Makings<'_>, program: &Program) -> Result<Parent, WorkerError> {
    let mut problems: HashMap<&str, String> = HashMap::new();
    let mut modules: Vec<&str> = program.entries.iter().map(|entry| entry.entrypoint.module()).collect();
    modules.sort_unstable();
    modules.dedup();
    for module in modules {
        let of_module: Vec<Entry> =
            program.entries.iter().filter(|entry| entry.entrypoint.module() == module).cloned().collect();
        match Parent::start(makings, program, &of_module).await {
            Ok(parent) => parent.end().await,
            Err(StartError::Code(message)) => drop(problems.insert(module, message)),
            Err(StartError::Worker(error)) => return Err(error),
        }
    }
    let good: Vec<Entry> =
        program.entries.iter().filter(|entry| !problems.contains_key(entry.entrypoint.module())).cloned().collect();
    let mut parent = match Parent::start(makings, program, &good).await {
        Ok(parent) => parent,
        Err(StartError::Code(message)) => return Err(WorkerError::Unavailable(message)),
        Err(StartError::Worker(error)) => return Err(error),
    };
    let mut found = std::mem::take(&mut parent.description.tools).into_iter();
    parent.description.tools = program
        .entries
        .iter()
        .filter_map(|entry| match problems.get(entry.entrypoint.module()) {
            Some(problem) => Some(Described::broken(entry.entrypoint.clone(), problem.clone())),
            None => found.next(),
        })
        .collect();
    Ok(parent)
}

fn without_a_worker(kind: FailureKind, message: &str) -> Finished {
    Finished {
        result: Err(Failure { kind, message: message.to_owned(), traceback: None }),
        logs: Vec::new(),
        logs_cut: 0,
        layers: Vec::new(),
        missing_layers: Vec::new(),
        left_running: false,
    }
}
