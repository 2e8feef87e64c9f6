//! The packages that a toolset needs, in a folder: one for each set of exact versions, built once, shared by all toolsets
//! that need just these.
//!
//! What a toolset asks for (`requests>=2.31`) is resolved to exact versions, and those are written down; the next build of
//! the same request takes them, whatever has been published since. Packages come as wheels, which are only unpacked: building
//! one from source runs its author's code outside the sandbox, so that is for trusted toolsets.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_guard::process::{RunError, Spec};
use kitbag_model::{Hasher, Requirement};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use crate::interpreter::Interpreter;
use crate::program::Program;
use crate::workers::WorkerError;

/// How long the installer may take.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What of our environment the installer may know: where packages are, and how to get there.
const PASSED: [&str; 16] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "UV_CACHE_DIR",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_OFFLINE",
];

/// All environments below a data folder.
#[derive(Debug)]
pub(crate) struct Environments {
    folder: PathBuf,
    /// One is built at a time: they share a cache, and two cores.
    turn: Mutex<()>,
}

impl Environments {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: data.join("environments"), turn: Mutex::new(()) }
    }

    /// The folder for a program: none if it needs no packages. It is built if it must be.
    pub(crate) async fn of(
        &self,
        program: &Program,
        interpreter: &Interpreter,
        heard: &UnboundedSender<String>,
    ) -> Result<Option<PathBuf>, WorkerError> {
        let wanted = requirements(program)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        if let Some(ready) = self.ready(&wanted, interpreter) {
            return Ok(Some(ready));
        }
        let _turn = self.turn.lock().await;
        if let Some(ready) = self.ready(&wanted, interpreter) {
            return Ok(Some(ready));
        }
        if let (false, Some(direct)) = (program.trusted, wanted.iter().find(|line| line.contains('@'))) {
            return Err(WorkerError::Unavailable(format!(
                "the package \"{direct}\" is named by its address; trust the toolset first, for its author chose where \
                 the code comes from"
            )));
        }
        self.build(program, &wanted, interpreter, heard).await.map(Some)
    }

    /// Whether an environment is there already, so that nothing has to be fetched.
    pub(crate) fn is_ready(&self, program: &Program, interpreter: &Interpreter) -> bool {
        requirements(program).is_ok_and(|wanted| wanted.is_empty() || self.ready(&wanted, interpreter).is_some())
    }

    fn ready(&self, wanted: &[String], interpreter: &Interpreter) -> Option<PathBuf> {
        let lock = fs::read_to_string(self.lock_file(wanted, interpreter)).ok()?;
        let folder = self.folder_of(&lock, interpreter);
        folder.join("complete").is_file().then_some(folder)
    }

    fn lock_file(&self, wanted: &[String], interpreter: &Interpreter) -> PathBuf {
        self.folder.join(format!("{}.lock", name(&wanted.join("\n"), interpreter)))
    }

    fn folder_of(&self, lock: &str, interpreter: &Interpreter) -> PathBuf {
        self.folder.join(name(lock, interpreter))
    }

    async fn build(
        &self,
        program: &Program,
        wanted: &[String],
        interpreter: &Interpreter,
        heard: &UnboundedSender<String>,
    ) -> Result<PathBuf, WorkerError> {
        let toolset = &program.toolset;
        let failed = |what: &'static str| {
            move |error: std::io::Error| WorkerError::Unavailable(format!("{what} for {toolset}: {error}"))
        };
        fs::create_dir_all(&self.folder).map_err(failed("no folder for packages"))?;
        let lock_file = self.lock_file(wanted, interpreter);
        let python = interpreter.program.display().to_string();
        let from_source: &[&str] = if program.trusted { &[] } else { &["--no-build"] };
        let lock = match fs::read_to_string(&lock_file) {
            Ok(lock) => lock,
            Err(_) => {
                let _ = heard.send(format!("resolving {}", wanted.join(", ")));
                let asked = self.folder.join(".wanted.in");
                fs::write(&asked, wanted.join("\n")).map_err(failed("the requirements cannot be written"))?;
                let input = asked.display().to_string();
                let args = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", &python, &input];
                let resolved = uv(args.iter().chain(from_source), &program.toolset, heard).await?;
                write_whole(&lock_file, &resolved).map_err(failed("the exact versions cannot be written"))?;
                resolved
            }
        };
        let folder = self.folder_of(&lock, interpreter);
        let staged = self.folder.join(".staged");
        let _ = fs::remove_dir_all(&staged);
        let place = staged.display().to_string();
        let file = lock_file.display().to_string();
        let _ = heard.send(format!("installing {} packages", lock.lines().filter(|line| line.contains("==")).count()));
        uv(["venv", "--quiet", "--relocatable", "--python", &python, &place].iter(), &program.toolset, heard).await?;
        let args = [
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--compile-bytecode",
            "--python",
            &place,
            "--requirements",
            &file,
        ];
        uv(args.iter().chain(from_source), &program.toolset, heard).await?;
        fs::write(staged.join("complete"), "").map_err(failed("the environment cannot be finished"))?;
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&staged, &folder).map_err(failed("the environment cannot be put in its place"))?;
        Ok(folder)
    }
}

/// A name for a text and the interpreter that it is for.
fn name(text: &str, interpreter: &Interpreter) -> String {
    let mut hasher = Hasher::default();
    let key = format!("{:?}\n{}\n{text}", interpreter.version, interpreter.program.display());
    hasher.update(key.as_bytes());
    hasher.finish().to_string()[..32].to_owned()
}

fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let staged = path.with_extension("staged");
    fs::write(&staged, text)?;
    fs::rename(staged, path)
}

/// What a program asks for: its manifest's list, else its `requirements.txt`, else its `pyproject.toml`.
fn requirements(program: &Program) -> Result<Vec<String>, WorkerError> {
    let refused = |file: &str, line: &str, why: String| {
        WorkerError::Unavailable(format!("{file} of {}: \"{line}\": {why}", program.toolset))
    };
    let listed = &program.needs.dependencies;
    if !listed.is_empty() {
        return Ok(listed.iter().map(ToString::to_string).collect());
    }
    let checked = |file: &'static str, lines: Vec<String>| {
        let check = |line: String| match line.parse::<Requirement>() {
            Ok(requirement) => Ok(requirement.to_string()),
            Err(error) => Err(refused(file, &line, error.to_string())),
        };
        lines.into_iter().map(check).collect()
    };
    if let Ok(text) = fs::read_to_string(program.folder.join("requirements.txt")) {
        // A comment begins with # at the start of a line or after a space.
        let bare = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_owned();
        let lines = text.lines().map(bare).filter(|line| !line.is_empty() && !line.starts_with('#'));
        return checked("requirements.txt", lines.collect());
    }
    let Ok(text) = fs::read_to_string(program.folder.join("pyproject.toml")) else { return Ok(Vec::new()) };
    let document: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        WorkerError::Unavailable(format!("pyproject.toml of {}: {}", program.toolset, error.message()))
    })?;
    let listed =
        document.get("project").and_then(|project| project.get("dependencies")).and_then(toml::Value::as_array);
    let lines = listed.into_iter().flatten().filter_map(toml::Value::as_str).map(ToOwned::to_owned);
    checked("pyproject.toml", lines.collect())
}

/// Runs the installer. What it printed.
async fn uv<'a>(
    args: impl Iterator<Item = &'a &'a str>,
    toolset: &str,
    heard: &UnboundedSender<String>,
) -> Result<String, WorkerError> {
    let spec = Spec::new("uv").args(args.copied()).pass(&PASSED).deadline(PATIENCE);
    let ended = match spec.run().await {
        Ok(ended) => ended,
        Err(RunError::NotFound { .. }) => {
            return Err(WorkerError::Unavailable(format!(
                "{toolset} needs Python packages, and uv, which installs them, is not on the path. Install it: pip install uv"
            )));
        }
        Err(error) => return Err(WorkerError::Unavailable(format!("the packages of {toolset}: {error}"))),
    };
    for line in ended.stderr.lines() {
        let _ = heard.send(line.to_owned());
    }
    if ended.code == Some(0) {
        return Ok(ended.stdout);
    }
    // Its last words say most; a whole resolution would not help.
    let said: Vec<&str> = ended.stderr.trim().lines().collect();
    let said = said[said.len().saturating_sub(12)..].join("\n");
    Err(WorkerError::Unavailable(format!("the packages of {toolset} cannot be installed:\n{said}")))
}
