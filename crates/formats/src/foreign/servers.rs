//! Lists of MCP servers, as Claude Desktop, Claude Code, Cursor and VS Code keep them.
//!
//! How a server is reached is taken. What lets its tools run without asking, logs in by itself or reads other files is not.

use std::collections::BTreeMap;

use kitbag_model::McpServer;
use serde_json::{Map, Value};

use super::builder::{Builder, Draft, Secretive};
use super::lower::{Declared, Host, Scope};
use super::notes::{Notes, listed, shown};
use super::{name, toolset};
use crate::bundle::{Bundle, Refused};
use crate::import::Options;

/// Reads a file: the servers are below `root`, or are the file itself where there is none.
pub(crate) fn read(
    top: &Map<String, Value>,
    root: Option<&str>,
    file: Option<&str>,
    options: Options,
) -> Result<Bundle, Refused> {
    let mut notes = Notes::new(file);
    let servers = list(top, root, &mut notes, options);
    if servers.is_empty() && notes.problems.is_empty() {
        notes.problem("there is no server in it");
    }
    let stem = file.map(name::stem).unwrap_or_default();
    let mut made = toolset::Made::new([stem], None, stem, &mut notes);
    made.definition.servers = servers;
    made.finish(Vec::new(), Vec::new(), notes)
}

/// The servers of a file, without a toolset around them.
pub(crate) fn list(
    top: &Map<String, Value>,
    root: Option<&str>,
    notes: &mut Notes,
    options: Options,
) -> Vec<McpServer> {
    let inputs = inputs(top, notes);
    let scope = Scope { host: Host::Client, declared: &inputs };
    let mut builder = Builder::new(notes, options);
    if let Some(root) = root {
        let others: Vec<&str> =
            top.keys().map(String::as_str).filter(|key| ![root, "inputs", "$schema"].contains(key)).collect();
        if !others.is_empty() {
            builder.notes.warn(format!("not taken: {}", listed(others.into_iter())));
        }
        match top.get(root) {
            Some(Value::Object(map)) => entries(&mut builder, root, map, &scope),
            _ => builder.notes.problem(format!("{root} must be an object with a server in each key")),
        }
    } else {
        entries(&mut builder, "", top, &scope);
    }
    builder.servers
}

/// The servers of a map.
pub(super) fn entries(builder: &mut Builder<'_>, root: &str, map: &Map<String, Value>, scope: &Scope<'_>) {
    for (name, value) in map {
        let dot = if root.is_empty() { "" } else { "." };
        let draft = Draft::new(format!("{root}{dot}{}", shown(name)), name);
        match value {
            Value::Object(entry) => one(builder, draft, entry, scope),
            _ => builder.notes.problem(format!("{} must be an object", draft.place)),
        }
    }
}

fn one(builder: &mut Builder<'_>, mut draft: Draft, entry: &Map<String, Value>, scope: &Scope<'_>) {
    let before = builder.notes.problems.len();
    let place = draft.place.clone();
    let mut types: Vec<String> = Vec::new();
    let mut command = None;
    for (key, value) in entry {
        let at = format!("{place}.{}", shown(key));
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("type" | "transport", Value::String(text)) => types.extend(server_type(builder, &at, text)),
            ("command", Value::String(text)) => command = Some(text.as_str()),
            ("cwd", Value::String(text)) => draft.launch.cwd = builder.text(&at, text, scope),
            ("url", Value::String(text)) => draft.launch.url = builder.text(&at, text, scope),
            ("description", Value::String(text)) => draft.description = Some(text.clone()),
            ("args", Value::Array(items)) => draft.launch.args = args(builder, &at, items, scope),
            ("env", Value::Object(map)) => values(builder, &mut draft, Secretive::Env, map, scope),
            ("headers", Value::Object(map)) => values(builder, &mut draft, Secretive::Headers, map, scope),
            ("disabled", Value::Bool(disabled)) => draft.enabled &= !disabled,
            ("enabled", Value::Bool(enabled)) => draft.enabled &= enabled,
            ("type" | "transport" | "command" | "cwd" | "url" | "description", _) => {
                builder.notes.problem(format!("{at} must be a text"));
            }
            ("args", _) => builder.notes.problem(format!("{at} must be a list of texts")),
            ("env" | "headers", _) => builder.notes.problem(format!("{at} must be an object of texts")),
            ("disabled" | "enabled", _) => builder.notes.problem(format!("{at} must be true or false")),
            _ => builder.notes.warn(not_taken(&at, key)),
        }
    }
    types.dedup();
    if types.len() > 1 {
        builder.notes.problem(format!("{place}: type and transport say different things"));
    }
    draft.launch.server_type = types.pop();
    if let Some(command) = command {
        builder.command(&mut draft, command, scope);
    }
    if builder.notes.problems.len() == before {
        builder.finish(draft);
    }
}

/// Why something of a server is left behind.
fn not_taken(place: &str, key: &str) -> String {
    match key {
        "autoApprove" | "alwaysAllow" | "trust" | "autoApproveTools" | "allowedTools" => {
            format!("{place} asks to use tools without asking; that grants nothing and is not taken")
        }
        "envFile" => format!("{place} is not read; declare its variables in env"),
        "headersHelper" => format!("{place} is a command and is not run; declare the headers themselves"),
        "oauth" | "auth" => format!("{place} is not taken; log in to the server here"),
        _ => format!("{place} is not taken"),
    }
}

/// The type as it is called here.
pub(super) fn server_type(builder: &mut Builder<'_>, place: &str, text: &str) -> Option<String> {
    let known = match text {
        "stdio" | "sse" => text,
        "http" | "streamable-http" | "streamableHttp" | "streamable" => "streamable-http",
        "ws" | "websocket" => {
            builder.notes.problem(format!(
                "{place}: servers over WebSockets are not supported; the types are stdio, sse and streamable-http (or http)"
            ));
            return None;
        }
        _ => {
            builder.notes.problem(format!(
                "{place}: \"{}\" is no type of server; the types are stdio, sse and streamable-http (or http)",
                shown(text)
            ));
            return None;
        }
    };
    Some(known.to_owned())
}

pub(super) fn args(builder: &mut Builder<'_>, place: &str, items: &[Value], scope: &Scope<'_>) -> Vec<String> {
    let mut args = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{place}[{index}]");
        match item {
            Value::String(text) => args.extend(builder.text(&at, text, scope)),
            Value::Number(number) => args.push(number.to_string()),
            _ => builder.notes.problem(format!("{at} must be a text")),
        }
    }
    args
}

pub(super) fn values(
    builder: &mut Builder<'_>,
    draft: &mut Draft,
    kind: Secretive,
    map: &Map<String, Value>,
    scope: &Scope<'_>,
) {
    for (key, value) in map {
        match value {
            Value::String(text) => builder.value(draft, kind, key, text, scope),
            Value::Bool(_) | Value::Number(_) => builder.value(draft, kind, key, &value.to_string(), scope),
            Value::Null => {}
            _ => builder.notes.problem(format!("{}: {} must be a text", draft.place, shown(key))),
        }
    }
}

/// What VS Code asks for.
fn inputs(top: &Map<String, Value>, notes: &mut Notes) -> BTreeMap<String, Declared> {
    let mut inputs = BTreeMap::new();
    for (index, input) in top.get("inputs").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(id) = input.get("id").and_then(Value::as_str) else {
            notes.warn(format!("inputs[{index}] has no id and is left out"));
            continue;
        };
        if input.get("type").and_then(Value::as_str) == Some("command") {
            notes.warn(format!("inputs[{index}] is a command of the editor and is not run; set the variable instead"));
        }
        let has_default = input.get("default").is_some_and(|value| !value.is_null());
        inputs.insert(id.to_owned(), Declared { has_default, ..Declared::default() });
    }
    inputs
}
