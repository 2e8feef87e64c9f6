//! A call that is over, as people read it: how it went, what it returned, what it shows, what it changed. What the tool said on
//! the way, and warnings, go to stderr.

use std::process::ExitCode;

use kitbag_model::Timestamp;
use serde_json::{Value, json};

use super::rendered::Rendered;
use super::{CHATS, changes, highlight, rendered};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, print, table, text};
use crate::visible;

/// More lines of what is shown are left out: a file can be read in other ways.
const MOST_LINES: usize = 400;

/// Layers of the sandbox whose absence is worth a word after each call.
const GRAVE: [&str; 3] = ["namespaces", "no network", "landlock"];

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BOLD: &str = "1";

/// Colours, where they are wanted.
struct Paint(bool);

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Prints a call that is over. The exit code says how it went.
pub(super) async fn finished(client: &Client, call: &Value, output: &Output) -> Result<ExitCode, Failure> {
    let good = text(call, "status") == "success";
    if output.is_json() {
        output.result(call, |_| String::new())?;
    } else {
        said(call, output);
        let changes = changes::of(client, call).await?;
        let shown = rendered::of(client, call, &changes).await?;
        print(&report(call, shown.as_ref(), &changes, &Paint(output.has_colours())))?;
    }
    beside(client, call, output).await?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the tool said.
fn said(call: &Value, output: &Output) {
    if let Some(cut) = call["logsCut"].as_u64().filter(|cut| *cut > 0) {
        output.note(&format!("({cut} bytes of the log were left out)"));
    }
    for line in call["logs"].as_array().into_iter().flatten() {
        output.note(&visible::lines(text(line, "text")));
    }
}

/// What whoever reads the result should know.
async fn beside(client: &Client, call: &Value, output: &Output) -> Result<(), Failure> {
    for warning in call["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.note(&format!("warning: {}", visible::line(warning)));
    }
    let missing = call["sandbox"]["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<&str> = missing.filter(|name| GRAVE.contains(name)).collect();
    if !names.is_empty() {
        output.note(&format!("warning: this machine could not give {}; see `kitbag doctor`", names.join(", ")));
    }
    let chat = segment(text(call, "chatId"));
    let processes = client.get(&format!("{CHATS}/{chat}/processes")).await?;
    let mine = processes["items"].as_array().into_iter().flatten().find(|one| one["id"] == call["id"]);
    if let Some(process) = mine {
        let what = visible::line(&commands(process).join("; "));
        output.note(&match client.is_inside() {
            true => format!(
                "warning: left running: {what}. It ends now, with this command; under `kitbag serve` it goes on"
            ),
            false => format!(
                "left running{}: {what}\n  stop it with: kitbag chat stop {}",
                ports(process),
                text(process, "id")
            ),
        });
    }
    if let Some(message) = call["error"]["message"].as_str() {
        output.note(&format!("error: {}", visible::lines(message)));
    }
    Ok(())
}

fn report(call: &Value, shown: Option<&Rendered>, changes: &[Value], paint: &Paint) -> String {
    let mut parts = vec![head(call, paint)];
    if shown.is_none_or(|shown| !shown.instead) {
        parts.extend(returned(call, shown).map(|text| cut(&text)));
    }
    if let Some(shown) = shown {
        let text = cut(&visible::lines(shown.text.trim_end_matches('\n')));
        let text = match shown.language.as_str() {
            "diff" => text.lines().map(|line| diff_line(line, paint)).collect::<Vec<_>>().join("\n"),
            language if paint.0 && !language.is_empty() => highlight::highlight(&text, language),
            _ => text,
        };
        let title = if shown.title.is_empty() {
            String::new()
        } else {
            format!("\n{}", paint.with(BOLD, &visible::line(&shown.title)))
        };
        // What stands in the place of the result needs no distance from it.
        let gap = if shown.instead || !title.is_empty() { "" } else { "\n" };
        parts.push(format!("{gap}{title}{}{text}", if title.is_empty() { "" } else { "\n" }).trim_end().to_owned());
    }
    let lines = changes::lines(changes);
    if !lines.is_empty() {
        parts.push(format!("\n{}", paint.with(BOLD, "changed in the workspace")));
    }
    for (sign, path) in lines {
        let code = match sign {
            '+' => GREEN,
            '-' => RED,
            _ => YELLOW,
        };
        parts.push(paint.with(code, &format!("{sign} {path}")));
    }
    parts.join("\n")
}

/// How it went.
fn head(call: &Value, paint: &Paint) -> String {
    let tool = visible::line(text(call, "toolId"));
    // A tool of an MCP server has no sandbox of ours, and always ran if it was not refused.
    let ran = !call["sandbox"].is_null() || text(call, "toolId").starts_with("mcp:");
    let took = took(call).filter(|_| ran).map(|took| format!(" in {took}")).unwrap_or_default();
    match call["error"]["code"].as_str() {
        None => format!("{} {tool}{took}", paint.with(GREEN, "done")),
        Some(code) => format!("{} {tool}{took}: {code}", paint.with(RED, "failed")),
    }
}

/// How long it took, once it might.
fn took(call: &Value) -> Option<String> {
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_datetime);
    let from = time(&call["decision"]["decidedAt"]).or_else(|| time(&call["startedAt"]))?;
    let milliseconds = (time(&call["finishedAt"])? - from).whole_milliseconds().max(0);
    Some(if milliseconds < 1000 { format!("{milliseconds} ms") } else { format!("{:.1} s", milliseconds as f64 / 1e3) })
}

/// What it returned.
fn returned(call: &Value, shown: Option<&Rendered>) -> Option<String> {
    let result = &call["result"];
    if call["resultTruncated"] == true {
        let preview = visible::lines(text(result, "preview"));
        return Some(format!(
            "{preview}…\n({} bytes; `kitbag tool result {} --chat {}` prints all of it)",
            result["bytes"],
            text(call, "id"),
            text(call, "chatId")
        ));
    }
    match result {
        Value::Null => None,
        Value::String(said) if shown.is_some_and(|shown| shown.text == *said) => None,
        Value::String(said) => Some(visible::lines(said.trim_end_matches('\n'))),
        _ => match rich(result) {
            Some(items) => Some(items.join("\n")),
            None => Some(visible::json(&without(result.clone(), shown))),
        },
    }
}

/// Text, images and files that a tool returned.
fn rich(result: &Value) -> Option<Vec<String>> {
    let items = result["content"].as_array().filter(|items| !items.is_empty())?;
    let one = |item: &Value| {
        let kind = visible::line(text(item, "mimeType"));
        match text(item, "type") {
            "text" => Some(visible::lines(item["text"].as_str()?)),
            "image" => Some(format!("[image: {kind}, {} bytes]", item["data"].as_str()?.len() / 4 * 3)),
            "file" => Some(format!("[file: {}, {kind}]", visible::line(item["path"].as_str()?))),
            _ => None,
        }
    };
    items.iter().map(one).collect()
}

/// A result without the text that is shown anyway.
fn without(mut result: Value, shown: Option<&Rendered>) -> Value {
    let Some(shown) = shown.filter(|shown| shown.text.trim_end().contains('\n')) else { return result };
    for field in result.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        if field.as_str() == Some(shown.text.as_str()) {
            *field = json!("(below)");
        }
    }
    result
}

fn cut(text: &str) -> String {
    let count = text.lines().count();
    if count <= MOST_LINES {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.lines().take(MOST_LINES).collect();
    format!("{}\n({} more lines)", kept.join("\n"), count - MOST_LINES)
}

fn diff_line(line: &str, paint: &Paint) -> String {
    match line.chars().next() {
        Some('+') => paint.with(GREEN, line),
        Some('-') => paint.with(RED, line),
        Some('@') => paint.with("36", line),
        _ => line.to_owned(),
    }
}

/// The calls of a chat.
pub(super) fn calls(calls: &[Value]) -> String {
    if calls.is_empty() {
        return "No tool was called here yet.".to_owned();
    }
    let row = |call: &Value| {
        let state = call["error"]["code"].as_str().unwrap_or(text(call, "status"));
        [text(call, "id"), text(call, "startedAt"), state, text(call, "toolId")].map(visible::line)
    };
    table(["CALL", "ASKED", "STATUS", "TOOL"], &calls.iter().map(row).collect::<Vec<_>>())
}

/// The command lines of what runs.
pub(crate) fn commands(process: &Value) -> Vec<String> {
    process["commands"].as_array().into_iter().flatten().filter_map(Value::as_str).map(visible::line).collect()
}

fn ports(process: &Value) -> String {
    let ports: Vec<String> = process["ports"].as_array().into_iter().flatten().map(ToString::to_string).collect();
    if ports.is_empty() { String::new() } else { format!(" on port {}", ports.join(", ")) }
}
