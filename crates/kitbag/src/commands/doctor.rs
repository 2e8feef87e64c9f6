//! `kitbag doctor`: what this machine offers, and what to do about what is missing.

use std::fs;
use std::process::ExitCode;

use kitbag_guard::process::{RunError, Spec};
use kitbag_guard::sandbox;
use serde_json::json;

use crate::cli::Place;
use crate::client::Client;
use crate::data::DataFolder;
use crate::failure::Failure;
use crate::output::{Output, table};

const GIB: u64 = 1 << 30;

/// This very program, as the server starts it to make sandboxes.
const KEEPER: [&str; 2] = ["/proc/self/exe", "guard-keeper"];

/// Without these no tool is called, unless the configuration says so.
const REQUIRED: [&str; 3] = ["namespaces", "landlock", "seccomp"];

/// How a check went.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Good,
    /// Kitbag runs, but does less.
    Missing,
    /// Kitbag does not run.
    Bad,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Missing => "missing",
            Self::Bad => "bad",
        }
    }
}

struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    advice: String,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, found: found.into(), advice: String::new() }
    }

    fn wrong(name: &'static str, verdict: Verdict, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, verdict, found: found.into(), advice: advice.into() }
    }
}

pub(crate) async fn run(place: &Place, output: &Output) -> Result<ExitCode, Failure> {
    let folder = DataFolder::open(place)?;
    let mut checks = vec![data_folder(&folder), disk(&folder), database(place).await, python().await, uv().await];
    checks.extend(sandbox::layers(&KEEPER.map(Into::into), folder.path()).await.into_iter().map(|layer| {
        match layer.found {
            Ok(found) => Check::good(layer.name, found),
            Err(reason) => Check::wrong(layer.name, Verdict::Missing, reason, layer.advice),
        }
    }));
    let value = json!({
        "ok": checks.iter().all(|check| check.verdict != Verdict::Bad),
        "checks": checks.iter().map(|check| json!({
            "name": check.name, "status": check.verdict.as_str(), "found": check.found, "advice": check.advice,
        })).collect::<Vec<_>>(),
    });
    output.result(&value, |_| report(&checks))?;
    Ok(if value["ok"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(checks: &[Check]) -> String {
    let row =
        |check: &Check| [check.name.to_owned(), check.verdict.as_str().to_owned(), check.found.replace('\n', " ")];
    let mut text = table(["CHECK", "STATUS", "FOUND"], &checks.iter().map(row).collect::<Vec<_>>());
    let mut wrong = checks.iter().filter(|check| check.verdict != Verdict::Good).peekable();
    if wrong.peek().is_none() {
        return format!("{text}\n\nEverything is there.");
    }
    text.push_str("\n\nWhat to do:");
    wrong.for_each(|check| text.push_str(&format!("\n  {}: {}", check.name, check.advice)));
    let lacks = |check: &&Check| check.verdict != Verdict::Good && REQUIRED.contains(&check.name);
    let lacking: Vec<&str> = checks.iter().filter(lacks).map(|check| check.name).collect();
    if !lacking.is_empty() {
        text.push_str(&format!(
            "\n\nWithout {} no tool is called. `kitbag serve --sandbox relaxed` (KITBAG_SANDBOX=relaxed, or \
             sandbox = \"relaxed\" in kitbag.toml) calls them all the same and notes in each call what was missing.",
            lacking.join(" and ")
        ));
    }
    text
}

fn data_folder(folder: &DataFolder) -> Check {
    let path = folder.path().display().to_string();
    if let Err(error) = tempfile_in(folder) {
        return Check::wrong(
            "data folder",
            Verdict::Bad,
            format!("{path}: {error}"),
            "make it writable, or give another with --data",
        );
    }
    match folder.open_to_others() {
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
fn tempfile_in(folder: &DataFolder) -> std::io::Result<()> {
    let path = folder.path().join(format!(".doctor-{}", std::process::id()));
    fs::write(&path, b"")?;
    fs::remove_file(path)
}

fn disk(folder: &DataFolder) -> Check {
    let Ok(stat) = rustix::fs::statvfs(folder.path()) else {
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

async fn database(place: &Place) -> Check {
    let client = match Client::open(place).await {
        Ok(client) => client,
        Err(failure) => return Check::wrong("database", Verdict::Bad, failure.message, "mend what it says"),
    };
    let via = match &client {
        Client::Running { server, .. } => {
            format!("answers, through the server at {} (process {})", server.url, server.pid)
        }
        Client::Inside { app, .. } => format!("answers ({}); no server is running", app.store().kind()),
    };
    let answer = client.get("/readyz").await;
    client.close().await;
    match answer {
        Ok(_) => Check::good("database", via),
        Err(failure) => {
            Check::wrong("database", Verdict::Bad, failure.message, "look at the database's log, then restart Kitbag")
        }
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

async fn uv() -> Check {
    let advice = "install it: pip install uv; it builds the environments of toolsets that have dependencies";
    match Spec::new("uv").args(["--version"]).run().await {
        Ok(ended) if ended.code == Some(0) => Check::good("uv", ended.stdout.trim()),
        Ok(ended) => Check::wrong("uv", Verdict::Missing, ended.stderr, advice),
        Err(error @ RunError::NotFound { .. }) => Check::wrong("uv", Verdict::Missing, error.to_string(), advice),
        Err(error) => Check::wrong("uv", Verdict::Missing, error.to_string(), advice),
    }
}
