//! What this machine offers, and what to do about what is missing: `kitbag doctor` prints it, the page's settings show it. Each thing is
//! tried, not guessed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kitbag_container::{Engine, sockets};
use kitbag_guard::process::Spec;
use kitbag_guard::sandbox;

const GIB: u64 = 1 << 30;

/// This very program, as the server starts it to make sandboxes.
const KEEPER: [&str; 2] = ["/proc/self/exe", "guard-keeper"];

/// Without these no tool is called, unless the configuration says so.
pub const REQUIRED: [&str; 3] = ["namespaces", "landlock", "seccomp"];

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It is there.
    Good,
    /// Kitbag runs, but does less.
    Missing,
    /// Kitbag does not run.
    Bad,
}

impl Verdict {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Missing => "missing",
            Self::Bad => "bad",
        }
    }
}

/// Something that was looked at.
#[derive(Clone, Debug)]
pub struct Check {
    /// What it is called.
    pub name: &'static str,
    /// How it went.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub advice: String,
}

impl Check {
    /// It is there.
    pub fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, found: found.into(), advice: String::new() }
    }

    /// It is not.
    pub fn wrong(name: &'static str, verdict: Verdict, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, verdict, found: found.into(), advice: advice.into() }
    }
}

/// Everything but the database: the data folder, the disk, Python, uv, the container engine, and each layer of the sandbox.
pub async fn machine(data: &Path) -> Vec<Check> {
    let keeper = KEEPER.map(Into::into);
    let (python, uv, engine, layers) = tokio::join!(python(), uv(), engine(), sandbox::layers(&keeper, data));
    let mut checks = vec![data_folder(data), disk(data), python, uv, engine];
    checks.extend(layers.into_iter().map(|layer| match layer.found {
        Ok(found) => Check::good(layer.name, found),
        Err(reason) => Check::wrong(layer.name, Verdict::Missing, reason, layer.advice),
    }));
    checks
}

/// The mode of a folder, if others may enter it.
pub fn open_to_others(folder: &Path) -> Option<u32> {
    let mode = fs::metadata(folder).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

fn data_folder(folder: &Path) -> Check {
    let path = folder.display().to_string();
    if let Err(error) = tempfile_in(folder) {
        return Check::wrong(
            "data folder",
            Verdict::Bad,
            format!("{path}: {error}"),
            "make it writable, or give another with --data",
        );
    }
    match open_to_others(folder) {
        Some(mode) => Check::wrong(
            "data folder",
            Verdict::Missing,
            format!("{path} is open to others (mode {mode:o})"),
            format!("chmod 700 {path}"),
        ),
        None => Check::good("data folder", path),
    }
}

/// Whether a file can be made here. It is gone again at once.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    fs::write(&path, b"")?;
    fs::remove_file(path)
}

fn disk(folder: &Path) -> Check {
    let Ok(stat) = rustix::fs::statvfs(folder) else {
        return Check::wrong("disk", Verdict::Missing, "its size is not known", "look with df");
    };
    let free = stat.f_bavail * stat.f_frsize;
    let found = format!("{:.1} GiB free", free as f64 / GIB as f64);
    let advice = "make room: every state of every workspace is kept until it is collected";
    match free {
        0..100_000_000 => Check::wrong("disk", Verdict::Bad, found, advice),
        100_000_000..GIB => Check::wrong("disk", Verdict::Missing, found, advice),
        _ => Check::good("disk", found),
    }
}

/// The Python that runs toolsets which ask for no certain one.
async fn python() -> Check {
    let advice = "install Python 3.10 or later; Python tools need it";
    let script = "import os, sys; print('.'.join(map(str, sys.version_info[:3])), os.path.realpath(sys.executable))";
    let mut found = String::new();
    // The second is looked for as well, whatever the path says.
    for name in ["python3", "/usr/bin/python3"] {
        let said = match Spec::new(name).args(["-I", "-S", "-c", script]).run().await {
            Ok(ended) if ended.code == Some(0) => ended.stdout.trim().to_owned(),
            Ok(ended) => ended.stderr,
            Err(error) => error.to_string(),
        };
        let mut numbers = said.split(['.', ' ']).map(|part| part.parse::<u32>().unwrap_or(0));
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (3, 10) {
            return Check::good("python", said);
        }
        found = if found.is_empty() { said } else { found };
    }
    Check::wrong("python", Verdict::Missing, found, advice)
}

/// What to do about an engine that cannot limit memory or processes.
const NO_LIMITS: &str = "give it those control groups (without root: version 2 of them, with the controllers memory and pids delegated to its user); until \
                         then no tool runs in a container, unless `--sandbox relaxed` says that your own may";

/// The engine that runs tools in containers.
async fn engine() -> Check {
    let advice = "install podman or Docker and start its service, or point DOCKER_HOST at its socket; tools in containers need it";
    let found = match sockets(|name| std::env::var(name).ok()) {
        Ok(sockets) => Engine::find(&sockets).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(engine) => {
            let rights = if engine.is_rootless() { ", without root" } else { "" };
            let shifts = if engine.shifts_users() { ", which shifts users, but not those of tools" } else { "" };
            let at = engine.socket().display();
            let found = format!("{} {}{rights} at {at}{shifts}", engine.kind(), engine.version());
            let missing = engine.unlimited().names().join(", ");
            match engine.unlimited().check() {
                _ if missing.is_empty() => Check::good("containers", found),
                // Whoever has all processors slows others down, and that is all.
                Ok(()) => Check::good("containers", format!("{found}; cannot limit {missing}")),
                Err(_) => {
                    Check::wrong("containers", Verdict::Missing, format!("{found}; cannot limit {missing}"), NO_LIMITS)
                }
            }
        }
        Err(error) => Check::wrong("containers", Verdict::Missing, error.to_string(), advice),
    }
}

async fn uv() -> Check {
    let advice = "install it: pip install uv; it builds the environments of toolsets that have dependencies";
    match Spec::new("uv").args(["--version"]).run().await {
        Ok(ended) if ended.code == Some(0) => Check::good("uv", ended.stdout.trim()),
        Ok(ended) => Check::wrong("uv", Verdict::Missing, ended.stderr, advice),
        Err(error) => Check::wrong("uv", Verdict::Missing, error.to_string(), advice),
    }
}
