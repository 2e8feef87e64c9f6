//! Which Python runs a toolset: one that is installed. None is ever downloaded.

use std::path::{Path, PathBuf};

use kitbag_guard::process::Spec;
use kitbag_model::PythonVersion;

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

/// All that are installed, each once.
pub(crate) async fn find() -> Vec<Interpreter> {
    let mut found: Vec<Interpreter> = Vec::new();
    for name in NAMES {
        let Ok(ended) = Spec::new(name).args(["-I", "-S", "-c", ASK]).run().await else { continue };
        let Some(interpreter) = parse(&ended.stdout) else { continue };
        if interpreter.version >= OLDEST && !found.iter().any(|one| one.program == interpreter.program) {
            found.push(interpreter);
        }
    }
    found
}

fn parse(said: &str) -> Option<Interpreter> {
    let mut lines = said.lines();
    let mut numbers = lines.next()?.split(' ').map_while(|number| number.parse().ok());
    let version = [numbers.next()?, numbers.next()?, numbers.next()?];
    Some(Interpreter { version, program: lines.next()?.into(), prefix: lines.next()?.into() })
}

/// The first that will do.
pub(crate) fn choose(installed: &[Interpreter], wanted: Option<&PythonVersion>) -> Result<Interpreter, WorkerError> {
    let fits = |interpreter: &&Interpreter| wanted.is_none_or(|wanted| wanted.allows(interpreter.version));
    if let Some(interpreter) = installed.iter().find(fits) {
        return Ok(interpreter.clone());
    }
    let dotted = |version: &[u32; 3]| version.map(|number| number.to_string()).join(".");
    let there: Vec<String> = installed.iter().map(|interpreter| dotted(&interpreter.version)).collect();
    let there =
        if there.is_empty() { "none is installed".to_owned() } else { format!("installed: {}", there.join(", ")) };
    let wanted = wanted.map_or_else(|| "3.10 or later".to_owned(), ToString::to_string);
    Err(WorkerError::Unavailable(format!("this toolset needs Python {wanted}; {there}")))
}
