//! Which agents are on this machine, and whether they are new enough.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_guard::child::ChildSpec;
use kitbag_model::run::EngineId;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::sdk;
use crate::Failure;
use crate::prepare::Variables;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much of what it says then is looked at.
const MOST: u64 = 4096;

/// An agent that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Installed {
    /// Which one.
    pub engine: EngineId,
    /// The program.
    pub program: PathBuf,
    /// The package that the program loads, if the agent is one.
    pub package: Option<PathBuf>,
    /// What it says its version is.
    pub version: String,
}

/// The program of an engine, and the oldest version that keeps to what it is told here. Codex and OpenCode take no notice of settings
/// that they do not know, so one that is older than those with which it was tried might have tools that it should not have.
fn known(engine: EngineId) -> (&'static str, [u32; 3]) {
    match engine {
        EngineId::Claude => ("claude", [2, 1, 0]),
        EngineId::Codex => ("codex", [0, 166, 0]),
        EngineId::OpenCode => ("opencode", [1, 18, 0]),
        EngineId::ClaudeAgentSdk => ("node", [20, 0, 0]),
    }
}

/// The oldest Claude Agent SDK that has what the adapter asks for.
const OLDEST_SDK: [u32; 3] = [0, 3, 0];

/// All that are there, in `folders`, the first of a name first.
pub async fn find_all(folders: &[PathBuf], variables: &Variables) -> Vec<Installed> {
    let mut found = Vec::new();
    for engine in EngineId::ALL {
        match find(*engine, folders, variables).await {
            Ok(installed) => found.push(installed),
            Err(failure) => tracing::info!(%engine, reason = %failure.message, "an engine is not there"),
        }
    }
    found
}

/// One engine, or why it cannot be used.
pub async fn find(engine: EngineId, folders: &[PathBuf], variables: &Variables) -> Result<Installed, Failure> {
    let (name, oldest) = known(engine);
    let missing = || {
        let reason = format!("{engine} needs the program `{name}`, which is not on the path of this executor");
        Failure::new("EXECUTOR_CLI_NOT_FOUND", reason)
    };
    let program = folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path)).ok_or_else(missing)?;
    let said = asked(&program, variables)
        .await
        .map_err(|reason| Failure::new("EXECUTOR_CLI_FAILED", format_args!("`{name} --version` {reason}")))?;
    let version = new_enough(name, &said, oldest)?;
    let (package, version) = match engine {
        EngineId::ClaudeAgentSdk => {
            let (package, said) = sdk::find(folders, variables)?;
            (Some(package), new_enough("@anthropic-ai/claude-agent-sdk", &said, OLDEST_SDK)?)
        }
        _ => (None, version),
    };
    Ok(Installed { engine, program, package, version })
}

/// What a program says its version is. It is started as the agent would be, and gone when this returns, whatever it is.
async fn asked(program: &Path, variables: &Variables) -> Result<String, String> {
    let known = ["PATH"].iter().chain(&super::REACH);
    let known = known.filter_map(|name| Some(((*name).to_owned(), variables.of_this_machine(name)?)));
    let spec = ChildSpec::new(program, "/").args(["--version"]).declare(known);
    let (mut child, pipes) = spec.start().await.map_err(|error| error.to_string())?;
    drop(pipes.stdin);
    let (mut said, mut beside) = (String::new(), String::new());
    let asked = tokio::time::timeout(PATIENCE, async {
        // Whoever says more than is read here has nobody who reads it any more.
        let read = async |from: pipe::Receiver, text: &mut String| from.take(MOST).read_to_string(text).await;
        let _ = tokio::join!(read(pipes.stdout, &mut said), read(pipes.stderr, &mut beside));
        child.ended().await
    });
    let ended = asked.await;
    child.stop(Duration::ZERO).await;
    match ended {
        Err(_) => Err(format!("did not end within {PATIENCE:?}")),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(status)) if status.success() => Ok(said.trim().to_owned()),
        Ok(Ok(status)) => Err(format!("ended with {status}: {}", beside.trim())),
    }
}

fn new_enough(name: &str, said: &str, oldest: [u32; 3]) -> Result<String, Failure> {
    let version = version_of(said).ok_or_else(|| {
        Failure::new("EXECUTOR_CLI_FAILED", format_args!("`{name} --version` says no version: {said:?}"))
    })?;
    if version < oldest {
        let [major, minor, patch] = oldest;
        let reason = format!("`{name}` is {said}, and {major}.{minor}.{patch} or later is needed");
        return Err(Failure::new("EXECUTOR_CLI_TOO_OLD", reason));
    }
    Ok(version.map(|number| number.to_string()).join("."))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The first three numbers with dots between.
fn version_of(text: &str) -> Option<[u32; 3]> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut numbers = word.split('.').map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => Some([major, minor, patch]),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions() {
        for (said, version) in [
            ("2.1.325 (Claude Code)", Some([2, 1, 325])),
            ("codex-cli 0.166.0", Some([0, 166, 0])),
            ("1.18.33\n", Some([1, 18, 33])),
            ("v22.4.0", Some([22, 4, 0])),
            ("no version", None),
            ("2.1", None),
        ] {
            assert_eq!(version_of(said), version, "{said}");
        }
    }

    #[tokio::test]
    async fn what_is_missing_too_old_or_broken_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let variables = Variables::new([], Vec::new());
        let put = |text: &str| {
            let path = folder.path().join("codex");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let code = async || {
            find(EngineId::Codex, &folders, &variables).await.map(|found| found.version).map_err(|failure| failure.code)
        };
        assert_eq!(code().await, Err("EXECUTOR_CLI_NOT_FOUND".to_owned()));
        put("echo codex-cli 0.99.9");
        assert_eq!(code().await, Err("EXECUTOR_CLI_TOO_OLD".to_owned()));
        for broken in ["exit 3", "echo nothing", "yes 0.1"] {
            put(broken);
            assert_eq!(code().await, Err("EXECUTOR_CLI_FAILED".to_owned()), "{broken}");
        }
        put("echo codex-cli 0.166.0");
        assert_eq!(code().await, Ok("0.166.0".to_owned()));
    }
}
