//! What somebody asks for: the object `agent.run` takes. It is strict, and an error names the place by its path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::selector::{RawSelector, Selector};
use crate::id::text_serde;
use crate::name::ToolsetId;
use crate::text::line_type;
use crate::toolset::words;

/// The most characters that instructions may have.
const LONGEST_PROMPT: usize = 200_000;
/// How many tools may be allowed beside those of the toolset.
const MOST_ALLOWED: usize = 200;
/// The most characters that the name of a tool, or a model, may have.
const LONGEST_NAME: usize = 120;
/// The most bytes that the schema of an answer may have, written as JSON.
const LARGEST_SCHEMA: usize = 64 << 10;

line_type!(
    /// What people call a run.
    RunName,
    120
);

words!(
    /// Which agent does the work.
    EngineId, UnknownEngine,
    "unknown engine; the engines are gateway.claude.v2, gateway.codex.v2, gateway.opencode.v2 and claude.agent-sdk.v1", {
        /// Claude Code, as an installed command line.
        Claude = "gateway.claude.v2",
        /// Codex, as an installed command line.
        Codex = "gateway.codex.v2",
        /// OpenCode, as an installed command line.
        OpenCode = "gateway.opencode.v2",
        /// The Claude Agent SDK, through an adapter of ours.
        ClaudeAgentSdk = "claude.agent-sdk.v1",
    }
);

impl EngineId {
    /// Whether it is one of those that a gateway dispatches.
    pub fn is_gateway(self) -> bool {
        self != Self::ClaudeAgentSdk
    }

    /// The model that it asks when nothing else is said.
    pub fn default_model(self) -> &'static str {
        match self {
            Self::Codex => "gpt-5-codex",
            Self::OpenCode => "anthropic/claude-opus-4-6",
            Self::Claude | Self::ClaudeAgentSdk => "claude-sonnet-4-5",
        }
    }
}

words!(
    /// In which way a run gets to a machine.
    ExecutionMode, UnknownMode, "unknown mode; it is gateway or node", {
        /// Dispatched to an executor, which drives one of the installed agents.
        Gateway = "gateway",
        /// Dispatched to an executor, which drives the Claude Agent SDK.
        Node = "node",
    }
);

words!(
    /// Where the tools of a run are used.
    ToolsExecution, UnknownToolsExecution, "unknown place; it is executor, node or cloud", {
        /// On the executor, by the agent.
        Executor = "executor",
        /// The same, as it was once called.
        Node = "node",
        /// Nowhere near the agent.
        Cloud = "cloud",
    }
);

/// What the agent is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// Who it is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What it is to do.
    pub instructions: String,
    /// What comes behind the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_template: Option<String>,
}

impl Prompt {
    /// All that is said to the agent at first, but for who it is to be.
    pub fn text(&self) -> String {
        match &self.input_template {
            Some(input) => format!("{}\n\n{input}", self.instructions),
            None => self.instructions.clone(),
        }
    }
}

/// How much a run may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// How often the model may be asked.
    pub max_turns: u32,
    /// How many calls of tools there may be.
    pub max_tool_calls: u32,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// How many characters the answer may have.
    pub max_output_chars: usize,
    /// How many characters everything that is told may have.
    pub max_runtime_chars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 8,
            max_tool_calls: 20,
            timeout_ms: 60_000,
            max_output_chars: 50_000,
            max_runtime_chars: 200_000,
        }
    }
}

/// What the answer is to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Output {
    /// Text.
    Text,
    /// JSON, and if there is a schema, JSON that fits it.
    Json {
        /// What it must fit.
        #[serde(skip_serializing_if = "Option::is_none")]
        json_schema: Option<Map<String, Value>>,
    },
}

/// A checked configuration. It is written as it is read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunConfig {
    /// What the agent is told.
    pub prompt: Prompt,
    /// The toolset that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolset_id: Option<ToolsetId>,
    /// Which agent.
    pub engine: Engine,
    /// Where.
    pub execution: Execution,
    /// With which tools beside the toolset's.
    pub tools: Tools,
    /// How much it may take.
    pub limits: Limits,
    /// What the answer is to be.
    pub output: Output,
    /// How often it is tried at the most, where an executor was lost.
    pub max_attempts: u32,
}

/// Which agent, and which model it asks.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Engine {
    /// The agent.
    pub id: EngineId,
    /// The model; the engine's own choice, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Where a run is done.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Execution {
    /// In which way it gets there.
    pub mode: ExecutionMode,
    /// Which executors may take it.
    pub selector: Selector,
}

/// The tools of a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Tools {
    /// Where they are used.
    pub execution: ToolsExecution,
    /// What the agent may use beside the toolset's servers, in the engine's own words.
    pub allow: Vec<String>,
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{path} {reason}")]
pub struct ConfigError {
    /// The place, as `limits.maxTurns`.
    pub path: String,
    /// What is wrong there, and what is allowed.
    pub reason: String,
}

impl ConfigError {
    pub(super) fn new(path: &str, reason: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    prompt: RawPrompt,
    toolset_id: Option<String>,
    engine: RawEngine,
    #[serde(default)]
    execution: RawExecution,
    #[serde(default)]
    tools: RawTools,
    #[serde(default)]
    limits: RawLimits,
    output: Option<RawOutput>,
    max_attempts: Option<u64>,
}

/// A text alone is the instructions.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawPrompt {
    Text(String),
    #[serde(rename_all = "camelCase")]
    Parts(RawPromptParts),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPromptParts {
    system: Option<String>,
    instructions: String,
    input_template: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEngine {
    id: String,
    model: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExecution {
    mode: Option<String>,
    selector: Option<RawSelector>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTools {
    execution: Option<String>,
    #[serde(default)]
    allow: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawLimits {
    max_turns: Option<u64>,
    max_tool_calls: Option<u64>,
    timeout_ms: Option<u64>,
    max_output_chars: Option<u64>,
    max_runtime_chars: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawOutput {
    mode: String,
    json_schema: Option<Map<String, Value>>,
}

impl RunConfig {
    /// Reads a configuration. The first thing that is wrong is told with its place.
    pub fn read(value: &Value) -> Result<Self, ConfigError> {
        let raw: Raw = Raw::deserialize(value).map_err(|error| ConfigError::new("", error))?;
        let toolset_id = raw.toolset_id.map(|id| checked("toolsetId", &id)).transpose()?;
        Ok(Self {
            prompt: raw.prompt.check()?,
            toolset_id,
            engine: Engine {
                id: checked("engine.id", &raw.engine.id)?,
                model: raw.engine.model.map(|model| named("engine.model", model)).transpose()?,
            },
            execution: Execution {
                mode: word_or(raw.execution.mode, "execution.mode", ExecutionMode::Gateway)?,
                selector: raw.execution.selector.unwrap_or_default().check()?,
            },
            tools: raw.tools.check()?,
            limits: raw.limits.check()?,
            output: raw.output.map_or(Ok(Output::Text), RawOutput::check)?,
            max_attempts: within("maxAttempts", raw.max_attempts, 3, 1, 10)? as u32,
        })
    }
}

impl RawPrompt {
    fn check(self) -> Result<Prompt, ConfigError> {
        let (path, parts) = match self {
            Self::Text(instructions) => ("prompt", RawPromptParts { system: None, instructions, input_template: None }),
            Self::Parts(parts) => ("prompt.instructions", parts),
        };
        if parts.instructions.trim().is_empty() {
            return Err(ConfigError::new(path, "must not be empty"));
        }
        let texts = [
            (path, Some(&parts.instructions)),
            ("prompt.system", parts.system.as_ref()),
            ("prompt.inputTemplate", parts.input_template.as_ref()),
        ];
        for (path, text) in texts {
            let Some(text) = text else { continue };
            if text.chars().count() > LONGEST_PROMPT {
                return Err(ConfigError::new(path, format!("must have at most {LONGEST_PROMPT} characters")));
            }
            if text.contains('\0') {
                return Err(ConfigError::new(path, "must not have a NUL: no argument of a program can hold one"));
            }
        }
        Ok(Prompt { system: parts.system, instructions: parts.instructions, input_template: parts.input_template })
    }
}

impl RawTools {
    fn check(self) -> Result<Tools, ConfigError> {
        if self.allow.len() > MOST_ALLOWED {
            return Err(ConfigError::new("tools.allow", format!("must have at most {MOST_ALLOWED} entries")));
        }
        let allow = self.allow.into_iter().map(|one| named("tools.allow", one)).collect::<Result<_, _>>()?;
        Ok(Tools { execution: word_or(self.execution, "tools.execution", ToolsExecution::Executor)?, allow })
    }
}

impl RawLimits {
    fn check(self) -> Result<Limits, ConfigError> {
        let usual = Limits::default();
        Ok(Limits {
            max_turns: within("limits.maxTurns", self.max_turns, usual.max_turns.into(), 1, 64)? as u32,
            max_tool_calls: within("limits.maxToolCalls", self.max_tool_calls, usual.max_tool_calls.into(), 0, 200)?
                as u32,
            timeout_ms: within("limits.timeoutMs", self.timeout_ms, usual.timeout_ms, 1000, 600_000)?,
            max_output_chars: within(
                "limits.maxOutputChars",
                self.max_output_chars,
                usual.max_output_chars as u64,
                256,
                1_000_000,
            )? as usize,
            max_runtime_chars: within(
                "limits.maxRuntimeChars",
                self.max_runtime_chars,
                usual.max_runtime_chars as u64,
                1024,
                2_000_000,
            )? as usize,
        })
    }
}

impl RawOutput {
    fn check(self) -> Result<Output, ConfigError> {
        match (self.mode.as_str(), self.json_schema) {
            ("text", None) => Ok(Output::Text),
            ("text", Some(_)) => Err(ConfigError::new("output.jsonSchema", "is for the mode json")),
            ("json", schema) => {
                let size = schema.as_ref().map_or(0, |schema| Value::Object(schema.clone()).to_string().len());
                if size > LARGEST_SCHEMA {
                    return Err(ConfigError::new(
                        "output.jsonSchema",
                        format!("must have at most {LARGEST_SCHEMA} bytes"),
                    ));
                }
                Ok(Output::Json { json_schema: schema })
            }
            _ => Err(ConfigError::new("output.mode", "must be text or json")),
        }
    }
}

pub(super) fn checked<T: FromStr<Err: fmt::Display>>(path: &str, text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|reason| ConfigError::new(path, format_args!("is wrong: {reason}")))
}

fn word_or<T: FromStr<Err: fmt::Display>>(text: Option<String>, path: &str, usual: T) -> Result<T, ConfigError> {
    text.map_or(Ok(usual), |text| checked(path, &text))
}

/// A name that goes into a command line or a configuration file as it is.
pub(super) fn named(path: &str, text: String) -> Result<String, ConfigError> {
    let fits = !text.is_empty() && text.chars().count() <= LONGEST_NAME;
    if fits && !text.chars().any(char::is_control) && !text.starts_with('-') {
        return Ok(text);
    }
    let reason = format!("must have 1 to {LONGEST_NAME} characters, no control characters, and no hyphen in front");
    Err(ConfigError::new(path, reason))
}

fn within(path: &str, given: Option<u64>, usual: u64, least: u64, most: u64) -> Result<u64, ConfigError> {
    let value = given.unwrap_or(usual);
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(ConfigError::new(path, format!("must be from {least} to {most}, not {value}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(key: &str, value: Value) -> Value {
        let mut config = json!({ "prompt": "Do it.", "engine": { "id": "gateway.claude.v2" } });
        let mut place = &mut config;
        for part in key.split('.') {
            if !place[part].is_object() && part != key.rsplit('.').next().unwrap_or_default() {
                place[part] = json!({});
            }
            place = &mut place[part];
        }
        *place = value;
        config
    }

    #[test]
    fn what_is_not_said_is_usual() {
        let config = RunConfig::read(&json!({ "prompt": "Do it.", "engine": { "id": "gateway.codex.v2" } })).unwrap();
        assert_eq!(config.prompt.text(), "Do it.");
        assert_eq!((config.execution.mode, config.tools.execution), (ExecutionMode::Gateway, ToolsExecution::Executor));
        assert_eq!((config.limits, config.output, config.toolset_id), (Limits::default(), Output::Text, None));
        assert_eq!(config.execution.selector, Selector::default());
        assert_eq!(config.max_attempts, 3);
    }

    #[test]
    fn a_configuration_is_written_as_it_is_read() {
        let whole = json!({
            "prompt": { "system": "Be brief.", "instructions": "Do it.", "inputTemplate": "Now." },
            "toolsetId": "notes", "engine": { "id": "claude.agent-sdk.v1", "model": "claude-sonnet-4-5" },
            "execution": { "mode": "node", "selector": { "pool": "byon", "labels": ["gpu"], "group": "west", "executorId": null } },
            "tools": { "execution": "executor", "allow": ["Bash(git:*)"] },
            "limits": { "maxTurns": 1, "maxToolCalls": 0, "timeoutMs": 1000, "maxOutputChars": 256, "maxRuntimeChars": 1024 },
            "output": { "mode": "json", "jsonSchema": { "type": "object" } }, "maxAttempts": 1,
        });
        let read = RunConfig::read(&whole).unwrap();
        let again = RunConfig::read(&serde_json::to_value(&read).unwrap()).unwrap();
        assert_eq!(read, again);
        assert_eq!(read.prompt.text(), "Do it.\n\nNow.");
    }

    #[test]
    fn an_error_names_its_place() {
        for (key, value, path) in [
            ("prompt", json!(" "), "prompt"),
            ("prompt", json!("a\0b"), "prompt"),
            ("prompt", json!("x".repeat(200_001)), "prompt"),
            ("engine.id", json!("gateway.gemini.v2"), "engine.id"),
            ("engine.model", json!("--help"), "engine.model"),
            ("toolsetId", json!("Not An Id"), "toolsetId"),
            ("execution.mode", json!("cloud"), "execution.mode"),
            ("execution.selector", json!({ "labels": vec!["x"; 51] }), "execution.selector.labels"),
            ("execution.selector", json!({ "pool": "mine" }), "execution.selector.pool"),
            ("execution.selector", json!({ "executorId": "x" }), "execution.selector.executorId"),
            ("tools.execution", json!("here"), "tools.execution"),
            ("tools.allow", json!(["a", ""]), "tools.allow"),
            ("tools.allow", json!(["--dangerously-skip-permissions"]), "tools.allow"),
            ("limits.maxTurns", json!(0), "limits.maxTurns"),
            ("limits.maxTurns", json!(65), "limits.maxTurns"),
            ("limits.maxToolCalls", json!(201), "limits.maxToolCalls"),
            ("limits.timeoutMs", json!(999), "limits.timeoutMs"),
            ("limits.timeoutMs", json!(600_001), "limits.timeoutMs"),
            ("limits.maxOutputChars", json!(255), "limits.maxOutputChars"),
            ("limits.maxRuntimeChars", json!(2_000_001), "limits.maxRuntimeChars"),
            ("output", json!({ "mode": "xml" }), "output.mode"),
            ("output", json!({ "mode": "text", "jsonSchema": {} }), "output.jsonSchema"),
            ("maxAttempts", json!(11), "maxAttempts"),
            ("team", json!({}), ""),
            ("limits.maxturns", json!(3), ""),
        ] {
            let error = RunConfig::read(&with(key, value.clone())).unwrap_err();
            assert_eq!(error.path, path, "{key} = {value}: {error}");
        }
        assert!(RunConfig::read(&json!({ "prompt": "x" })).unwrap_err().reason.contains("engine"));
        // They are sentences.
        for (key, value, said) in [
            ("engine.id", json!("gpt"), "engine.id is wrong: unknown engine; the engines are "),
            (
                "execution.selector",
                json!({ "executorId": "x" }),
                "execution.selector.executorId is wrong: no executor id: executor ids are ",
            ),
        ] {
            let error = RunConfig::read(&with(key, value)).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
