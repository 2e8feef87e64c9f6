//! Codex: `codex exec --json`. Its settings are a file in a home of its own; it knows servers that it starts and those behind one
//! HTTP endpoint, not the older transport.

use std::collections::BTreeSet;

use kitbag_model::RemoteKind;
use kitbag_model::run::Output;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Heard, Listener, Plan, Start, text, tokens, write_private};
use crate::Failure;
use crate::prepare::{How, Ready};

/// What it must be told about the model.
const MODELS: [&str; 4] = ["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"];

/// The variable with the address of another provider than OpenAI, as its other clients name it.
const BASE_URL: &str = "OPENAI_BASE_URL";

/// Where OpenAI is.
const OPENAI: &str = "https://api.openai.com/v1";

/// What of its own it is never to have: other agents, other tools, what its desktop has, what would ask somebody.
const OFF: [&str; 11] = [
    "apps",
    "browser_use",
    "computer_use",
    "goals",
    "hooks",
    "image_generation",
    "multi_agent",
    "plugins",
    "remote_plugin",
    "skill_mcp_dependency_install",
    "tool_suggest",
];

/// How it is started.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new("EXECUTOR_CLI_FAILED", error);
    let home = start.folder.home().join("codex");
    std::fs::create_dir_all(&home).map_err(|error| failed(&error))?;
    let settings = toml::to_string(&settings(start)?).map_err(|error| failed(&error))?;
    write_private(&home.join("config.toml"), &settings)?;
    show_skills(start)?;
    let mut args = ["exec", "--json", "--skip-git-repo-check"].map(str::to_owned).to_vec();
    if let Output::Json { json_schema: Some(schema) } = &start.config.output
        && is_strict(&Value::Object(schema.clone()))
    {
        let file = home.join("schema.json");
        write_private(&file, &Value::Object(schema.clone()).to_string())?;
        args.extend(["--output-schema".to_owned(), file.to_string_lossy().into_owned()]);
    }
    args.push("-".to_owned());
    Ok(Plan {
        program: start.installed.program.clone(),
        args,
        env: start.environment(&MODELS, &[("CODEX_HOME", home.to_string_lossy().into_owned())]),
        // It has no place for who it is to be, so that comes first.
        stdin: start.whole_prompt(),
    })
}

/// Shows it the skills as its user's, in its home. The link leads to the whole folder, so that it tells its model where in the run's folder
/// they are: from there all tools can read them. What of the run's own is in that folder is off, as everywhere: see [`skills`].
fn show_skills(start: &Start<'_>) -> Result<(), Failure> {
    if start.skills.is_empty() {
        return Ok(());
    }
    let folder = start.folder.home().join(".agents");
    let show = || {
        std::fs::create_dir_all(&folder)?;
        std::os::unix::fs::symlink(start.skills_folder, folder.join("skills"))
    };
    show().map_err(|error: std::io::Error| Failure::new("SKILL_STAGING_FAILED", error))
}

/// The skills of a run are those of its toolset. It has no switch for those that it finds in the folder in which it works
/// (`.agents/skills`, and `.codex/skills` even of a project that nobody trusts), so each of the run's own is named.
fn skills(start: &Start<'_>) -> Value {
    let work = start.folder.work();
    let own = start.files.keys().filter(|path| path.name() == "SKILL.md");
    let off: Vec<Value> = own.map(|path| json!({ "path": work.join(path), "enabled": false })).collect();
    json!({ "bundled": { "enabled": false }, "config": off })
}

/// Whether OpenAI takes a schema for its answers: every object in it has all its properties, and no others. Any other is told in words.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return true };
    let is_object = map.get("type").is_some_and(|kind| kind == "object");
    let names = map.get("properties").and_then(Value::as_object).map(Map::len).unwrap_or_default();
    let required = map.get("required").and_then(Value::as_array).map(Vec::len).unwrap_or_default();
    let closed = map.get("additionalProperties") == Some(&Value::Bool(false)) && names == required;
    let parts = map.values().flat_map(|value| match value {
        Value::Object(inner) => inner.values().chain([value]).collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    });
    (!is_object || closed) && parts.into_iter().all(is_strict)
}

#[derive(Serialize)]
struct Settings {
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_provider: Option<&'static str>,
    approval_policy: &'static str,
    sandbox_mode: &'static str,
    web_search: &'static str,
    check_for_update_on_startup: bool,
    project_doc_max_bytes: u32,
    project_root_markers: [&'static str; 0],
    features: Map<String, Value>,
    skills: Value,
    tools: Value,
    #[serde(skip_serializing_if = "Map::is_empty")]
    model_providers: Map<String, Value>,
    mcp_servers: Map<String, Value>,
}

fn settings(start: &Start<'_>) -> Result<Settings, Failure> {
    let allows = |name: &str| start.config.tools.allow.iter().any(|tool| tool == name);
    let (shell, patch) = (allows("shell"), allows("apply_patch"));
    let has_key = start.variables.of_this_machine("OPENAI_API_KEY").is_some();
    let url = start.variables.of_this_machine(BASE_URL).or(has_key.then(|| OPENAI.to_owned()));
    let provider = url.map(
        |url| json!({ "name": "configured", "base_url": url, "env_key": "OPENAI_API_KEY", "wire_api": "responses" }),
    );
    let seconds = start.config.limits.timeout_ms.div_ceil(1000);
    let servers = start.servers.servers.iter().map(|server| Ok((server.name.clone(), server_of(server, seconds)?)));
    let on = [("shell_tool", shell), ("unified_exec", shell), ("view_image", allows("view_image"))];
    let features = on.into_iter().chain(OFF.map(|name| (name, false)));
    Ok(Settings {
        model: start.model().to_owned(),
        model_provider: provider.is_some().then_some("configured"),
        // There is nobody to ask.
        approval_policy: "never",
        sandbox_mode: if shell || patch { "workspace-write" } else { "read-only" },
        web_search: if allows("web_search") { "live" } else { "disabled" },
        check_for_update_on_startup: false,
        features: features.map(|(name, on)| (name.to_owned(), json!(on))).collect(),
        // What the run's files and the folders above have to say to it (`AGENTS.md`) is not read.
        project_doc_max_bytes: 0,
        project_root_markers: [],
        skills: skills(start),
        tools: json!({ "experimental_request_user_input": { "enabled": false } }),
        model_providers: provider.map(|provider| ("configured".to_owned(), provider)).into_iter().collect(),
        mcp_servers: servers.collect::<Result<_, Failure>>()?,
    })
}

/// A server without which it does not begin. What it may do was decided before: it is not asked for again.
fn server_of(server: &Ready, seconds: u64) -> Result<Value, Failure> {
    let mut one = match &server.how {
        How::Stdio { command, args, cwd, env } => {
            let mut one = json!({ "command": command, "args": args, "env": env });
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
    };
    one["required"] = json!(true);
    one["default_tools_approval_mode"] = json!("approve");
    one["startup_timeout_sec"] = json!(60);
    one["tool_timeout_sec"] = json!(seconds);
    Ok(one)
}

/// Listens to its stream. It tells of no turn of the model but the first: another one follows when the last call that is under way is
/// over. Calls that the model made together and that were done one after the other count as several, which is the safe side.
#[derive(Default)]
pub struct Codex {
    said: String,
    running: BTreeSet<String>,
}

impl Listener for Codex {
    fn hear(&mut self, line: &Value) -> Vec<Heard> {
        match line["type"].as_str() {
            Some("turn.started") => vec![Heard::Turn],
            Some("item.started") => self.started(&line["item"]).into_iter().collect(),
            Some("item.completed") => self.completed(&line["item"]),
            Some("turn.completed") => {
                let usage = &line["usage"];
                let (input, output) = (tokens(usage, "input_tokens"), tokens(usage, "output_tokens"));
                vec![Heard::Usage { input, output }, Heard::Final(self.said.clone())]
            }
            Some("turn.failed") => vec![failed(text(&line["error"], "message"))],
            // It may try again, and say so in the same way: what comes last counts.
            Some("error") => vec![failed(text(line, "message"))],
            _ => Vec::new(),
        }
    }

    /// It does not begin without its servers, and says beside which one is not there.
    fn beside(&mut self, line: &str) -> Vec<Heard> {
        let Some((_, lost)) = line.split_once("required MCP servers failed to initialize: ") else { return Vec::new() };
        let (name, why) = lost.split_once(": ").unwrap_or((lost.trim(), ""));
        vec![Heard::lost(name, why.trim())]
    }
}

fn failed(why: String) -> Heard {
    Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", why))
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

impl Codex {
    fn started(&mut self, item: &Value) -> Option<Heard> {
        if !is_tool(item) {
            return None;
        }
        let (tool, input) = tool_of(item);
        self.running.insert(text(item, "id"));
        Some(Heard::Call { id: text(item, "id"), tool, input })
    }

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
                let id = text(item, "id");
                // One that is told of only when it is over was a call all the same.
                let call = if self.running.remove(&id) { None } else { self.started(item) };
                self.running.remove(&id);
                let turn = self.running.is_empty().then_some(Heard::Turn);
                call.into_iter().chain([Heard::Result { id, output, failed }]).chain(turn).collect()
            }
            _ => Vec::new(),
        }
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
                Heard::Turn,
                Heard::Text("Done.".into()),
                Heard::Usage { input: 20, output: 10 },
                Heard::Final("Done.".into()),
            ]
        );
        let mut codex = Codex::default();
        let lines = [
            json!({ "type": "error", "message": "Reconnecting... 1/5" }),
            json!({ "type": "turn.failed", "error": { "message": "401 Unauthorized" } }),
        ];
        let heard: Vec<Heard> = lines.iter().flat_map(|line| codex.hear(line)).collect();
        assert_eq!(heard.last(), Some(&Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", "401 Unauthorized"))));
    }

    #[test]
    fn a_server_that_is_not_there_is_told_beside() {
        let line = "Error: Fatal error: required MCP servers failed to initialize: lost: handshaking failed: connection closed\n";
        let [Heard::Stop(failure)] = &Codex::default().beside(line)[..] else { panic!("it went on") };
        assert!(failure.code == "MCP_SERVER_NOT_CONNECTED" && failure.message.contains("\"lost\""), "{failure}");
    }

    #[test]
    fn a_schema_is_strict_or_told_in_words() {
        let of = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let inner = of(json!({ "b": { "type": "string" } }), json!(["b"]));
        assert!(is_strict(&of(json!({ "a": { "type": "integer" }, "c": inner }), json!(["a", "c"]))));
        assert!(!is_strict(&of(json!({ "a": { "type": "integer" } }), json!([]))));
        assert!(!is_strict(&json!({ "type": "object" })));
        let loose = json!({ "type": "array", "items": { "type": "object" } });
        assert!(!is_strict(&of(json!({ "a": loose }), json!(["a"]))));
    }
}
