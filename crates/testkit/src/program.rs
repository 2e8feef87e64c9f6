//! The program, run to its end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use kitbag_store::Location;
use serde_json::Value;

use crate::bucket::TestBucket;
use crate::database::TestDatabase;

/// How to start the program: which binary, which data folder, which environment.
#[derive(Clone)]
pub struct Program {
    binary: PathBuf,
    data: PathBuf,
    env: Vec<(String, String)>,
    wrapper: Vec<String>,
    folder: Option<PathBuf>,
}

impl Program {
    /// The binary under test on a data folder. Tests pass `env!("CARGO_BIN_EXE_kitbag")`.
    pub fn new(binary: &str, data: &Path) -> Self {
        Self { binary: binary.into(), data: data.to_owned(), env: Vec::new(), wrapper: Vec::new(), folder: None }
    }

    /// The binary under test on the data folder and the database of a test.
    pub fn on(binary: &str, database: &TestDatabase) -> Self {
        let mut program = Self::new(binary, database.data());
        if let Some(bucket) = database.bucket() {
            program = program.env("KITBAG_BLOBS", &bucket.url());
            for (name, value) in TestBucket::variables() {
                program = program.env(name, value);
            }
        }
        match database.location() {
            Location::Sqlite(_) => program,
            Location::Postgres(url) => program.env("KITBAG_DATABASE", url.expose()),
        }
    }

    /// With one more variable in the environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Started in this folder.
    pub fn at(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Started by another program, whose arguments end with ours.
    pub fn inside(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The command, with an environment that holds nothing of the developer's own settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut words = self.wrapper.iter().map(String::as_str).chain([self.binary.to_str().expect("a UTF-8 path")]);
        let mut command = Command::new(words.next().expect("there is always the binary"));
        command.args(words).args(args).env_clear().env("KITBAG_DATA", &self.data).stdin(Stdio::null());
        for name in ["PATH", "HOME", "LANG", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it, with nothing to say it to.
    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start the program")
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Finished {
        let Output { status, stdout, stderr } = self.command(args).output().expect("run the program");
        Finished {
            code: status.code(),
            stdout: String::from_utf8(stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(stderr).expect("UTF-8 on stderr"),
        }
    }
}

/// What a finished program left.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside.
    pub stderr: String,
}

impl Finished {
    /// The output of a `--json` command that went well.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}
