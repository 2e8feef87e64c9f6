//! `kitbag tool resolve`: which tools a client gets, why, and what they take of a model's context.

use std::process::ExitCode;

use kitbag_model::resolution::Setting;
use serde_json::Value;

use super::TOOLS;
use crate::cli::ResolveFlags;
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};
use crate::visible;

/// Whether the headers are headers.
pub(super) fn check(flags: &ResolveFlags) -> Result<(), Failure> {
    headers(flags).map(drop)
}

pub(super) async fn run(client: &Client, flags: &ResolveFlags, output: &Output) -> Result<ExitCode, Failure> {
    let chat = flags.chat.as_deref().map(|chat| ("chat", chat));
    let given = flags.lists.given().chain(chat);
    let pairs: String = given.map(|(name, value)| format!("&{name}={}", segment(value))).collect();
    let headers = headers(flags)?;
    let found = client.get_with(&format!("{TOOLS}/resolve?explain={}{pairs}", flags.explain), &headers).await?;
    // A header that nobody reads would otherwise look as if it had been obeyed.
    let prefix = text(&found, "headerPrefix");
    for (name, _) in &headers {
        let all =
            || Setting::ALL.map(Setting::header).into_iter().chain(["Chat"]).map(|name| format!("{prefix}{name}"));
        if prefix.is_empty() || !all().any(|read| name.eq_ignore_ascii_case(&read)) {
            let names = all().collect::<Vec<_>>().join(", ");
            let known = if prefix.is_empty() { "none: the prefix is empty".to_owned() } else { names };
            output.note(&format!("note: {} says nothing about tools; headers that do: {known}", plain(name)));
        }
    }
    for problem in found["stale"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.note(&format!("note: in the server's own lists: {}", visible::line(problem)));
    }
    output.result(&found, |found| shown(found, flags.explain))
}

fn headers(flags: &ResolveFlags) -> Result<Vec<(String, String)>, Failure> {
    let read = |text: &String| {
        let pair = text.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        let good = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let wrong = || Failure::wrong_use(format!("header: {text:?} is not a header; write \"X-Mcp-Toolsets: a,b\""));
        pair.filter(|(name, _)| good(name)).ok_or_else(wrong)
    };
    flags.header.iter().map(read).collect()
}

fn shown(found: &Value, explain: bool) -> String {
    let tools: Vec<&Value> = found["tools"].as_array().into_iter().flatten().collect();
    let mut lines = Vec::new();
    if explain {
        let row = |tool: &&Value| {
            let (mark, tokens) = match tool["included"].as_bool() {
                Some(true) => ("in", tool["tokens"].to_string()),
                _ => ("out", String::new()),
            };
            let why = visible::line(text(tool, "reason").lines().next().unwrap_or_default());
            [plain(text(tool, "id")), plain(text(tool, "modelName")), mark.to_owned(), why, tokens]
        };
        lines.push(table(["TOOL", "MODEL SEES", "", "WHY", "TOKENS"], &tools.iter().map(row).collect::<Vec<_>>()));
    } else if !tools.is_empty() {
        let row = |tool: &&Value| [plain(text(tool, "id")), plain(text(tool, "modelName")), tool["tokens"].to_string()];
        lines.push(table(["TOOL", "MODEL SEES", "TOKENS"], &tools.iter().map(row).collect::<Vec<_>>()));
    }
    let pending: Vec<String> =
        found["pending"].as_array().into_iter().flatten().filter_map(Value::as_str).map(plain).collect();
    if !pending.is_empty() {
        lines.push(format!("Not seen yet, tools may come: {}", pending.join(", ")));
    }
    let count = found["count"].as_u64().unwrap_or_default();
    let word = if count == 1 { "tool" } else { "tools" };
    lines.push(format!(
        "{count} {word}, about {} tokens (bytes of their definitions / 4)",
        found["totalTokens"].as_u64().unwrap_or_default()
    ));
    if found["dynamic"].as_bool() == Some(true) {
        lines.push("Dynamic: the client lists meta tools, and reaches these through call_tool.".to_owned());
    }
    lines.join("\n\n")
}
