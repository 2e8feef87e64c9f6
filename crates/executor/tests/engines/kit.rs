//! What these tests share: a machine with agents, an attempt at a run with a toolset, and what came of it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use kitbag_executor::Failure;
use kitbag_executor::attempt::{Machine, attempt};
use kitbag_executor::prepare::{Files, RunFolder, Variables};
use kitbag_model::run::wire::{Assignment, AttemptId, FileRef, ServerSnapshot, SkillSnapshot, ToolsetSnapshot};
use kitbag_model::run::{Application, EngineId, Profile, RunEventKind, RunOutcome, RunState, ToolsetFrom};
use kitbag_model::{ContentHash, RunId, WorkPath};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::stand_in::StandIn;

/// The value of a variable that a server gets, and the model's key. Neither may be seen.
pub(crate) const SECRET: &str = "s3cr3t-value-of-a-variable";
pub(crate) const KEY: &str = "model-key-that-nobody-sees";

/// What the skill says of itself.
pub(crate) const ABOUT: &str = "How to greet a zebra properly.";

/// What it says to whoever uses it.
pub(crate) const GREET: &str = "Read notes.md, then greet.";

/// A path that `scripts/test` sets.
pub(crate) fn installed(variable: &str, inside: &str) -> String {
    let Some(base) = std::env::var_os(variable) else {
        panic!("{variable} is not set: run `scripts/test`, which installs what the tests need and says where it is")
    };
    let path = PathBuf::from(base).join(inside);
    assert!(path.exists(), "{} is missing: run `scripts/test`, which installs it", path.display());
    path.display().to_string()
}

/// Contents by their hashes.
#[derive(Default)]
pub(crate) struct Contents(HashMap<ContentHash, Vec<u8>>);

impl Contents {
    pub(crate) fn add(&mut self, content: &str) -> FileRef {
        let sha256 = ContentHash::of(content.as_bytes());
        self.0.insert(sha256, content.as_bytes().to_owned());
        FileRef { sha256, size: content.len() as u64, executable: false }
    }
}

impl Files for Contents {
    async fn get(&self, hash: ContentHash) -> Result<Vec<u8>, Failure> {
        self.0.get(&hash).cloned().ok_or_else(|| Failure::new("NOT_FOUND", hash))
    }
}

/// An attempt to be.
pub(crate) struct Kit {
    pub(crate) root: TempDir,
    pub(crate) model: StandIn,
    pub(crate) machine: Machine,
    pub(crate) contents: Contents,
    pub(crate) job: Assignment,
    pub(crate) cancel: watch::Sender<bool>,
}

/// What came of it.
pub(crate) struct Over {
    pub(crate) outcome: RunOutcome,
    pub(crate) events: Vec<RunEventKind>,
    pub(crate) folder: RunFolder,
}

impl Kit {
    /// A run of this engine with a toolset of one server and one skill, whose model follows a script.
    pub(crate) fn new(engine: EngineId, steps: &Value) -> Self {
        let root = tempfile::tempdir().unwrap();
        let model = StandIn::new(steps);
        let programs = vec![installed("KITBAG_TEST_CLIENTS", "node_modules/.bin").into(), node_bin()];
        let machine = machine(&root, programs, &model.url);
        let mut contents = Contents::default();
        let skill = format!("---\nname: greet\ndescription: {ABOUT}\n---\n{GREET}\n");
        let files = [("SKILL.md", skill.as_str()), ("notes.md", "Zebras are greeted last.\n")];
        let files = files.map(|(name, text)| (path(name), contents.add(text)));
        let skill = SkillSnapshot { id: "greet".into(), enabled: true, files: files.into() };
        let profile = if engine.is_gateway() { Profile::Gateway } else { Profile::Node };
        let toolset = ToolsetSnapshot {
            id: "zoo".into(),
            name: "Zoo".into(),
            version: "1.0.0".into(),
            mcp_servers: vec![everything()],
            agent_skills: vec![skill],
            program: None,
            containers: Vec::new(),
        };
        let job = Assignment {
            id: AttemptId { run_id: RunId::generate(), attempt: 1 },
            organization_id: "acme".parse().unwrap(),
            config: config(engine),
            application: Application::Toolset {
                toolset_id: "zoo".parse().unwrap(),
                from: ToolsetFrom::Config,
                profile,
            },
            toolset: Some(toolset),
            files: [(path("given.txt"), contents.add("given"))].into(),
            keep_files: true,
            acknowledged: 0,
            trace: None,
        };
        Self { root, model, machine, contents, job, cancel: watch::Sender::new(false) }
    }

    pub(crate) fn toolset(&mut self) -> &mut ToolsetSnapshot {
        self.job.toolset.as_mut().unwrap()
    }

    /// Adds a file to those that it begins with.
    pub(crate) fn file(&mut self, name: &str, text: &str) {
        let file = self.contents.add(text);
        self.job.files.insert(path(name), file);
    }

    /// With this in its configuration.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.job.config[key] = value;
        self
    }

    pub(crate) async fn run(&self) -> Over {
        self.run_and(|_, _| ()).await
    }

    /// `look` sees each event as it happens, and the folder of files.
    pub(crate) async fn run_and(&self, mut look: impl FnMut(&RunEventKind, &Path)) -> Over {
        let id = self.job.id;
        let top = self.root.path().join(format!("runs/acme/{}/{}/work", id.run_id, id.attempt));
        let mut events = Vec::new();
        let tell = |event: RunEventKind| {
            look(&event, &top);
            events.push(event);
        };
        let (outcome, folder) = attempt(&self.machine, &self.job, &self.contents, self.cancel.subscribe(), tell).await;
        Over { outcome, events, folder: folder.unwrap() }
    }

    /// Processes of this attempt that are alive: those that name its folder in what they were started with.
    pub(crate) fn alive(&self) -> Vec<String> {
        let mark = self.root.path().to_str().unwrap().to_owned();
        processes()
            .into_iter()
            .filter(|(line, environ)| line.contains(&mark) || environ.contains(&mark))
            .map(|(line, _)| line)
            .collect()
    }
}

impl Over {
    pub(crate) fn code(&self) -> &str {
        self.outcome.error.as_ref().map_or("", |error| &error.code)
    }

    /// It has an answer, which has this in it.
    pub(crate) fn says(&self, text: &str) -> &Self {
        let said = self.outcome.output.as_ref().unwrap_or_else(|| panic!("{:?}\n{:#?}", self.outcome, self.events));
        assert_eq!(self.outcome.state, RunState::Succeeded);
        assert!(said.to_string().contains(text), "{said}");
        self
    }

    /// It has none, for this reason.
    pub(crate) fn fails(&self, code: &str) -> &Self {
        assert_eq!(self.code(), code, "{:?}\n{:#?}", self.outcome, self.events);
        self
    }

    /// The tools that were called, and whether each failed.
    pub(crate) fn calls(&self) -> Vec<(String, bool)> {
        let failed = |id: &str| {
            self.events
                .iter()
                .any(|event| matches!(event, RunEventKind::ToolResult { call_id, is_error: true, .. } if call_id == id))
        };
        let call = |event: &RunEventKind| match event {
            RunEventKind::ToolCall { call_id, tool, .. } => Some((tool.clone(), failed(call_id))),
            _ => None,
        };
        self.events.iter().filter_map(call).collect()
    }

    /// Everything that was told.
    pub(crate) fn told(&self) -> String {
        serde_json::to_string(&(&self.outcome, &self.events)).unwrap()
    }
}

/// A machine with these programs.
pub(crate) fn machine(root: &TempDir, programs: Vec<PathBuf>, model: &str) -> Machine {
    let path = path_of_programs();
    let values = [
        ("PATH", path.as_str()),
        ("HOME", root.path().to_str().unwrap()),
        ("ANTHROPIC_API_KEY", KEY),
        ("ANTHROPIC_BASE_URL", model),
        ("OPENAI_API_KEY", KEY),
        ("OPENAI_BASE_URL", &format!("{model}/v1")),
        ("ZOO_TOKEN", SECRET),
        ("DATABASE_URL", "not on the list"),
    ];
    with_values(root, programs, values.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// The same, which knows these variables.
pub(crate) fn with_values<const N: usize>(
    root: &TempDir,
    programs: Vec<PathBuf>,
    values: [(String, String); N],
) -> Machine {
    let variables = Variables::new(values, vec!["ZOO_*".to_owned()]);
    let own = env!("CARGO_BIN_EXE_kitbag-executor").into();
    Machine { own, ..Machine::new(root.path().join("runs"), programs, variables) }
}

/// Where the programs of servers are, and `rg`, without which OpenCode shows nobody a skill: Codex brings one along.
pub(crate) fn path_of_programs() -> String {
    let codex = PathBuf::from(installed("KITBAG_TEST_CLIENTS", "node_modules/@openai"));
    let folders =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|it| it.path());
    let rg = folders(codex).flat_map(|package| folders(package.join("vendor"))).map(|system| system.join("codex-path"));
    let rg: String = rg.filter(|folder| folder.join("rg").exists()).map(|it| format!("{}:", it.display())).collect();
    format!("{}:{rg}{}", node_bin().display(), std::env::var("PATH").unwrap())
}

fn node_bin() -> PathBuf {
    installed("KITBAG_TEST_NODE_MODULES", ".bin").into()
}

fn config(engine: EngineId) -> Value {
    let mode = if engine.is_gateway() { "gateway" } else { "node" };
    let mut config = json!({
        "prompt": { "system": "You look after zebras.", "instructions": "Do what you are told." },
        "toolsetId": "zoo",
        "engine": { "id": engine },
        "execution": { "mode": mode },
        "limits": { "timeoutMs": 180_000 },
    });
    if engine == EngineId::OpenCode {
        config["engine"]["model"] = json!("local/a-model");
    }
    config
}

pub(crate) fn path(text: &str) -> WorkPath {
    text.parse().unwrap()
}

/// A server that others wrote.
pub(crate) fn everything() -> ServerSnapshot {
    let script = installed("KITBAG_TEST_NODE_MODULES", "@modelcontextprotocol/server-everything/dist/index.js");
    let args = [script.as_str(), "stdio"];
    server("every", &installed("KITBAG_TEST_NODE_MODULES", ".bin/node"), &args, &[("TOKEN", "${ENV:ZOO_TOKEN}")])
}

pub(crate) fn server(id: &str, command: &str, args: &[&str], env: &[(&str, &str)]) -> ServerSnapshot {
    ServerSnapshot {
        id: id.to_owned(),
        server_type: "stdio".to_owned(),
        enabled: true,
        command: Some(command.to_owned()),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        cwd: None,
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        url: None,
        headers: BTreeMap::new(),
    }
}

/// All processes that are alive: how they were started and with which variables.
pub(crate) fn processes() -> Vec<(String, String)> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    // The dead that nobody has buried yet have no command line.
    let one = |pid: u32| {
        Some((read(pid, "cmdline").filter(|line| !line.is_empty())?, read(pid, "environ").unwrap_or_default()))
    };
    pids.filter_map(one).collect()
}
