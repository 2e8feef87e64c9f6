//! The machine: agents that are shell scripts and do what their prompt says, the executor inside this process or as a program of its
//! own, and what runs are asked for.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kitbag_executor::Spool;
use kitbag_executor::attempt::Machine;
use kitbag_executor::credentials::Credentials;
use kitbag_executor::daemon::{self, CollectLimits, End, Setup, Stop};
use kitbag_executor::engine::find_all;
use kitbag_executor::link::{Link, Patience, Route};
use kitbag_executor::place::Place;
use kitbag_executor::prepare::Variables;
use kitbag_executor::voice::Voice;
use kitbag_model::run::wire::{Assignment, AttemptId, FoundEngine};
use kitbag_model::run::{Application, NotApplied};
use kitbag_model::{ExecutorId, RunId, Secret};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::stand_in::{PAIRING, StandIn, TOKEN};

/// Says its version, or does what its prompt says and tells it as Codex does.
const CODEX: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo codex-cli 0.166.0 && exit
say() { printf '{"type":"item.completed","item":{"id":"%s","type":"agent_message","text":"%s"}}\n' "$1" "$1"; }
wait_for() { until [ -e "$1" ]; do sleep 0.02; done; }
echo '{"type":"turn.started"}'
eval "$(cat)"
echo '{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":4}}'
"#;

/// A machine with an agent, and a data folder.
pub struct Bench {
    pub folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.folder.path().join("bin")).unwrap();
        let codex = bench.folder.path().join("bin/codex");
        fs::write(&codex, CODEX).unwrap();
        fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A file beside the data folder, for scripts and tests to meet at.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn place(&self) -> Place {
        Place::open(&self.data()).unwrap()
    }

    /// Waits until the executor keeps nothing any more.
    pub async fn empty(&self) {
        let place = self.place();
        until("the spool and the folders are empty", || {
            let spool = fs::read_dir(place.spool()).map_or(0, Iterator::count);
            let folders = folders(&place.runs(), 3);
            spool + folders == 0
        })
        .await;
    }

    /// The executor inside this process. It tries again sooner than it would.
    pub async fn start(&self, server: &StandIn, change: impl FnOnce(&mut Setup)) -> Inside {
        let place = self.place();
        let credentials = Credentials {
            server: server.url().parse().unwrap(),
            executor_id: ExecutorId::generate(),
            token: Secret::new(TOKEN),
            organization_id: "acme".parse().unwrap(),
            gateway: String::new(),
        };
        let programs = vec![self.folder.path().join("bin")];
        let engines = find_all(&programs, &Variables::new([], Vec::new())).await.into_iter();
        let mut setup = Setup {
            machine: Machine::new(place.runs(), programs, Variables::new([], Vec::new())),
            engines: engines.map(|found| FoundEngine { id: found.engine, version: found.version }).collect(),
            link: Link::new(&credentials, &Route::default()).await.unwrap(),
            spool: Spool::open(&place.spool()).unwrap(),
            capacity: 4,
            grace: Duration::from_secs(60),
            keep_folders: false,
            limits: CollectLimits::default(),
            patience: Patience {
                first: Duration::from_millis(5),
                most: Duration::from_millis(50),
                jitter: Duration::from_millis(5),
                ping: Duration::from_millis(200),
                ..Patience::default()
            },
            voice: Voice::new(true),
        };
        change(&mut setup);
        let (stop, stopped) = watch::channel(Stop::No);
        Inside { stop, task: tokio::spawn(async move { daemon::run(setup, stopped).await.unwrap() }) }
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kitbag-executor"));
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        command.args(args).env_clear().env("PATH", path).env("KITBAG_DATA", self.data()).stdin(Stdio::null());
        command
    }

    /// The program, run to its end.
    pub async fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    pub async fn pair(&self, server: &StandIn) {
        let paired = self.run(&["pair", PAIRING, "--server", server.url()]).await;
        assert!(paired.status.success(), "{paired:?}");
    }

    /// The program, at work.
    pub fn spawn(&self, args: &[&str]) -> Process {
        let args: Vec<&str> = ["start", "--json", "--log", "warn"].iter().chain(args).copied().collect();
        let output = fs::File::create(self.at("output")).unwrap();
        Process(self.command(&args).stdout(output).spawn().unwrap())
    }
}

fn folders(below: &Path, deep: usize) -> usize {
    let entries: Vec<PathBuf> = fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if deep == 1 { entries.len() } else { entries.iter().map(|entry| folders(entry, deep - 1)).sum() }
}

/// An executor that works inside this process.
pub struct Inside {
    pub stop: watch::Sender<Stop>,
    task: JoinHandle<End>,
}

impl Inside {
    pub async fn end(self) -> End {
        tokio::time::timeout(Duration::from_secs(60), self.task).await.expect("it ends").unwrap()
    }
}

/// A program that works. It does not outlive its test.
pub struct Process(Child);

impl Process {
    /// As the kernel would when memory is short.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    pub async fn ended(mut self) -> Option<i32> {
        let mut code = None;
        until("the program ends", || {
            code = self.0.try_wait().unwrap();
            code.is_some()
        })
        .await;
        code.unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds, which it must.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The numbers of processes that a script wrote into a file, one a line.
pub fn pids(path: &Path) -> Vec<u32> {
    fs::read_to_string(path).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// An attempt whose agent runs a script.
pub fn job(script: &str) -> Assignment {
    Assignment {
        id: AttemptId { run_id: RunId::generate(), attempt: 1 },
        organization_id: "acme".parse().unwrap(),
        config: json!({
            "prompt": script, "engine": { "id": "gateway.codex.v2" }, "limits": { "timeoutMs": 120_000 },
        }),
        application: Application::Nothing(NotApplied::NoToolset),
        toolset: None,
        files: BTreeMap::new(),
        keep_files: false,
        acknowledged: 0,
        trace: None,
    }
}

/// A script that says the numbers up to `count`, a little apart so that they come in many messages.
pub fn counting(count: usize) -> String {
    format!("for n in $(seq {count}); do say $n; sleep 0.01; done")
}

pub fn numbers(count: usize) -> Vec<String> {
    (1..=count).map(|number| number.to_string()).collect()
}
