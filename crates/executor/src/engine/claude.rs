//! Claude Code: `claude -p --output-format stream-json`. The Agent SDK says the same messages.

use kitbag_model::RemoteKind;
use kitbag_model::run::Output;
use serde_json::{Map, Value, json};

use super::{Heard, Listener, Plan, Start, command_line, text, tokens, write_private};
use crate::Failure;
use crate::prepare::{How, ReadyServers};

/// What it must be told about the model: where it is, and the key.
pub(super) const PASSED: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "AWS_REGION",
];

/// Its variables, the same for the SDK, which starts it.
pub(super) fn environment(start: &Start<'_>) -> Vec<(String, String)> {
    let home = start.folder.home();
    [
        ("HOME", home.to_string_lossy().into_owned()),
        ("CLAUDE_CONFIG_DIR", home.join("claude").to_string_lossy().into_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
        // Otherwise tools are offered only after a search for them, and a toolset's are few.
        ("ENABLE_TOOL_SEARCH", "false".to_owned()),
        // As root it starts only if somebody says that the machine is not at stake.
        ("IS_SANDBOX", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// How it is started.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let config = start.config;
    let servers = start.folder.home().join("mcp.json");
    write_private(&servers, &json!({ "mcpServers": servers_of(start.servers) }).to_string())?;
    let mut args: Vec<String> =
        ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--mcp-config"]
            .map(str::to_owned)
            .to_vec();
    args.push(servers.to_string_lossy().into_owned());
    let model = config.engine.model.as_deref().unwrap_or(config.engine.id.default_model());
    args.extend([
        "--model".to_owned(),
        model.to_owned(),
        "--max-turns".to_owned(),
        config.limits.max_turns.to_string(),
    ]);
    // The project's settings would bring in what the run's files say; its skills come with them.
    args.extend(["--setting-sources".to_owned(), "project".to_owned()]);
    let allowed = allowed(start);
    args.extend(["--tools".to_owned(), builtin(&allowed).join(",")]);
    if !allowed.is_empty() {
        args.extend(["--allowedTools".to_owned(), allowed.join(",")]);
    }
    if let Some(system) = &config.prompt.system {
        let file = start.folder.home().join("system.txt");
        write_private(&file, system)?;
        args.extend(["--append-system-prompt-file".to_owned(), file.to_string_lossy().into_owned()]);
    }
    if let Output::Json { json_schema: Some(schema) } = &config.output {
        args.extend(["--json-schema".to_owned(), Value::Object(schema.clone()).to_string()]);
    }
    Ok(Plan {
        program: start.installed.program.clone(),
        args,
        env: environment(start).into_iter().collect(),
        pass: PASSED.to_vec(),
        stdin: config.prompt.text(),
    })
}

/// What it may use without being asked: the servers' tools, skills where there are any, and what the run adds.
pub(super) fn allowed(start: &Start<'_>) -> Vec<String> {
    let servers = start.servers.servers.iter().map(|server| format!("mcp__{}", server.name));
    let skill = (!start.skills.is_empty()).then(|| "Skill".to_owned());
    servers.chain(skill).chain(start.config.tools.allow.iter().cloned()).collect()
}

/// The tools of its own among those: what is not named is not even offered.
pub(super) fn builtin(allowed: &[String]) -> Vec<String> {
    let own = allowed.iter().filter(|name| !name.starts_with("mcp__"));
    own.map(|name| name.split('(').next().unwrap_or_default().to_owned()).collect()
}

/// Its `mcpServers`.
pub(super) fn servers_of(ready: &ReadyServers) -> Map<String, Value> {
    let one = |how: &How| match how {
        How::Stdio { env, .. } => {
            let (command, args) = command_line(how).unwrap_or_default();
            json!({ "type": "stdio", "command": command, "args": args, "env": env })
        }
        How::Remote { kind, url, headers } => {
            let kind = if *kind == RemoteKind::Sse { "sse" } else { "http" };
            json!({ "type": kind, "url": url, "headers": headers })
        }
    };
    ready.servers.iter().map(|server| (server.name.clone(), one(&server.how))).collect()
}

/// Listens to its stream.
#[derive(Default)]
pub struct Claude {
    /// The message that was heard last: one may come in several parts, and is one turn.
    message: String,
}

impl Listener for Claude {
    fn hear(&mut self, line: &Value) -> Vec<Heard> {
        match line["type"].as_str() {
            Some("system") if line["subtype"] == "init" => init(line),
            Some("assistant") => self.assistant(&line["message"]),
            Some("user") => blocks(&line["message"]).filter_map(result).collect(),
            Some("result") => end(line),
            _ => Vec::new(),
        }
    }
}

/// A server that is not there is told at once: an agent without its tools would only make something up.
fn init(line: &Value) -> Vec<Heard> {
    let servers = line["mcp_servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lost = servers.iter().filter(|server| server["status"] == "failed");
    lost.map(|server| Heard::Note(format!("the MCP server {} did not start", text(server, "name")))).collect()
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn result(block: &Value) -> Option<Heard> {
    (block["type"] == "tool_result").then(|| Heard::Result {
        id: text(block, "tool_use_id"),
        output: block["content"].clone(),
        failed: block["is_error"] == true,
    })
}

fn end(line: &Value) -> Vec<Heard> {
    let usage = &line["usage"];
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let input = input.iter().map(|name| tokens(usage, name)).sum();
    let mut heard = vec![Heard::Usage { input, output: tokens(usage, "output_tokens") }];
    let said = text(line, "result");
    heard.push(match (line["subtype"].as_str(), line["is_error"] == true) {
        (Some("success"), false) => match line.get("structured_output").filter(|value| !value.is_null()) {
            Some(value) => Heard::Final(value.to_string()),
            None => Heard::Final(said),
        },
        (Some("error_max_turns"), _) => {
            Heard::Failed(Failure::new("LIMIT_EXCEEDED", "the model was asked as often as `limits.maxTurns` allows"))
        }
        (subtype, _) => {
            let why = if said.is_empty() { subtype.unwrap_or("it gave no reason").to_owned() } else { said };
            Heard::Failed(Failure::new("EXECUTOR_CLI_FAILED", why))
        }
    });
    heard
}

impl Claude {
    fn assistant(&mut self, message: &Value) -> Vec<Heard> {
        let mut heard = Vec::new();
        let id = text(message, "id");
        if id != self.message {
            heard.push(Heard::Turn);
            self.message = id;
        }
        heard.extend(blocks(message).filter_map(|block| match block["type"].as_str() {
            Some("text") => Some(Heard::Text(text(block, "text"))),
            Some("thinking") => Some(Heard::Thinking(text(block, "thinking"))),
            Some("tool_use") => {
                Some(Heard::Call { id: text(block, "id"), tool: text(block, "name"), input: block["input"].clone() })
            }
            _ => None,
        }));
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_becomes_events() {
        let mut claude = Claude::default();
        let lines = [
            json!({ "type": "system", "subtype": "init", "mcp_servers": [
                { "name": "every", "status": "connected" }, { "name": "lost", "status": "failed" } ] }),
            json!({ "type": "assistant", "message": { "id": "m1", "content": [{ "type": "thinking", "thinking": "Hm." }] } }),
            json!({ "type": "assistant", "message": { "id": "m1", "content": [
                { "type": "tool_use", "id": "t1", "name": "mcp__every__echo", "input": { "message": "hi" } } ] } }),
            json!({ "type": "user", "message": { "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": [{ "type": "text", "text": "Echo: hi" }] } ] } }),
            json!({ "type": "assistant", "message": { "id": "m2", "content": [{ "type": "text", "text": "Done." }] } }),
            json!({ "type": "result", "subtype": "success", "is_error": false, "result": "Done.",
                "usage": { "input_tokens": 20, "cache_read_input_tokens": 5, "output_tokens": 10 } }),
        ];
        let heard: Vec<Heard> = lines.iter().flat_map(|line| claude.hear(line)).collect();
        assert_eq!(
            heard,
            [
                Heard::Note("the MCP server lost did not start".into()),
                Heard::Turn,
                Heard::Thinking("Hm.".into()),
                Heard::Call { id: "t1".into(), tool: "mcp__every__echo".into(), input: json!({ "message": "hi" }) },
                Heard::Result {
                    id: "t1".into(),
                    output: json!([{ "type": "text", "text": "Echo: hi" }]),
                    failed: false
                },
                Heard::Turn,
                Heard::Text("Done.".into()),
                Heard::Usage { input: 25, output: 10 },
                Heard::Final("Done.".into()),
            ]
        );
        let failed = |line: Value| match Claude::default().hear(&line).pop() {
            Some(Heard::Failed(failure)) => failure.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            failed(json!({ "type": "result", "subtype": "error_max_turns", "is_error": true })),
            "LIMIT_EXCEEDED"
        );
        let refused = json!({ "type": "result", "subtype": "success", "is_error": true, "result": "API Error: 401" });
        assert_eq!(failed(refused), "EXECUTOR_CLI_FAILED");
    }

    #[test]
    fn tools_of_its_own_are_named_without_their_rules() {
        let allowed = ["mcp__every", "Skill", "Bash(git log:*)", "Read"].map(str::to_owned);
        assert_eq!(builtin(&allowed), ["Skill", "Bash", "Read"]);
    }
}
