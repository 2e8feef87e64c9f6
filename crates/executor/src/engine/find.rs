//! Which agents are on this machine, and whether they are new enough.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_guard::process::Spec;
use kitbag_model::run::EngineId;

use crate::Failure;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Installed {
    /// Which one.
    pub engine: EngineId,
    /// The program.
    pub program: PathBuf,
    /// What it says its version is.
    pub version: String,
}

/// The program of an engine, and the oldest version whose output is understood here.
fn known(engine: EngineId) -> (&'static str, [u32; 3]) {
    match engine {
        EngineId::Claude => ("claude", [2, 1, 0]),
        EngineId::Codex => ("codex", [0, 100, 0]),
        EngineId::OpenCode => ("opencode", [1, 0, 0]),
        EngineId::ClaudeAgentSdk => ("node", [20, 0, 0]),
    }
}

/// All that are there, in `folders`, the first of a name first.
pub async fn find_all(folders: &[PathBuf]) -> Vec<Installed> {
    let mut found = Vec::new();
    for engine in EngineId::ALL {
        match find(*engine, folders).await {
            Ok(installed) => found.push(installed),
            Err(failure) => tracing::info!(%engine, reason = %failure.message, "an engine is not there"),
        }
    }
    found
}

/// One engine, or why it cannot be used.
pub async fn find(engine: EngineId, folders: &[PathBuf]) -> Result<Installed, Failure> {
    let (name, oldest) = known(engine);
    let missing = || {
        let reason = format!("{engine} needs the program `{name}`, which is not on the path of this executor");
        Failure::new("EXECUTOR_CLI_NOT_FOUND", reason)
    };
    let program = folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path)).ok_or_else(missing)?;
    let asked = Spec::new(&program).args(["--version"]).deadline(PATIENCE).run().await;
    let said = match asked {
        Ok(ended) if ended.code == Some(0) => ended.stdout,
        Ok(ended) => {
            let reason = format!("`{name} --version` ended with {:?}: {}", ended.code, ended.stderr.trim());
            return Err(Failure::new("EXECUTOR_CLI_FAILED", reason));
        }
        Err(error) => return Err(Failure::new("EXECUTOR_CLI_FAILED", error)),
    };
    let version = version_of(&said).ok_or_else(|| {
        Failure::new("EXECUTOR_CLI_FAILED", format_args!("`{name} --version` says no version: {:?}", said.trim()))
    })?;
    if version < oldest {
        let [major, minor, patch] = oldest;
        let reason = format!("`{name}` is {}, and {major}.{minor}.{patch} or later is needed", said.trim());
        return Err(Failure::new("EXECUTOR_CLI_TOO_OLD", reason));
    }
    let version = version.map(|number| number.to_string()).join(".");
    Ok(Installed { engine, program, version })
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
        let put = |text: &str| {
            let path = folder.path().join("codex");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let code =
            async || find(EngineId::Codex, &folders).await.map(|found| found.version).map_err(|failure| failure.code);
        assert_eq!(code().await, Err("EXECUTOR_CLI_NOT_FOUND".to_owned()));
        put("echo codex-cli 0.99.9");
        assert_eq!(code().await, Err("EXECUTOR_CLI_TOO_OLD".to_owned()));
        put("exit 3");
        assert_eq!(code().await, Err("EXECUTOR_CLI_FAILED".to_owned()));
        put("echo codex-cli 0.166.0");
        assert_eq!(code().await, Ok("0.166.0".to_owned()));
    }
}
