//! The configuration of other programs on a machine, of which MCP servers are a part. Which programs there are, and how each
//! writes a server down; where their files are is for whoever has a file system.
//!
//! A value that looks like a secret becomes a reference, and is handed over beside it: whoever imports decides whether to keep
//! it. No message repeats one.

mod entry;
pub mod reach;
mod write;

use std::collections::HashMap;

use kitbag_model::{Launch, McpServer, RawLaunch, Secret, export};
use serde_json::{Map, Value};

use crate::bundle::{Code, Finding};
use crate::foreign::{Notes, json, servers, variable};
use crate::import::Options;

pub use write::{NotWritten, Way};

/// A program that uses MCP servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Client {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Gemini CLI.
    Gemini,
    /// Codex.
    Codex,
    /// Zed.
    Zed,
    /// OpenCode.
    OpenCode,
    /// Cline.
    Cline,
    /// Roo Code.
    RooCode,
    /// LM Studio.
    LmStudio,
    /// Kiro.
    Kiro,
    /// Copilot CLI.
    CopilotCli,
    /// Amazon Q.
    AmazonQ,
    /// Crush.
    Crush,
    /// Amp.
    Amp,
}

impl Client {
    /// Every one that is known.
    pub const ALL: [Self; 17] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Gemini,
        Self::Codex,
        Self::Zed,
        Self::OpenCode,
        Self::Cline,
        Self::RooCode,
        Self::LmStudio,
        Self::Kiro,
        Self::CopilotCli,
        Self::AmazonQ,
        Self::Crush,
        Self::Amp,
    ];

    /// As it is written on a command line.
    pub fn key(self) -> &'static str {
        self.names().0
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::ClaudeDesktop => ("claude-desktop", "Claude Desktop"),
            Self::ClaudeCode => ("claude-code", "Claude Code"),
            Self::Cursor => ("cursor", "Cursor"),
            Self::VsCode => ("vscode", "VS Code"),
            Self::Windsurf => ("windsurf", "Windsurf"),
            Self::Gemini => ("gemini", "Gemini CLI"),
            Self::Codex => ("codex", "Codex"),
            Self::Zed => ("zed", "Zed"),
            Self::OpenCode => ("opencode", "OpenCode"),
            Self::Cline => ("cline", "Cline"),
            Self::RooCode => ("roo-code", "Roo Code"),
            Self::LmStudio => ("lm-studio", "LM Studio"),
            Self::Kiro => ("kiro", "Kiro"),
            Self::CopilotCli => ("copilot-cli", "Copilot CLI"),
            Self::AmazonQ => ("amazon-q", "Amazon Q"),
            Self::Crush => ("crush", "Crush"),
            Self::Amp => ("amp", "Amp"),
        }
    }

    /// The program of that key.
    pub fn find(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.key() == key)
    }
}

/// A server that a file has.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is called there.
    pub name: String,
    /// The project that it is for, where a file has several.
    pub project: Option<String>,
    /// The server, or everything that keeps it from being taken.
    pub server: Result<Readable, Unreadable>,
}

/// Why a server cannot be taken.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// What kind of thing is wrong: if a value is written out that must not be, that, whatever else is.
    pub code: Code,
    /// All that is wrong.
    pub problems: Vec<String>,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.problems.join("; "))
    }
}

impl Unreadable {
    fn new(is_of_placeholders: bool, problems: Vec<String>) -> Self {
        Self { code: if is_of_placeholders { Code::InvalidMcpPlaceholder } else { Code::InvalidManifest }, problems }
    }
}

/// A server that can be taken.
#[derive(Clone, Debug)]
pub struct Readable {
    /// How it is reached, with references in place of what looks like a secret.
    pub server: McpServer,
    /// What whoever takes it should know.
    pub notes: Vec<String>,
    /// Values that looked like secrets.
    pub written_out: Vec<WrittenOut>,
}

/// A value that stands in a file and looks like a secret.
#[derive(Clone, Debug)]
pub struct WrittenOut {
    /// Whose value: `env.API_KEY`, `headers.Authorization`.
    pub place: String,
    /// The variable that takes its place.
    pub variable: String,
    is_env: bool,
    key: String,
    value: Secret,
}

impl Readable {
    /// The server with the values that stand in the file.
    pub fn with_values(&self) -> McpServer {
        let mut server = self.server.clone();
        for one in &self.written_out {
            let values = match &mut server.launch {
                Launch::Stdio { env, .. } if one.is_env => env,
                Launch::Remote { headers, .. } if !one.is_env => headers,
                _ => continue,
            };
            values.insert(one.key.clone(), kitbag_model::Template::literal(one.value.expose()));
        }
        server
    }
}

/// Reads files, one after the other. Two different secrets in them never get the same variable: one server would get the
/// other's.
#[derive(Default)]
pub struct Reader {
    taken: HashMap<String, String>,
}

impl Reader {
    /// All servers of a file; none if it has nothing to do with MCP. `client` is the program whose file it is, if that is known.
    pub fn read(&mut self, client: Option<Client>, bytes: &[u8], file: &str) -> Result<Vec<Found>, String> {
        let top = if file.ends_with(".toml") { from_toml(bytes)? } else { from_json(bytes, file)? };
        let Value::Object(top) = top else { return Err("it must hold an object".to_owned()) };
        let mut found = Vec::new();
        for place in places(&top) {
            for (name, entry) in place.servers {
                // What else stands beside servers in a map that is not for servers alone.
                let Some(entry) = entry.as_object() else { continue };
                found.push(Found {
                    name: name.clone(),
                    project: place.project.map(ToOwned::to_owned),
                    server: self.one(client, name, entry, place.inputs),
                });
            }
        }
        Ok(found)
    }

    fn one(
        &mut self,
        client: Option<Client>,
        name: &str,
        entry: &Map<String, Value>,
        inputs: Option<&Value>,
    ) -> Result<Readable, Unreadable> {
        let mut entry = entry::normal(client, entry);
        let mut written_out = Vec::new();
        let mut plain: Vec<(bool, String, String)> = Vec::new();
        for (part, is_env) in [("env", true), ("headers", false)] {
            let Some(Value::Object(values)) = entry.get_mut(part) else { continue };
            values.retain(|key, value| {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Bool(_) | Value::Number(_) => value.to_string(),
                    _ => return true,
                };
                if text.is_empty() || text.contains("${") {
                    return true;
                }
                if !export::looks_like_a_secret(&format!("{key}={text}")) {
                    plain.push((is_env, key.clone(), text));
                    return false;
                }
                let Some(variable) = self.variable(name, key, &text) else { return true };
                *value = Value::from(format!("${{{variable}}}"));
                let (place, key, value) = (format!("{part}.{key}"), key.clone(), Secret::new(text));
                written_out.push(WrittenOut { place, variable, is_env, key, value });
                true
            });
        }
        let mut top = Map::new();
        top.insert("mcpServers".to_owned(), Value::Object(Map::from_iter([(name.to_owned(), Value::Object(entry))])));
        if let Some(inputs) = inputs {
            top.insert("inputs".to_owned(), inputs.clone());
        }
        let mut told = Notes::new(None);
        let read = servers::list(&top, Some("mcpServers"), &mut told, Options::default());
        let texts = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.message).collect::<Vec<_>>();
        let Some(mut server) = read.into_iter().next().filter(|_| told.problems.is_empty()) else {
            let is_of_placeholders = told.problems.iter().any(|finding| finding.code == Code::InvalidMcpPlaceholder);
            return Err(Unreadable::new(is_of_placeholders, texts(told.problems)));
        };
        let mut notes = texts(told.warnings);
        server.launch = with_plain(&server.launch, plain)?;
        let set =
            |one: &WrittenOut| format!("{} is written out in the file; set the variable {}", one.place, one.variable);
        notes.extend(written_out.iter().map(set));
        Ok(Readable { server, notes, written_out })
    }

    /// A variable for a value that nothing else has.
    fn variable(&mut self, server: &str, key: &str, value: &str) -> Option<String> {
        let own = format!("{server}_{key}");
        let numbered = (2_usize..1000).map(|number| format!("{own}_{number}"));
        let candidates = [key.to_owned(), own.clone()].into_iter().chain(numbered);
        let free = |name: &String| self.taken.get(name).is_none_or(|taken| taken == value);
        let name = candidates.filter_map(|text| variable(&text)).find(free)?;
        self.taken.insert(name.clone(), value.to_owned());
        Some(name)
    }
}

/// A launch with values that are no secrets and stay what they are.
fn with_plain(launch: &Launch, plain: Vec<(bool, String, String)>) -> Result<Launch, Unreadable> {
    let mut raw = RawLaunch::from(launch);
    for (is_env, key, text) in plain {
        let values = if is_env { &mut raw.env } else { &mut raw.headers };
        values.insert(key, text);
    }
    raw.check().map_err(|problems| {
        let is_of_placeholders = problems.iter().any(|problem| problem.reason.is_of_placeholders());
        Unreadable::new(is_of_placeholders, problems.iter().map(ToString::to_string).collect())
    })
}

fn from_json(bytes: &[u8], file: &str) -> Result<Value, String> {
    json::parse(bytes, Some(file)).map_err(|finding| finding.message)
}

/// The reader of TOML repeats the line with the mistake, which may hold a secret; so its words are not told.
fn from_toml(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    toml::from_str::<Value>(text).map_err(|_| "it is not TOML".to_owned())
}

/// A part of a file that has servers.
struct Place<'a> {
    project: Option<&'a str>,
    servers: &'a Map<String, Value>,
    inputs: Option<&'a Value>,
}

fn places(top: &Map<String, Value>) -> Vec<Place<'_>> {
    let object = |value: &'_ Value| value.as_object().is_some();
    let mut places = Vec::new();
    for key in ["mcpServers", "context_servers", "mcp_servers", "amp.mcpServers"] {
        if let Some(Value::Object(servers)) = top.get(key).filter(|value| object(value)) {
            places.push(Place { project: None, servers, inputs: top.get("inputs") });
        }
    }
    if let Some(Value::Object(servers)) = top.get("servers") {
        places.push(Place { project: None, servers, inputs: top.get("inputs") });
    }
    if let Some(Value::Object(mcp)) = top.get("mcp") {
        match mcp.get("servers") {
            Some(Value::Object(servers)) => places.push(Place { project: None, servers, inputs: mcp.get("inputs") }),
            _ => places.push(Place { project: None, servers: mcp, inputs: None }),
        }
    }
    for (path, project) in top.get("projects").and_then(Value::as_object).into_iter().flatten() {
        if let Some(Value::Object(servers)) = project.get("mcpServers") {
            places.push(Place { project: Some(path), servers, inputs: None });
        }
    }
    places
}
