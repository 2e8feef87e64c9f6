//! Claude Code: `claude -p --output-format stream-json`. The Agent SDK says the same messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kitbag_model::RemoteKind;
use kitbag_model::run::Output;
use serde_json::{Map, Value, json};

use super::{Heard, Listener, Plan, Start, command_line, text, tokens, write_private};
use crate::Failure;
use crate::prepare::{How, ReadyServers};
use crate::tools::is_own;

/// What it must be told about the model: where it is, and the key.
const MODELS: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "AWS_REGION",
];

/// How long a server may take to start, in milliseconds.
pub(super) const STARTUP: u64 = 60_000;

/// The tool that it answers with where a schema was given. It is no tool of anybody's.
const ANSWER: &str = "StructuredOutput";

/// Its variables, the same for the SDK, which starts it, with those that its servers refer to.
pub(super) fn environment(start: &Start<'_>, values: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = start.environment(
        &MODELS,
        &[
            ("CLAUDE_CONFIG_DIR", settings(start).to_string_lossy().into_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            // The skills of a run are those of its toolset.
            ("CLAUDE_CODE_DISABLE_BUNDLED_SKILLS", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            // Otherwise tools are offered only after a search for them, and a toolset's are few.
            ("ENABLE_TOOL_SEARCH", "false".to_owned()),
            // As root it starts only if somebody says that the machine is not at stake.
            ("IS_SANDBOX", "1".to_owned()),
            ("MCP_TIMEOUT", STARTUP.to_string()),
            ("MCP_TOOL_TIMEOUT", start.config.limits.timeout_ms.to_string()),
        ],
    );
    all.extend(values);
    all
}

/// Where it keeps the settings of its user, who is nobody but the run.
fn settings(start: &Start<'_>) -> PathBuf {
    start.folder.home().join("claude")
}

/// A plugin that is built in, with a skill of its own. What turns off its bundled skills leaves it on.
const PLUGIN: &str = "cc-plugin-plugin-authoring@builtin";

/// Shows it the skills as its user's, and none of its own. Settings of the project are never read: they are files of the run, and may
/// name commands to run, a helper to ask for keys, and another address for the model.
pub(super) fn show_skills(start: &Start<'_>) -> Result<(), Failure> {
    let skills = settings(start).join("skills");
    let show = || {
        std::fs::create_dir_all(&skills)?;
        let shown = |id: &String| std::os::unix::fs::symlink(start.skills_folder.join(id), skills.join(id));
        start.skills.iter().try_for_each(shown)
    };
    show().map_err(|error: std::io::Error| Failure::new("SKILL_STAGING_FAILED", error))?;
    let off = json!({ "enabledPlugins": { PLUGIN: false } });
    write_private(&settings(start).join("settings.json"), &off.to_string())
}

/// The schema that its answer must fit, if it can be told: it answers with a tool, whose arguments are an object.
pub(super) fn schema(start: &Start<'_>) -> Option<Value> {
    match &start.config.output {
        Output::Json { json_schema: Some(schema) } if schema.get("type").is_some_and(|kind| kind == "object") => {
            Some(Value::Object(schema.clone()))
        }
        _ => None,
    }
}

/// What it is told at first. What its answer is to be is said in words where there is no other way.
pub(super) fn prompt(start: &Start<'_>) -> String {
    let form = start.form().filter(|_| schema(start).is_none());
    [Some(start.config.prompt.text()), form].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// How it is started.
pub fn plan(start: &Start<'_>) -> Result<Plan, Failure> {
    let config = start.config;
    show_skills(start)?;
    let file = start.folder.home().join("mcp.json");
    let (servers, values) = servers_of(start.servers);
    write_private(&file, &json!({ "mcpServers": servers }).to_string())?;
    let mut args: Vec<String> =
        ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--mcp-config"]
            .map(str::to_owned)
            .to_vec();
    args.push(file.to_string_lossy().into_owned());
    let turns = config.limits.max_turns.to_string();
    let settings = ["--model", start.model(), "--max-turns", &turns, "--setting-sources", "user"];
    args.extend(settings.map(str::to_owned));
    // There is nobody to ask.
    args.extend(["--permission-mode", "dontAsk"].map(str::to_owned));
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
    if let Some(schema) = schema(start) {
        args.extend(["--json-schema".to_owned(), schema.to_string()]);
    }
    let env = environment(start, values);
    Ok(Plan { program: start.installed.program.clone(), args, env, stdin: prompt(start) })
}

/// What it may use without being asked: the servers' tools, skills where there are any, and what the run adds.
pub(super) fn allowed(start: &Start<'_>) -> Vec<String> {
    let servers = start.servers.servers.iter().map(|server| format!("mcp__{}__*", server.name));
    let skill = (!start.skills.is_empty()).then(|| "Skill".to_owned());
    // What names a tool of ours has made it one of the servers' tools already.
    let more = start.config.tools.allow.iter().filter(|name| !is_own(name)).cloned();
    servers.chain(skill).chain(more).collect()
}

/// The tools of its own among those: what is not named is not even offered.
pub(super) fn builtin(allowed: &[String]) -> Vec<String> {
    let own = allowed.iter().filter(|name| !name.starts_with("mcp__"));
    own.map(|name| name.split('(').next().unwrap_or_default().to_owned()).collect()
}

/// Its `mcpServers`, and the variables that they refer to.
///
/// It fills in variables of its own environment wherever it finds `${…}`, so a text that somebody else wrote could have it tell the
/// model's key; and the SDK gives it the servers as an argument, which everybody can read. So every text that is not ours is such a
/// reference, to a variable that is the text. What it fills in is not looked at again.
pub(super) fn servers_of(ready: &ReadyServers) -> (Map<String, Value>, BTreeMap<String, String>) {
    let texts = ready.servers.iter().map(|server| match &server.how {
        How::Stdio { args, env, .. } => args.len() + env.len() + 2,
        How::Remote { headers, .. } => headers.len() + 1,
    });
    let mut values =
        Values { names: (0..texts.sum()).map(|number| format!("KITBAG_VALUE_{number}")).collect(), taken: Vec::new() };
    let mut one = |how: &How| match how {
        How::Stdio { env, .. } => {
            let (command, args) = command_line(how, &values.names).unwrap_or_default();
            // The first three are our own words.
            let args: Vec<String> =
                args.into_iter().enumerate().map(|(at, arg)| if at < 3 { arg } else { values.put(arg) }).collect();
            json!({ "type": "stdio", "command": command, "args": args, "env": values.put_all(env) })
        }
        How::Remote { kind, url, headers } => {
            let kind = if *kind == RemoteKind::Sse { "sse" } else { "http" };
            json!({ "type": kind, "url": values.put(url.clone()), "headers": values.put_all(headers) })
        }
    };
    let servers = ready.servers.iter().map(|server| (server.name.clone(), one(&server.how))).collect();
    (servers, values.names.into_iter().zip(values.taken).collect())
}

struct Values {
    names: Vec<String>,
    taken: Vec<String>,
}

impl Values {
    fn put(&mut self, text: String) -> String {
        let Some(name) = self.names.get(self.taken.len()).filter(|_| !text.is_empty()) else { return text };
        self.taken.push(text);
        format!("${{{name}}}")
    }

    fn put_all(&mut self, texts: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        texts.iter().map(|(name, text)| (name.clone(), self.put(text.clone()))).collect()
    }
}

/// Listens to its stream.
#[derive(Default)]
pub struct Claude {
    /// The message that was heard last: one may come in several parts, and is one turn.
    message: String,
    /// The call that is its answer.
    answering: Option<String>,
}

impl Listener for Claude {
    fn hear(&mut self, line: &Value) -> Vec<Heard> {
        match line["type"].as_str() {
            Some("system") if line["subtype"] == "init" => init(line),
            Some("assistant") => self.assistant(&line["message"]),
            Some("user") => {
                let answer = self.answering.as_deref();
                blocks(&line["message"])
                    .filter(|block| block["tool_use_id"].as_str() != answer)
                    .filter_map(result)
                    .collect()
            }
            Some("result") => end(line),
            // Our adapter itself.
            Some("kitbag_failure") => vec![Heard::Stop(Failure::new(text(line, "code"), text(line, "message")))],
            _ => Vec::new(),
        }
    }
}

/// It says what became of its servers before it asks the model.
fn init(line: &Value) -> Vec<Heard> {
    let servers = line["mcp_servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lost = servers.iter().find(|server| server["status"] != "connected");
    lost.map(|server| Heard::lost(&text(server, "name"), &text(server, "status"))).into_iter().collect()
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
        (Some("error_max_structured_output_retries"), _) => {
            Heard::Failed(Failure::new("INVALID_AGENT_OUTPUT", "it found no answer that fits `output.jsonSchema`"))
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
        let answering = blocks(message).find(|block| block["type"] == "tool_use" && block["name"] == ANSWER);
        self.answering = answering.map(|block| text(block, "id")).or(self.answering.take());
        heard.extend(blocks(message).filter_map(|block| match block["type"].as_str() {
            Some("text") => Some(Heard::Text(text(block, "text"))),
            Some("thinking") => Some(Heard::Thinking(text(block, "thinking"))),
            Some("tool_use") if block["name"] == ANSWER => None,
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
                { "name": "every", "status": "connected" } ] }),
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
        let init = json!({ "type": "system", "subtype": "init", "mcp_servers": [
            { "name": "every", "status": "connected" }, { "name": "lost", "status": "failed" } ] });
        let [Heard::Stop(failure)] = &Claude::default().hear(&init)[..] else { panic!("it went on") };
        assert_eq!(failure.code, "MCP_SERVER_NOT_CONNECTED");
        assert!(failure.message.contains("lost"), "{failure}");
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
