//! OpenCode: `opencode run --format json`. It calls a tool `<server>_<tool>`; a server that is registered as `mcp__<server>_` has
//! tools whose names are those that all engines share.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Heard, Listener, Plan, Start, command_line, text, tokens, write_private};
use crate::Failure;
use crate::prepare::How;
use crate::tools::is_own;

/// What it must be told about the model.
const MODELS: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// What a server's name has around it.
const BEFORE: &str = "mcp__";
const BEHIND: &str = "_";

/// The one skill that it brings along, about settings of its own.
const BUILT_IN: &str = "customize-opencode";

/// How it is started.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let file = start.folder.home().join("opencode.json");
    write_private(&file, &literal(&settings(start)))?;
    let own = [
        ("OPENCODE_CONFIG", file.to_string_lossy().into_owned()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
        // Settings of the project are files of the run, and may name commands to run and another address for the model.
        ("OPENCODE_DISABLE_PROJECT_CONFIG", "1".to_owned()),
        // So are skills in `.claude` and `.agents`, there and in every folder above, and `CLAUDE.md`.
        ("OPENCODE_DISABLE_CLAUDE_CODE", "1".to_owned()),
        ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1".to_owned()),
        ("OPENCODE_DISABLE_SHARE", "1".to_owned()),
    ];
    // Without a title it would ask the model for one. That a server is not there it tells in its log alone.
    let args = ["run", "--format", "json", "--pure", "--title", "run", "--print-logs", "--log-level", "WARN"];
    Ok(Plan {
        program: start.installed.program.clone(),
        args: args.map(str::to_owned).to_vec(),
        env: start.environment(&MODELS, &own),
        stdin: start.whole_prompt(),
    })
}

/// Settings as it takes them to be written. It fills in variables and files wherever it finds `{env:…}` and `{file:…}`, before it reads
/// the JSON: a text that somebody else wrote could have it tell the model's key. Spelled otherwise they are what they are.
fn literal(settings: &Value) -> String {
    ["env", "file"]
        .iter()
        .fold(settings.to_string(), |text, word| text.replace(&format!("{{{word}:"), &format!("\\u007b{word}:")))
}

fn settings(start: &Start<'_>) -> Value {
    let config = start.config;
    let servers: Map<String, Value> = start
        .servers
        .servers
        .iter()
        .map(|server| {
            let one = match &server.how {
                How::Stdio { env, .. } => {
                    let (command, args) = command_line(&server.how, &[]).unwrap_or_default();
                    let line: Vec<String> = std::iter::once(command).chain(args).collect();
                    json!({ "type": "local", "command": line, "environment": env, "enabled": true })
                }
                How::Remote { url, headers, .. } => {
                    json!({ "type": "remote", "url": url, "headers": headers, "oauth": false, "enabled": true })
                }
            };
            (format!("{BEFORE}{}{BEHIND}", server.name), one)
        })
        .collect();
    // Everything is off but what is named.
    let mut tools = Map::from_iter([("*".to_owned(), json!(false))]);
    tools.extend(start.servers.servers.iter().map(|server| (format!("mcp__{}__*", server.name), json!(true))));
    if !start.skills.is_empty() {
        tools.insert("skill".to_owned(), json!(true));
    }
    let more = config.tools.allow.iter().filter(|name| !is_own(name));
    tools.extend(more.map(|tool| (tool.clone(), json!(true))));
    let model = start.model();
    let mut settings = json!({
        "autoupdate": false, "share": "disabled", "mcp": servers, "tools": tools, "model": model, "small_model": model,
        "provider": providers(start), "experimental": { "mcp_timeout": config.limits.timeout_ms },
    });
    if !start.skills.is_empty() {
        // Each by itself: what else is beside them is the run's own.
        let paths: Vec<PathBuf> = start.skills.iter().map(|id| start.skills_folder.join(id)).collect();
        settings["skills"] = json!({ "paths": paths });
        // One of the toolset's by that name takes the place of the built-in one.
        let built_in = if start.skills.iter().any(|id| id == BUILT_IN) { "allow" } else { "deny" };
        settings["permission"] = json!({ "skill": { "*": "allow", BUILT_IN: built_in } });
    }
    settings
}

/// Where models are, if this machine says so. `local/<name>` is one behind a server that speaks as OpenAI once did, as most do.
fn providers(start: &Start<'_>) -> Value {
    let url = |name: &str| start.variables.of_this_machine(name);
    let mut providers = json!({});
    if let Some(url) = url("ANTHROPIC_BASE_URL") {
        providers["anthropic"] = json!({ "options": { "baseURL": format!("{}/v1", url.trim_end_matches('/')) } });
    }
    if let Some(url) = url("OPENAI_BASE_URL") {
        providers["openai"] = json!({ "options": { "baseURL": url } });
        if let Some(name) = start.model().strip_prefix("local/") {
            let models =
                json!({ name: { "name": name, "tool_call": true, "limit": { "context": 128_000, "output": 8192 } } });
            let options = json!({ "baseURL": url, "apiKey": start.variables.of_this_machine("OPENAI_API_KEY") });
            providers["local"] =
                json!({ "npm": "@ai-sdk/openai-compatible", "name": "Local", "options": options, "models": models });
        }
    }
    providers
}

/// Listens to its stream. It does not say that it is done: the last thing that it said is the answer.
#[derive(Default)]
pub struct OpenCode {
    said: String,
    failed: bool,
}

impl Listener for OpenCode {
    fn hear(&mut self, line: &Value) -> Vec<Heard> {
        let part = &line["part"];
        match line["type"].as_str() {
            Some("step_start") => vec![Heard::Turn],
            Some("text") => {
                self.said = text(part, "text");
                vec![Heard::Text(self.said.clone())]
            }
            Some("reasoning") => vec![Heard::Thinking(text(part, "text"))],
            Some("tool_use") => tool(part),
            Some("step_finish") => {
                let used = &part["tokens"];
                let cached = tokens(&used["cache"], "read") + tokens(&used["cache"], "write");
                let output = tokens(used, "output") + tokens(used, "reasoning");
                vec![Heard::Usage { input: tokens(used, "input") + cached, output }]
            }
            Some("error") => {
                self.failed = true;
                let error = &line["error"];
                let said = [text(&error["data"], "message"), text(error, "message"), text(error, "name")];
                let why = said.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| error.to_string());
                vec![Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", why))]
            }
            _ => Vec::new(),
        }
    }

    /// Its log has the one line that says that a server is not there, before the model is asked.
    fn beside(&mut self, line: &str) -> Vec<Heard> {
        let value =
            |key: &str| line.split_once(key).map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default());
        let name = value(" key=").and_then(|key| key.strip_prefix(BEFORE)?.strip_suffix(BEHIND));
        match name {
            Some(name) if line.contains("message=\"server unavailable\"") => {
                vec![Heard::lost(name, value(" status=").unwrap_or_default())]
            }
            _ => Vec::new(),
        }
    }

    fn end(&mut self) -> Vec<Heard> {
        if self.failed { Vec::new() } else { vec![Heard::Final(std::mem::take(&mut self.said))] }
    }
}

/// It tells of a call when it is over.
fn tool(part: &Value) -> Vec<Heard> {
    let (id, state) = (text(part, "callID"), &part["state"]);
    let failed = state["status"] == "error";
    let output = if failed { &state["error"] } else { &state["output"] };
    vec![
        Heard::Call { id: id.clone(), tool: text(part, "tool"), input: state["input"].clone() },
        Heard::Result { id, output: output.clone(), failed },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_becomes_events() {
        let mut opencode = OpenCode::default();
        let spent = json!({ "tokens": { "total": 15, "input": 10, "output": 5, "reasoning": 1, "cache": { "write": 2, "read": 3 } } });
        let lines = [
            json!({ "type": "step_start", "part": { "type": "step-start" } }),
            json!({ "type": "tool_use", "part": { "type": "tool", "tool": "mcp__every__echo", "callID": "call_1",
                "state": { "status": "completed", "input": { "message": "hi" }, "output": "Echo: hi" } } }),
            json!({ "type": "step_finish", "part": spent }),
            json!({ "type": "step_start", "part": { "type": "step-start" } }),
            json!({ "type": "text", "part": { "type": "text", "text": "Done." } }),
        ];
        let mut heard: Vec<Heard> = lines.iter().flat_map(|line| opencode.hear(line)).collect();
        heard.extend(opencode.end());
        assert_eq!(
            heard,
            [
                Heard::Turn,
                Heard::Call { id: "call_1".into(), tool: "mcp__every__echo".into(), input: json!({ "message": "hi" }) },
                Heard::Result { id: "call_1".into(), output: json!("Echo: hi"), failed: false },
                Heard::Usage { input: 15, output: 6 },
                Heard::Turn,
                Heard::Text("Done.".into()),
                Heard::Final("Done.".into()),
            ]
        );
        let mut opencode = OpenCode::default();
        let error = json!({ "type": "error", "error": { "name": "APIError", "data": { "message": "Unauthorized" } } });
        assert_eq!(opencode.hear(&error), [Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", "Unauthorized"))]);
        assert!(opencode.end().is_empty());
    }

    #[test]
    fn nothing_is_filled_in() {
        let settings = json!({ "args": ["{env:KEY}", "{file:/etc/passwd}", "{env"] });
        let written = literal(&settings);
        assert!(!written.contains("{env:") && !written.contains("{file:"), "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), settings);
    }

    #[test]
    fn a_server_that_is_not_there_is_in_its_log() {
        let line = "timestamp=2026-11-18T02:22:09.929Z level=WARN run=cf7e86c1 message=\"server unavailable\" key=mcp__lost_ type=local status=failed\n";
        let [Heard::Stop(failure)] = &OpenCode::default().beside(line)[..] else { panic!("it went on") };
        assert!(failure.code == "MCP_SERVER_NOT_CONNECTED" && failure.message.contains("\"lost\""), "{failure}");
        assert!(OpenCode::default().beside(&line.replace("server unavailable", "server slow")).is_empty());
    }
}
