//! Which Python runs a toolset: one that is installed. None is ever downloaded.

use std::path::{Path, PathBuf};

use kitbag_guard::process::Spec;
use kitbag_model::PythonVersion;
use tokio::sync::Mutex;

use crate::workers::WorkerError;

/// The oldest that the SDK works with.
const OLDEST: [u32; 3] = [3, 10, 0];

/// What `python3` on the path may be called, the usual one first.
const NAMES: [&str; 8] = [
    "python3",
    "/usr/bin/python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "/usr/local/bin/python3",
];

/// The interpreter says itself where it is: a shim on the path starts it slowly and cannot be mounted.
const ASK: &str =
    "import sys,os;print(*sys.version_info[:3]);print(os.path.realpath(sys.executable));print(sys.base_prefix)";

/// An installed Python.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    pub(crate) version: [u32; 3],
    pub(crate) program: PathBuf,
    /// The folder that its library is below.
    pub(crate) prefix: PathBuf,
}

impl Interpreter {
    /// The folder that a house needs beside the system's own, if it is not among those.
    pub(crate) fn folder(&self) -> Option<&Path> {
        (!self.prefix.starts_with("/usr")).then_some(self.prefix.as_path())
    }
}

/// The interpreters of this machine, as far as somebody had to ask.
#[derive(Debug, Default)]
pub(crate) struct Interpreters(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    /// How many of the names have been asked.
    names: usize,
    /// What they said, each interpreter once.
    found: Vec<Interpreter>,
}

impl Interpreters {
    /// The first that will do. A name is asked only if those before it will not do, for a shim takes its time, and only once.
    pub(crate) async fn choose(&self, wanted: Option<&PythonVersion>) -> Result<Interpreter, WorkerError> {
        let fits = |interpreter: &Interpreter| wanted.is_none_or(|wanted| wanted.allows(interpreter.version));
        let mut asked = self.0.lock().await;
        if let Some(known) = asked.found.iter().find(|one| fits(one)) {
            return Ok(known.clone());
        }
        while let Some(name) = NAMES.get(asked.names) {
            let answer = ask(name).await;
            asked.names += 1;
            let Some(one) = answer else { continue };
            if one.version < OLDEST || asked.found.iter().any(|known| known.program == one.program) {
                continue;
            }
            asked.found.push(one.clone());
            if fits(&one) {
                return Ok(one);
            }
        }
        Err(WorkerError::Unavailable(none_fits(&asked.found, wanted)))
    }
}

async fn ask(name: &str) -> Option<Interpreter> {
    let ended = Spec::new(name).args(["-I", "-S", "-c", ASK]).run().await.ok()?;
    let mut lines = ended.stdout.lines();
    let mut numbers = lines.next()?.split(' ').map_while(|number| number.parse().ok());
    let version = [numbers.next()?, numbers.next()?, numbers.next()?];
    Some(Interpreter { version, program: lines.next()?.into(), prefix: lines.next()?.into() })
}

fn none_fits(installed: &[Interpreter], wanted: Option<&PythonVersion>) -> String {
    let dotted = |one: &Interpreter| one.version.map(|number| number.to_string()).join(".");
    let there: Vec<String> = installed.iter().map(dotted).collect();
    let there =
        if there.is_empty() { "none is installed".to_owned() } else { format!("installed: {}", there.join(", ")) };
    let wanted = wanted.map_or_else(|| "3.10 or later".to_owned(), ToString::to_string);
    format!("this toolset needs Python {wanted}; {there}")
}
