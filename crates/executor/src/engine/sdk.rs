//! The Claude Agent SDK, through a small program of ours for Node (`adapter.mjs`). It prints the SDK's own messages, which are those
//! of Claude Code, so that the same listener hears both.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Plan, Start, claude, write_private};
use crate::Failure;
use crate::prepare::Variables;

/// The adapter.
const ADAPTER: &str = include_str!("adapter.mjs");

/// The package, as npm names it.
const PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";

/// The variable with its folder, where it is not where it is looked for.
const NAMED: &str = "KITBAG_CLAUDE_AGENT_SDK";

/// Where the SDK is, and which version: in the folder that the machine names, where Node looks, or where npm puts a package whose
/// programs are in one of `programs`, for everybody or for one project.
pub(super) fn find(programs: &[PathBuf], variables: &Variables) -> Result<(PathBuf, String), Failure> {
    let named = variables.of_this_machine(NAMED).map(PathBuf::from);
    let node_path = variables.of_this_machine("NODE_PATH").unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(&node_path).collect();
    let beside = programs
        .iter()
        .filter_map(|folder| folder.parent())
        .flat_map(|parent| [parent.to_owned(), parent.join("lib/node_modules"), parent.join("node_modules")]);
    let places = paths.into_iter().chain(beside).map(|place| place.join(PACKAGE));
    let found = named.into_iter().chain(places).find_map(|place| Some((version_in(&place)?, place)));
    found.map(|(version, place)| (place, version)).ok_or_else(|| {
        let reason = format!("the package {PACKAGE} is not installed beside the programs of this executor, nor where NODE_PATH or {NAMED} say");
        Failure::new("EXECUTOR_CLI_NOT_FOUND", reason)
    })
}

fn version_in(place: &Path) -> Option<String> {
    let text = std::fs::read_to_string(place.join("package.json")).ok()?;
    let package: Value = serde_json::from_str(&text).ok()?;
    package["version"].as_str().map(ToOwned::to_owned)
}

/// How it is started. The job comes on its standard input.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let config = start.config;
    claude::show_skills(start)?;
    let adapter = start.folder.home().join("adapter.mjs");
    write_private(&adapter, ADAPTER)?;
    let allowed = claude::allowed(start);
    let (servers, values) = claude::servers_of(start.servers);
    let job = json!({
        "sdk": start.installed.package,
        "prompt": claude::prompt(start),
        "system": config.prompt.system,
        "cwd": start.folder.work(),
        "model": start.model(),
        "maxTurns": config.limits.max_turns,
        "mcpServers": servers,
        "patience": claude::STARTUP,
        "tools": claude::builtin(&allowed),
        "allowedTools": allowed,
        "schema": claude::schema(start),
        // Which Claude Code it is to start, if not its own.
        "claude": start.variables.of_this_machine("KITBAG_CLAUDE_CODE"),
    });
    Ok(Plan {
        program: start.installed.program.clone(),
        args: vec![adapter.to_string_lossy().into_owned()],
        env: claude::environment(start, values),
        stdin: job.to_string(),
    })
}
