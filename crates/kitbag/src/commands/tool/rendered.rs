//! What a call shows, as text: the page's renderers, as far as a terminal can follow them.

use kitbag_model::render_plan::language_of;
use serde_json::Value;

use super::CHATS;
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::text;

/// So many bytes of a file are read.
const MOST: usize = 256 * 1024;

/// What is to be seen.
pub(super) struct Rendered {
    /// What it is, such as a file's name.
    pub(super) title: String,
    pub(super) text: String,
    /// What to colour it as.
    pub(super) language: String,
    /// It says all that the result says.
    pub(super) instead: bool,
}

impl Rendered {
    fn new(title: &str, text: &str, language: &str) -> Option<Self> {
        let (title, text, language) = (title.to_owned(), text.to_owned(), language.to_owned());
        Some(Self { title, text, language, instead: false })
    }
}

/// Follows a call's plan; none if there is nothing to see beyond its result.
pub(super) async fn of(client: &Client, call: &Value, changes: &[Value]) -> Result<Option<Rendered>, Failure> {
    let (plan, result) = (&call["renderPlan"], &call["result"]);
    let config = &plan["config"];
    let patch = || patches(changes).and_then(|patch| Rendered::new("", &patch, "diff"));
    Ok(match text(plan, "renderer") {
        "code" | "editor" => code(client, call, config).await?,
        "document" => {
            code(client, call, config).await?.map(|shown| Rendered { language: "markdown".to_owned(), ..shown })
        }
        "terminal" => terminal(call),
        "file-diff" | "patch-diff" => match result["diff"].as_str() {
            Some(diff) => Rendered::new("", diff, "diff"),
            None => patch(),
        },
        "file-read" => match result["content"].as_str() {
            Some(content) => {
                let path = result["path"].as_str().or(call["args"]["path"].as_str()).unwrap_or_default();
                Rendered::new(path, content, &language_of(path))
            }
            None => None,
        },
        // An edit is worth seeing, however its tool is called.
        "" | "default" if is_patch(&result["diff"]) => Rendered::new("", text(result, "diff"), "diff"),
        "html" | "frame" => config["url"].as_str().and_then(|url| Rendered::new("shown at", url, "")),
        _ => None,
    })
}

/// A text, or a file of the workspace as it was after the call.
async fn code(client: &Client, call: &Value, config: &Value) -> Result<Option<Rendered>, Failure> {
    let path = config["file"].as_str().or(config["path"].as_str()).unwrap_or_default();
    let named = config["language"].as_str().map_or_else(|| language_of(path), ToOwned::to_owned);
    if let Some(content) = config["content"].as_str() {
        return Ok(Rendered::new(path, content, &named));
    }
    if path.is_empty() {
        return Ok(None);
    }
    let state = call["postManifestId"].as_str().map(|id| format!("?manifest={}", segment(id))).unwrap_or_default();
    let parts = path.split('/').map(segment).collect::<Vec<_>>().join("/");
    let address = format!("{CHATS}/{}/workspace/files/{parts}{state}", segment(text(call, "chatId")));
    let mut answer = match client.stream(&address).await {
        Ok(answer) => answer,
        Err(failure) => return Ok(Rendered::new(path, &format!("({})", failure.message), "")),
    };
    let mut bytes = Vec::new();
    while let Some(part) = answer.next().await? {
        bytes.extend_from_slice(&part);
        if bytes.len() > MOST {
            return Ok(Rendered::new(path, "(too large to be shown here)", ""));
        }
    }
    Ok(match String::from_utf8(bytes) {
        Ok(content) if !content.contains('\0') => Rendered::new(path, &content, &named),
        _ => Rendered::new(path, "(not text)", ""),
    })
}

/// What a command printed.
fn terminal(call: &Value) -> Option<Rendered> {
    let result = &call["result"];
    let part = |name: &str| result[name].as_str();
    let printed = match part("output") {
        Some(output) => output.to_owned(),
        None => format!("{}{}", part("stdout")?, part("stderr").unwrap_or_default()),
    };
    let command = part("command").or(call["args"]["command"].as_str()).unwrap_or_default();
    let mut text = if command.is_empty() { String::new() } else { format!("$ {command}\n") };
    text.push_str(&printed);
    let code = ["exit_code", "exitCode"].iter().find_map(|name| result[*name].as_i64());
    let mut notes: Vec<String> =
        code.filter(|code| *code != 0).map(|code| format!("exit code {code}")).into_iter().collect();
    notes.extend((result["timed_out"] == true).then(|| "it took too long and was ended".to_owned()));
    notes.extend((result["truncated"] == true).then(|| "a part of what it printed is left out".to_owned()));
    if !notes.is_empty() {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        text.push_str(&format!("{end}({})", notes.join("; ")));
    }
    Some(Rendered { instead: true, ..Rendered::new("", &text, "")? })
}

fn is_patch(value: &Value) -> bool {
    value.as_str().is_some_and(|patch| patch.starts_with("--- ") && patch.contains("\n@@ "))
}

/// The patches of all changes; none if there are none.
fn patches(changes: &[Value]) -> Option<String> {
    let patches: Vec<&str> = changes.iter().filter_map(|change| change["patch"].as_str()).collect();
    (!patches.is_empty()).then(|| patches.concat())
}
