//! What these tests share: a data folder, workers on it, toolsets made of a few lines.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kitbag_model::{ChatId, OrgId, PythonNeeds};
use kitbag_python::{Entry, Event, Finished, Job, Program, Settings, Workers};
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

/// Workers in a folder of their own.
pub(crate) struct Kit {
    pub(crate) folder: TempDir,
    pub(crate) workers: Workers,
    pub(crate) chat: ChatId,
}

impl Kit {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// With other settings than the usual.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            data: folder.path().to_owned(),
            keeper: vec![env!("CARGO_BIN_EXE_kitbag").into(), "guard-keeper".into()],
            require_sandbox: true,
            memory: 1 << 30,
            most_result_bytes: 1 << 20,
            most_left_running: 2,
            passed: Vec::new(),
            idle: Duration::from_secs(600),
            import: Duration::from_secs(60),
        };
        change(&mut settings);
        Self { folder, workers: Workers::new(settings), chat: ChatId::generate() }
    }

    /// A toolset whose one module is this text; its tools are these functions.
    pub(crate) fn program(&self, id: &str, text: &str, functions: &[&str]) -> Program {
        let folder = self.folder.path().join("toolsets").join(id);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("t.py"), text).unwrap();
        let entry = |name: &&str| Entry { entrypoint: format!("t:{name}").parse().unwrap(), input_schema: None };
        Program {
            org: OrgId::local(),
            toolset: id.to_owned(),
            generation: "1".to_owned(),
            folder,
            entries: functions.iter().map(entry).collect(),
            needs: PythonNeeds::default(),
            network: false,
            listen: false,
            trusted: false,
        }
    }

    /// The workspace of the kit's chat.
    pub(crate) fn workspace(&self) -> PathBuf {
        let folder = self.folder.path().join("chats").join(self.chat.to_string()).join("workspace");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A call of a function of `t`.
    pub(crate) fn job(&self, function: &str, args: Value) -> Job {
        let args = match args {
            Value::Object(args) => args,
            _ => Map::new(),
        };
        Job {
            org: OrgId::local(),
            chat: self.chat,
            call: format!("call-{function}"),
            entrypoint: format!("t:{function}").parse().unwrap(),
            args,
            workspace: self.workspace(),
            deadline: Duration::from_secs(30),
        }
    }

    /// Makes a call and waits for its end.
    pub(crate) async fn call(&self, program: &Program, job: Job) -> (Finished, Vec<Event>) {
        let (heard, mut events) = mpsc::unbounded_channel();
        let (_go_on, stop) = watch::channel(false);
        let finished = self.workers.call(program, job, heard, stop).await;
        let mut all = Vec::new();
        while let Ok(event) = events.try_recv() {
            all.push(event);
        }
        (finished, all)
    }

    /// What a function of a module returns.
    pub(crate) async fn returned(&self, program: &Program, function: &str, args: Value) -> Value {
        let (finished, _) = self.call(program, self.job(function, args)).await;
        finished.result.unwrap_or_else(|failure| panic!("{failure:?}\n{:?}", finished.logs))
    }

    /// Why a function of a module returned nothing.
    pub(crate) async fn failed(&self, program: &Program, function: &str) -> String {
        let (finished, _) = self.call(program, self.job(function, Value::Null)).await;
        match finished.result {
            Ok(value) => panic!("it returned {value}"),
            Err(failure) => failure.message,
        }
    }

    pub(crate) fn org(&self) -> OrgId {
        OrgId::local()
    }

    /// Another chat, and its workspace.
    pub(crate) fn other_chat(&self) -> (ChatId, PathBuf) {
        let chat = ChatId::generate();
        let folder = self.folder.path().join("chats").join(chat.to_string()).join("workspace");
        fs::create_dir_all(&folder).unwrap();
        (chat, folder)
    }

    /// The command lines of everything that this kit's keeper started, and of the keeper.
    pub(crate) fn inhabitants(&self) -> Vec<String> {
        let mark = self.folder.path().display().to_string();
        let keepers: Vec<i32> =
            processes().into_iter().filter(|(_, command)| command.contains(&mark)).map(|(pid, _)| pid).collect();
        let (mut family, mut next) = (keepers, 0);
        while let Some(pid) = family.get(next).copied() {
            next += 1;
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
                if !family.contains(&child) {
                    family.push(child);
                }
            }
        }
        let all = processes();
        family
            .iter()
            .filter_map(|pid| all.iter().find(|(one, _)| one == pid))
            .map(|(_, command)| command.clone())
            .collect()
    }

    /// How many of them have a word in their command line.
    pub(crate) fn count_of(&self, word: &str) -> usize {
        self.inhabitants().iter().filter(|command| command.contains(word)).count()
    }

    /// Waits for something that is bound to happen.
    pub(crate) async fn until(&self, condition: impl Fn(&Self) -> bool) {
        self.until_async(|| async { condition(self) }).await;
    }

    /// The same for what has to be awaited.
    pub(crate) async fn until_async<F: Future<Output = bool>>(&self, condition: impl Fn() -> F) {
        for _ in 0..1000 {
            if condition().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not happen; there are {:?}", self.inhabitants());
    }
}

/// All processes that are alive, with their command lines.
fn processes() -> Vec<(i32, String)> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let line = |pid: i32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        // The dead that nobody has buried yet have none.
        (!bytes.is_empty()).then(|| (pid, String::from_utf8_lossy(&bytes).replace('\0', " ")))
    };
    pids.filter_map(line).collect()
}
