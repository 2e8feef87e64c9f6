//! OpenCode: `opencode run --format json`. It calls a tool `<server>_<tool>`; a server that is registered as `mcp__<server>_` has
//! tools whose names are those that all engines share.

use serde_json::{Map, Value, json};

use super::{Heard, Listener, Plan, Start, command_line, text, tokens, write_private};
use crate::Failure;
use crate::prepare::How;

/// What it must be told about the model.
const PASSED: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// The variable with the address of a provider that speaks as OpenAI does.
const BASE_URL: &str = "OPENAI_BASE_URL";

/// How it is started.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let home = start.folder.home();
    let file = home.join("opencode.json");
    let base_url = std::env::var(BASE_URL).ok().filter(|url| !url.is_empty());
    write_private(&file, &settings(start, base_url.as_deref()).to_string())?;
    let env = [
        ("HOME", home.to_string_lossy().into_owned()),
        ("OPENCODE_CONFIG", file.to_string_lossy().into_owned()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
    ];
    Ok(Plan {
        program: start.installed.program.clone(),
        args: ["run", "--format", "json", "--pure"].map(str::to_owned).to_vec(),
        env: env.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
        pass: PASSED.to_vec(),
        stdin: match &start.config.prompt.system {
            Some(system) => format!("{system}\n\n{}", start.config.prompt.text()),
            None => start.config.prompt.text(),
        },
    })
}

fn settings(start: &Start<'_>, base_url: Option<&str>) -> Value {
    let config = start.config;
    let servers: Map<String, Value> = start
        .servers
        .servers
        .iter()
        .map(|server| {
            let one = match &server.how {
                How::Stdio { env, .. } => {
                    let (command, args) = command_line(&server.how).unwrap_or_default();
                    let line: Vec<String> = std::iter::once(command).chain(args).collect();
                    json!({ "type": "local", "command": line, "environment": env, "enabled": true })
                }
                How::Remote { url, headers, .. } => {
                    json!({ "type": "remote", "url": url, "headers": headers, "oauth": false, "enabled": true })
                }
            };
            (format!("mcp__{}_", server.name), one)
        })
        .collect();
    // Everything is off but what is named.
    let mut tools = Map::from_iter([("*".to_owned(), json!(false))]);
    tools.extend(start.servers.servers.iter().map(|server| (format!("mcp__{}__*", server.name), json!(true))));
    if !start.skills.is_empty() {
        tools.insert("skill".to_owned(), json!(true));
    }
    tools.extend(config.tools.allow.iter().map(|tool| (tool.clone(), json!(true))));
    let model = config.engine.model.as_deref().unwrap_or(config.engine.id.default_model());
    let mut settings = json!({
        "autoupdate": false, "share": "disabled", "mcp": servers, "tools": tools, "model": model, "small_model": model,
    });
    if let (Some(url), Some(name)) = (base_url, model.strip_prefix("local/")) {
        let models =
            json!({ name: { "name": name, "tool_call": true, "limit": { "context": 128_000, "output": 8192 } } });
        let options = json!({ "baseURL": url, "apiKey": "{env:OPENAI_API_KEY}" });
        let provider =
            json!({ "npm": "@ai-sdk/openai-compatible", "name": "Local", "options": options, "models": models });
        settings["provider"] = json!({ "local": provider });
    }
    settings
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
}
