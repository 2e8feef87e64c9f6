//! The Claude Agent SDK, through a small program of ours for Node (`adapter.mjs`). It prints the SDK's own messages, which are those
//! of Claude Code, so that the same listener hears both.

use serde_json::json;

use super::{Plan, Start, claude, write_private};
use crate::Failure;

/// The adapter.
const ADAPTER: &str = include_str!("adapter.mjs");

/// How it is started. The job comes on its standard input: it has values of variables.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let config = start.config;
    let adapter = start.folder.home().join("adapter.mjs");
    write_private(&adapter, ADAPTER)?;
    let allowed = claude::allowed(start);
    let job = json!({
        "prompt": config.prompt.text(),
        "system": config.prompt.system,
        "cwd": start.folder.work(),
        "model": config.engine.model.as_deref().unwrap_or(config.engine.id.default_model()),
        "maxTurns": config.limits.max_turns,
        "mcpServers": claude::servers_of(start.servers),
        "tools": claude::builtin(&allowed),
        "allowedTools": allowed,
    });
    let mut pass = claude::PASSED.to_vec();
    // Where the SDK is, if it is not where Node looks by itself, and which Claude Code it is to start.
    pass.extend(["NODE_PATH", "KITBAG_CLAUDE_AGENT_SDK", "KITBAG_CLAUDE_CODE"]);
    Ok(Plan {
        program: start.installed.program.clone(),
        args: vec![adapter.to_string_lossy().into_owned()],
        env: claude::environment(start).into_iter().collect(),
        pass,
        stdin: job.to_string(),
    })
}
