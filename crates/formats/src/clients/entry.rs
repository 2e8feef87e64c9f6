//! One server as each program writes it, in the words that most of them use.

use serde_json::{Map, Value, json};

use super::Client;

/// What says nothing about how a server is reached, and needs no word when it is left behind.
const BESIDE: [&str; 12] = [
    "source",
    "settings",
    "timeout",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "name",
    "gallery",
    "version",
    "id",
    "tools",
    "isActive",
];

/// An entry with `command`, `args`, `env`, `cwd`, `url`, `headers`, `type`, `disabled` and whatever else it has.
pub(super) fn normal(client: Option<Client>, entry: &Map<String, Value>) -> Map<String, Value> {
    let mut normal = entry.clone();
    if matches!(normal.get("isActive"), Some(Value::Bool(false))) {
        normal.insert("disabled".to_owned(), Value::Bool(true));
    }
    for key in BESIDE {
        normal.remove(key);
    }
    command(&mut normal);
    remote(client, &mut normal);
    for (from, to) in [("environment", "env"), ("http_headers", "headers")] {
        if let Some(value) = normal.remove(from) {
            normal.entry(to).or_insert(value);
        }
    }
    codex(&mut normal);
    if client == Some(Client::OpenCode) {
        normal.values_mut().for_each(curly);
    }
    normal
}

/// A command that is a list, or an object with a path.
fn command(entry: &mut Map<String, Value>) {
    match entry.remove("command") {
        Some(Value::Array(mut words)) if !words.is_empty() => {
            entry.insert("command".to_owned(), words.remove(0));
            words.extend(entry.get("args").and_then(Value::as_array).cloned().unwrap_or_default());
            entry.insert("args".to_owned(), Value::Array(words));
        }
        Some(Value::Object(mut object)) => {
            for (from, to) in [("path", "command"), ("args", "args"), ("env", "env")] {
                if let Some(value) = object.remove(from).filter(|value| !value.is_null()) {
                    entry.insert(to.to_owned(), value);
                }
            }
        }
        Some(command) => {
            entry.insert("command".to_owned(), command);
        }
        None => {}
    }
}

/// The ways in which an address and its kind are written.
fn remote(client: Option<Client>, entry: &mut Map<String, Value>) {
    if let Some(url) = entry.remove("serverUrl") {
        entry.entry("url").or_insert(url);
    }
    if let Some(url) = entry.remove("httpUrl") {
        entry.insert("url".to_owned(), url);
        entry.insert("type".to_owned(), json!("http"));
    }
    match entry.get("type").and_then(Value::as_str) {
        Some("local") => drop(entry.insert("type".to_owned(), json!("stdio"))),
        Some("remote") => drop(entry.remove("type")),
        _ => {}
    }
    // These two mean the old transport where they say nothing.
    let old = matches!(client, Some(Client::Gemini | Client::Cline | Client::RooCode));
    if old && entry.contains_key("url") && !entry.contains_key("type") && !entry.contains_key("transport") {
        entry.insert("type".to_owned(), json!("sse"));
    }
}

/// Names of variables in place of values, which is how Codex refers to them.
fn codex(entry: &mut Map<String, Value>) {
    let bearer = entry.remove("bearer_token_env_var");
    let headers = entry.remove("env_http_headers");
    let variables = entry.remove("env_vars");
    let mut put = |part: &str, key: &str, value: String| {
        if let Value::Object(map) = entry.entry(part).or_insert_with(|| json!({})) {
            map.entry(key.to_owned()).or_insert(Value::from(value));
        }
    };
    if let Some(Value::String(name)) = bearer {
        put("headers", "Authorization", format!("Bearer ${{{name}}}"));
    }
    for (header, name) in headers.as_ref().and_then(Value::as_object).into_iter().flatten() {
        put("headers", header, format!("${{{}}}", name.as_str().unwrap_or_default()));
    }
    for name in variables.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        put("env", name, format!("${{{name}}}"));
    }
}

/// `{env:NAME}` is `${env:NAME}`.
fn curly(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace("${env:", "{env:").replace("{env:", "${env:"),
        Value::Array(items) => items.iter_mut().for_each(curly),
        Value::Object(map) => map.values_mut().for_each(curly),
        _ => {}
    }
}
