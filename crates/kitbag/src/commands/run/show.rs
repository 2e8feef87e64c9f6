//! Runs as people read them.

use serde_json::Value;

use crate::output::{plain, table, text};
use crate::visible;

/// A list of runs.
pub(super) fn table_of(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "There are no runs.".to_owned();
    }
    let row = |run: &Value| {
        let engine = run["config"]["engine"]["id"].as_str().unwrap_or_default();
        let what = run["name"].as_str().or(run["config"]["prompt"]["instructions"].as_str()).unwrap_or_default();
        let what: String = what.lines().next().unwrap_or_default().chars().take(60).collect();
        let toolset = run["toolset"]["toolsetId"].as_str().unwrap_or("-");
        [text(run, "id"), text(run, "createdAt"), text(run, "state"), engine, toolset, &what].map(plain)
    };
    table(["RUN", "ASKED", "STATE", "ENGINE", "TOOLSET", "WHAT"], &runs.iter().map(row).collect::<Vec<_>>())
}

/// Everything of one run.
pub(super) fn whole(run: &Value, files: &Value) -> String {
    let mut lines = vec![format!(
        "{}  {}  attempt {} of {}",
        text(run, "id"),
        text(run, "state"),
        run["attempt"],
        run["maxAttempts"]
    )];
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{name:10}{}", visible::line(value)));
        }
    };
    add("name", text(run, "name"));
    add("engine", run["config"]["engine"]["id"].as_str().unwrap_or_default());
    let toolset = &run["toolset"];
    add("toolset", toolset["toolsetId"].as_str().or(toolset["reason"].as_str()).unwrap_or_default());
    add("executor", text(run, "executorId"));
    add("chat", text(run, "chatId"));
    add("waiting", text(run, "waiting"));
    add("asked", text(run, "createdAt"));
    add("started", text(run, "startedAt"));
    add("finished", text(run, "finishedAt"));
    if let Some(error) = run["error"].as_object() {
        let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        lines.push(format!("\n{}: {}", field("code"), visible::lines(&field("message"))));
    }
    if !run["output"].is_null() {
        lines.push(format!("\n{}", answer(run)));
    }
    lines.extend(changes(files));
    lines.join("\n")
}

/// The answer of a run.
pub(super) fn answer(run: &Value) -> String {
    match &run["output"] {
        Value::Null => String::new(),
        Value::String(answer) => visible::lines(answer),
        json => visible::lines(&serde_json::to_string_pretty(json).unwrap_or_default()),
    }
}

/// Which files it changed.
pub(super) fn changes(files: &Value) -> Vec<String> {
    let all = files["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mark = |change: &Value| match text(change, "change") {
        "added" => "+",
        "deleted" => "-",
        _ => "~",
    };
    let mut lines: Vec<String> =
        all.iter().map(|change| format!("{} {}", mark(change), visible::line(text(change, "path")))).collect();
    if !lines.is_empty() {
        lines.insert(0, "\nchanged files".to_owned());
    }
    lines
}
