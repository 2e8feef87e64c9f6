//! What the flags of `kitbag run` ask for.

use std::io::Read;

use serde_json::{Map, Value, json};

use crate::cli::RunFlags;
use crate::failure::{Doing, Failure};

/// The body of the request.
pub(super) fn body(flags: &RunFlags) -> Result<Value, Failure> {
    let mut prompt = json!({ "instructions": prompt(&flags.prompt)? });
    set(&mut prompt, "system", flags.system.as_ref());
    let mut engine = json!({ "id": engine(&flags.engine) });
    set(&mut engine, "model", flags.model.as_ref());
    let mut selector = Map::new();
    let mut select = |name: &str, value: Value| drop(selector.insert(name.to_owned(), value));
    flags.on.iter().for_each(|id| select("executorId", json!(id)));
    flags.group.iter().for_each(|group| select("group", json!(group)));
    flags.pool.iter().for_each(|pool| select("pool", json!(pool)));
    if !flags.label.is_empty() {
        select("labels", json!(flags.label));
    }
    let mut limits = json!({});
    set(&mut limits, "timeoutMs", flags.timeout.map(|seconds| seconds.saturating_mul(1000)).as_ref());
    set(&mut limits, "maxTurns", flags.max_turns.as_ref());
    set(&mut limits, "maxToolCalls", flags.max_tool_calls.as_ref());
    // The Agent SDK is what the other mode is for.
    let mode = if engine["id"] == SDK { "node" } else { "gateway" };
    let mut config = json!({
        "prompt": prompt, "engine": engine, "execution": { "mode": mode, "selector": selector },
        "tools": { "allow": flags.allow }, "limits": limits,
    });
    set(&mut config, "toolsetId", flags.toolset.as_ref());
    if let Some(path) = &flags.schema {
        let text = std::fs::read_to_string(path).doing(format!("cannot read {}", path.display()))?;
        let schema: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::wrong_use(format!("{} is no JSON: {error}", path.display())))?;
        config["output"] = json!({ "mode": "json", "jsonSchema": schema });
    }
    let mut body = json!({ "config": config });
    set(&mut body, "name", flags.name.as_ref());
    if let Some(chat) = &flags.chat {
        body["workspace"] = json!({ "chatId": chat, "apply": flags.apply });
    }
    Ok(body)
}

const SDK: &str = "claude.agent-sdk.v1";

/// The short names that people use.
fn engine(name: &str) -> String {
    match name {
        "claude" | "codex" | "opencode" => format!("gateway.{name}.v2"),
        "sdk" => SDK.to_owned(),
        whole => whole.to_owned(),
    }
}

/// What was given, or what is in the file, or on standard input, that was named.
pub(in crate::commands) fn prompt(given: &str) -> Result<String, Failure> {
    match given {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).doing("cannot read the prompt from standard input")?;
            Ok(text)
        }
        given => match given.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).doing(format!("cannot read the prompt from {path}")),
            None => Ok(given.to_owned()),
        },
    }
}

fn set<T: serde::Serialize>(object: &mut Value, name: &str, value: Option<&T>) {
    if let Some(value) = value {
        object[name] = json!(value);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn of(args: &[&str]) -> Value {
        let cli = Cli::try_parse_from(["kitbag", "run"].iter().chain(args)).unwrap();
        let Command::Run(flags) = cli.command else { panic!("another command") };
        body(&flags).unwrap()
    }

    #[test]
    fn flags_become_a_configuration() {
        let least = of(&["Say hello"]);
        assert_eq!(least["config"]["engine"], json!({ "id": "gateway.claude.v2" }));
        assert_eq!(least["config"]["execution"], json!({ "mode": "gateway", "selector": {} }));
        assert!(kitbag_model::run::RunConfig::read(&least["config"]).is_ok());
        let most = of(&[
            "Say hello",
            "--toolset",
            "greeter",
            "--engine",
            "sdk",
            "--model",
            "m",
            "--system",
            "Polite",
            "--chat",
            "c",
            "--apply",
            "--allow",
            "Bash",
            "--allow",
            "kitbag:write_file",
            "--label",
            "gpu",
            "--group",
            "west",
            "--pool",
            "managed",
            "--timeout",
            "90",
            "--max-turns",
            "3",
            "--max-tool-calls",
            "4",
        ]);
        let config = kitbag_model::run::RunConfig::read(&most["config"]).unwrap();
        assert_eq!((config.limits.timeout_ms, config.limits.max_turns, config.limits.max_tool_calls), (90_000, 3, 4));
        assert_eq!(config.tools.allow, ["Bash", "kitbag:write_file"]);
        assert_eq!(most["config"]["execution"]["mode"], "node");
        assert_eq!(most["workspace"], json!({ "chatId": "c", "apply": true }));
        assert!(Cli::try_parse_from(["kitbag", "run", "x", "--apply"]).is_err(), "of which chat?");
    }
}
