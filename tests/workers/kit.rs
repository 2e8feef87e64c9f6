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
            idle: Duration::from_secs(600),
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
}
