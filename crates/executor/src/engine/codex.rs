//! Codex: `codex exec --json`. Its settings are a file in a home of its own; it knows servers that it starts and those behind one
//! HTTP endpoint, not the older transport.

use kitbag_model::RemoteKind;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Heard, Listener, Plan, Start, text, tokens, write_private};
use crate::Failure;
use crate::prepare::{How, Ready};

/// What it must be told about the model.
const PASSED: [&str; 3] = ["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_ORGANIZATION"];

/// The variable with the address of another provider than OpenAI, as its other clients name it.
const BASE_URL: &str = "OPENAI_BASE_URL";

/// How it is started.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let home = start.folder.home().join("codex");
    std::fs::create_dir_all(&home).map_err(|error| Failure::new("EXECUTOR_CLI_FAILED", error))?;
    let base_url = std::env::var(BASE_URL).ok().filter(|url| !url.is_empty());
    let settings = settings(start, base_url.as_deref())?;
    let written = toml::to_string(&settings).map_err(|error| Failure::new("EXECUTOR_CLI_FAILED", error))?;
    write_private(&home.join("config.toml"), &written)?;
    let env = [("HOME", start.folder.home()), ("CODEX_HOME", home)];
    Ok(Plan {
        program: start.installed.program.clone(),
        args: ["exec", "--json", "--skip-git-repo-check", "-"].map(str::to_owned).to_vec(),
        env: env.map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned())).into_iter().collect(),
        pass: PASSED.to_vec(),
        stdin: prompt(start),
    })
}

/// It has no place for who it is to be, so that comes first.
fn prompt(start: &Start<'_>) -> String {
    let prompt = &start.config.prompt;
    match &prompt.system {
        Some(system) => format!("{system}\n\n{}", prompt.text()),
        None => prompt.text(),
    }
}

#[derive(Serialize)]
struct Settings {
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_provider: Option<&'static str>,
    approval_policy: &'static str,
    sandbox_mode: &'static str,
    features: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    model_providers: Map<String, Value>,
    mcp_servers: Map<String, Value>,
}

fn settings(start: &Start<'_>, base_url: Option<&str>) -> Result<Settings, Failure> {
    let config = start.config;
    let shell = config.tools.allow.iter().any(|tool| tool == "shell");
    let provider = base_url.map(
        |url| json!({ "name": "configured", "base_url": url, "env_key": "OPENAI_API_KEY", "wire_api": "responses" }),
    );
    let servers = start.servers.servers.iter().map(|server| Ok((server.name.clone(), server_of(server)?)));
    Ok(Settings {
        model: config.engine.model.clone().unwrap_or_else(|| config.engine.id.default_model().to_owned()),
        model_provider: provider.is_some().then_some("configured"),
        // There is nobody to ask.
        approval_policy: "never",
        sandbox_mode: if shell { "workspace-write" } else { "read-only" },
        features: [("shell_tool".to_owned(), json!(shell))].into_iter().collect(),
        model_providers: provider.map(|provider| ("configured".to_owned(), provider)).into_iter().collect(),
        mcp_servers: servers.collect::<Result<_, Failure>>()?,
    })
}

fn server_of(server: &Ready) -> Result<Value, Failure> {
    Ok(match &server.how {
        How::Stdio { command, args, cwd, env } => {
            let mut one = json!({ "command": command, "args": args, "env": env, "startup_timeout_sec": 60 });
            if let Some(cwd) = cwd {
                one["cwd"] = json!(cwd);
            }
            one
        }
        How::Remote { kind: RemoteKind::StreamableHttp, url, headers } => {
            json!({ "url": url, "http_headers": headers })
        }
        How::Remote { kind: RemoteKind::Sse, .. } => {
            let code = format!("MCP_SERVER_INVALID:{}", server.name);
            return Err(Failure::new(code, "Codex does not know the older SSE transport; use streamable-http"));
        }
    })
}

/// Listens to its stream.
#[derive(Default)]
pub struct Codex {
    said: String,
    failed: bool,
}

impl Listener for Codex {
    fn hear(&mut self, line: &Value) -> Vec<Heard> {
        match line["type"].as_str() {
            Some("turn.started") => vec![Heard::Turn],
            Some("item.started") => started(&line["item"]).into_iter().collect(),
            Some("item.completed") => self.completed(&line["item"]),
            Some("turn.completed") => {
                let usage = &line["usage"];
                let (input, output) = (tokens(usage, "input_tokens"), tokens(usage, "output_tokens"));
                vec![Heard::Usage { input, output }, Heard::Final(self.said.clone())]
            }
            Some("turn.failed") => self.fail(text(&line["error"], "message")),
            Some("error") => self.fail(text(line, "message")),
            _ => Vec::new(),
        }
    }
}

/// The name under which the model sees a server's tool, in the form that all engines share.
fn tool_of(item: &Value) -> (String, Value) {
    match item["type"].as_str() {
        Some("mcp_tool_call") => {
            (format!("mcp__{}__{}", text(item, "server"), text(item, "tool")), item["arguments"].clone())
        }
        Some("command_execution") => ("shell".to_owned(), json!({ "command": item["command"] })),
        Some("file_change") => ("apply_patch".to_owned(), json!({ "changes": item["changes"] })),
        _ => ("web_search".to_owned(), json!({ "query": item["query"] })),
    }
}

fn is_tool(item: &Value) -> bool {
    matches!(item["type"].as_str(), Some("mcp_tool_call" | "command_execution" | "file_change" | "web_search"))
}

fn started(item: &Value) -> Option<Heard> {
    let (tool, input) = tool_of(item);
    is_tool(item).then(|| Heard::Call { id: text(item, "id"), tool, input })
}

impl Codex {
    fn completed(&mut self, item: &Value) -> Vec<Heard> {
        match item["type"].as_str() {
            Some("agent_message") => {
                self.said = text(item, "text");
                vec![Heard::Text(self.said.clone())]
            }
            Some("reasoning") => vec![Heard::Thinking(text(item, "text"))],
            Some("error") => vec![Heard::Note(text(item, "message"))],
            _ if is_tool(item) => {
                let failed = item["status"] == "failed" || item["error"].is_object();
                let output = [&item["error"], &item["result"], &item["aggregated_output"], &item["changes"]];
                let output = output.into_iter().find(|output| !output.is_null()).cloned().unwrap_or_default();
                vec![Heard::Result { id: text(item, "id"), output, failed }]
            }
            _ => Vec::new(),
        }
    }

    /// The first reason counts: it says the same again when the turn fails.
    fn fail(&mut self, why: String) -> Vec<Heard> {
        if std::mem::replace(&mut self.failed, true) {
            return Vec::new();
        }
        vec![Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", why))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_becomes_events() {
        let mut codex = Codex::default();
        let call = |status: &str, result: Value| {
            json!({ "id": "item_1", "type": "mcp_tool_call", "server": "every", "tool": "echo",
                "arguments": { "message": "hi" }, "result": result, "error": null, "status": status })
        };
        let content = json!({ "content": [{ "type": "text", "text": "Echo: hi" }], "structured_content": null });
        let lines = [
            json!({ "type": "thread.started", "thread_id": "x" }),
            json!({ "type": "item.completed", "item": { "id": "item_0", "type": "error", "message": "Model metadata not found." } }),
            json!({ "type": "turn.started" }),
            json!({ "type": "item.started", "item": call("in_progress", Value::Null) }),
            json!({ "type": "item.completed", "item": call("completed", content.clone()) }),
            json!({ "type": "item.completed", "item": { "id": "item_2", "type": "agent_message", "text": "Done." } }),
            json!({ "type": "turn.completed", "usage": { "input_tokens": 20, "cached_input_tokens": 3, "output_tokens": 10 } }),
        ];
        let heard: Vec<Heard> = lines.iter().flat_map(|line| codex.hear(line)).collect();
        assert_eq!(
            heard,
            [
                Heard::Note("Model metadata not found.".into()),
                Heard::Turn,
                Heard::Call { id: "item_1".into(), tool: "mcp__every__echo".into(), input: json!({ "message": "hi" }) },
                Heard::Result { id: "item_1".into(), output: content, failed: false },
                Heard::Text("Done.".into()),
                Heard::Usage { input: 20, output: 10 },
                Heard::Final("Done.".into()),
            ]
        );
        let mut codex = Codex::default();
        let lines = [
            json!({ "type": "error", "message": "401 Unauthorized" }),
            json!({ "type": "turn.failed", "error": { "message": "401 Unauthorized" } }),
        ];
        let heard: Vec<Heard> = lines.iter().flat_map(|line| codex.hear(line)).collect();
        assert_eq!(heard, [Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", "401 Unauthorized"))]);
    }
}
