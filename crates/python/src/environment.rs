//! The packages that a toolset needs, in a folder: one for each set of exact versions, built once, shared by all toolsets
//! of an organisation that need just these.
//!
//! What a toolset asks for (`requests>=2.31`) is resolved to exact versions, and those are written down; the next build of
//! the same request takes them, whatever has been published since. Packages come as wheels, which are only unpacked: building
//! one from source runs its author's code outside the sandbox, so that is for trusted toolsets of whoever runs this machine.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use kitbag_guard::process::{RunError, Spec};
use kitbag_model::{Hasher, OrgId};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use crate::interpreter::Interpreter;
use crate::program::Program;
use crate::requirements;
use crate::workers::WorkerError;

/// The folder of an organisation's environments, and the one that everybody's but `local`'s are below.
const ENVIRONMENTS: &str = "environments";
const OTHERS: &str = "orgs";

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

/// An environment that somebody uses. It is not removed before this is dropped.
pub(crate) type Lent = Arc<PathBuf>;

/// All environments below a data folder.
#[derive(Debug)]
pub(crate) struct Environments {
    data: PathBuf,
    /// One is built at a time: they share a cache, and two cores.
    turn: Mutex<()>,
    /// Those that somebody uses.
    lent: std::sync::Mutex<Vec<Weak<PathBuf>>>,
}

impl Environments {
    pub(crate) fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), turn: Mutex::new(()), lent: std::sync::Mutex::default() }
    }

    /// The folder for a program: none if it needs no packages. It is built if it must be.
    pub(crate) async fn of(
        &self,
        program: &Program,
        interpreter: &Interpreter,
        heard: &UnboundedSender<String>,
    ) -> Result<Option<Lent>, WorkerError> {
        let wanted = requirements::of(program)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        if let (false, Some(direct)) = (may_build(program), wanted.iter().find(|line| line.contains('@'))) {
            let how = if program.org == OrgId::local() {
                "trust the toolset first, for its author chose where the code comes from"
            } else {
                "an organisation that shares this machine takes packages from its index alone"
            };
            return Err(WorkerError::Unavailable(format!("the package \"{direct}\" is named by its address; {how}")));
        }
        let org = &program.org;
        if let Some(ready) = self.lend(org, &wanted, interpreter) {
            return Ok(Some(ready));
        }
        let _turn = self.turn.lock().await;
        if let Some(ready) = self.lend(org, &wanted, interpreter) {
            return Ok(Some(ready));
        }
        self.build(program, &wanted, interpreter, heard).await?;
        let vanished = || WorkerError::Unavailable(format!("the packages of {} are gone again", program.toolset));
        self.lend(org, &wanted, interpreter).ok_or_else(vanished).map(Some)
    }

    /// Whether an environment is there already, so that nothing has to be fetched.
    pub(crate) fn is_ready(&self, program: &Program, interpreter: &Interpreter) -> bool {
        let ready = |wanted: &[String]| self.ready(&program.org, wanted, interpreter).is_some();
        requirements::of(program).is_ok_and(|wanted| wanted.is_empty() || ready(&wanted))
    }

    /// Whether there may be something to remove.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders().all(|folder| fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none()))
    }

    /// Where the environments of an organisation are: what one installs is never run by another.
    fn folder(&self, org: &OrgId) -> PathBuf {
        let home = if *org == OrgId::local() { self.data.clone() } else { self.data.join(OTHERS).join(org.as_str()) };
        home.join(ENVIRONMENTS)
    }

    /// The folders of all organisations that have one.
    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let others = fs::read_dir(self.data.join(OTHERS)).into_iter().flatten().flatten();
        let others = others.map(|entry| entry.path().join(ENVIRONMENTS)).filter(|folder| folder.is_dir());
        std::iter::once(self.data.join(ENVIRONMENTS)).filter(|folder| folder.is_dir()).chain(others)
    }

    /// Removes what none of these programs needs and nobody uses, and what a build that was killed left. If something is
    /// being built just now, the next time will do.
    pub(crate) fn keep(&self, needed: &[(Program, Interpreter)]) -> io::Result<()> {
        let Ok(_turn) = self.turn.try_lock() else { return Ok(()) };
        let mut kept: HashSet<PathBuf> = HashSet::new();
        for (program, interpreter) in needed {
            let Ok(wanted) = requirements::of(program) else { continue };
            let lock_file = self.lock_file(&program.org, &wanted, interpreter);
            let lock = fs::read_to_string(&lock_file).ok();
            kept.extend(lock.map(|lock| self.folder_of(&program.org, &lock, interpreter)));
            kept.insert(lock_file);
        }
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(lent.iter().filter_map(Weak::upgrade).map(|one| one.to_path_buf()));
        let mut gone = HashSet::new();
        for folder in self.folders() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if kept.contains(&entry.path()) {
                    continue;
                }
                // It has another name before the first of its files goes: nobody ever finds half of it.
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with('.') {
                    gone.insert(entry.path());
                    continue;
                }
                let nameless = folder.join(format!(".{name}"));
                let _ = fs::remove_dir_all(&nameless);
                fs::rename(entry.path(), &nameless)?;
                gone.insert(nameless);
            }
        }
        drop(lent);
        for path in gone {
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    }

    /// One that is ready, for somebody who uses it now.
    fn lend(&self, org: &OrgId, wanted: &[String], interpreter: &Interpreter) -> Option<Lent> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = Arc::new(self.ready(org, wanted, interpreter)?);
        lent.retain(|one| one.strong_count() > 0);
        lent.push(Arc::downgrade(&ready));
        Some(ready)
    }

    fn ready(&self, org: &OrgId, wanted: &[String], interpreter: &Interpreter) -> Option<PathBuf> {
        let lock = fs::read_to_string(self.lock_file(org, wanted, interpreter)).ok()?;
        let folder = self.folder_of(org, &lock, interpreter);
        folder.join("complete").is_file().then_some(folder)
    }

    fn lock_file(&self, org: &OrgId, wanted: &[String], interpreter: &Interpreter) -> PathBuf {
        self.folder(org).join(format!("{}.lock", name(&wanted.join("\n"), interpreter)))
    }

    fn folder_of(&self, org: &OrgId, lock: &str, interpreter: &Interpreter) -> PathBuf {
        self.folder(org).join(name(lock, interpreter))
    }

    async fn build(
        &self,
        program: &Program,
        wanted: &[String],
        interpreter: &Interpreter,
        heard: &UnboundedSender<String>,
    ) -> Result<(), WorkerError> {
        let (org, toolset) = (&program.org, &program.toolset);
        let failed = |what: &'static str| {
            move |error: std::io::Error| WorkerError::Unavailable(format!("{what} for {toolset}: {error}"))
        };
        let all = self.folder(org);
        fs::create_dir_all(&all).map_err(failed("no folder for packages"))?;
        let lock_file = self.lock_file(org, wanted, interpreter);
        let python = interpreter.program.display().to_string();
        let from_source: &[&str] = if may_build(program) { &[] } else { &["--no-build"] };
        // A folder of this build alone: an installer that a killed server left behind still writes into its own.
        let staged = tempfile::Builder::new().prefix(".staged-").tempdir_in(&all);
        let staged = staged.map_err(failed("no folder for packages"))?;
        let lock = match fs::read_to_string(&lock_file) {
            Ok(lock) => lock,
            Err(_) => {
                let _ = heard.send(format!("resolving {}", wanted.join(", ")));
                let (asked, resolved) = (staged.path().join("wanted.in"), staged.path().join("resolved.txt"));
                fs::write(&asked, wanted.join("\n")).map_err(failed("the requirements cannot be written"))?;
                let (input, output) = (asked.display().to_string(), resolved.display().to_string());
                let quiet = ["pip", "compile", "--quiet", "--no-header", "--no-annotate"];
                let named = ["--python", &python, "--output-file", &output, &input];
                uv(quiet.iter().chain(&named).chain(from_source), toolset, heard).await?;
                let lock = fs::read_to_string(&resolved).map_err(failed("the exact versions cannot be read"))?;
                fs::rename(&resolved, &lock_file).map_err(failed("the exact versions cannot be written"))?;
                lock
            }
        };
        let folder = self.folder_of(org, &lock, interpreter);
        if folder.join("complete").is_file() {
            // Somebody else asked for it in other words.
            return Ok(());
        }
        let environment = staged.path().join("env");
        let (place, file) = (environment.display().to_string(), lock_file.display().to_string());
        let packages = lock.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        let _ = heard.send(format!("installing {} packages", packages.count()));
        uv(["venv", "--quiet", "--relocatable", "--python", &python, &place].iter(), toolset, heard).await?;
        let quiet = ["pip", "install", "--quiet", "--no-deps", "--compile-bytecode"];
        let named = ["--python", &place, "--requirements", &file];
        uv(quiet.iter().chain(&named).chain(from_source), toolset, heard).await?;
        fs::write(environment.join("complete"), "").map_err(failed("the environment cannot be finished"))?;
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&environment, &folder).map_err(failed("the environment cannot be put in its place"))
    }
}

/// Whether packages may be built for a program, outside the sandbox, with the rights of this server: trust is for whoever runs it to
/// give, and an organisation that shares the machine gives it for itself alone.
fn may_build(program: &Program) -> bool {
    program.trusted && program.org == OrgId::local()
}

/// A name for a text and the interpreter that it is for.
fn name(text: &str, interpreter: &Interpreter) -> String {
    let mut hasher = Hasher::default();
    let key = format!("{:?}\n{}\n{text}", interpreter.version, interpreter.program.display());
    hasher.update(key.as_bytes());
    hasher.finish().to_string()[..32].to_owned()
}

/// Runs the installer.
async fn uv<'a>(
    args: impl Iterator<Item = &'a &'a str>,
    toolset: &str,
    heard: &UnboundedSender<String>,
) -> Result<(), WorkerError> {
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
        return Ok(());
    }
    // Its last words say most; a whole resolution would not help.
    let said: Vec<&str> = ended.stderr.trim().lines().collect();
    let said = said[said.len().saturating_sub(12)..].join("\n");
    // It speaks of an option that nobody here can give.
    let refused = said.contains("--no-build");
    let advice = if refused { "\nA package is built from its source only if you trust the toolset." } else { "" };
    Err(WorkerError::Unavailable(format!("the packages of {toolset} cannot be installed:\n{said}{advice}")))
}
