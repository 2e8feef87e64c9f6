//! What a call changed in the workspace.

use serde_json::{Value, json};

use super::CHATS;
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::text;
use crate::visible;

/// Of more only the number is told.
const MOST: usize = 50;

/// The changes between the states before and after a call, as the API tells them.
pub(super) async fn of(client: &Client, call: &Value) -> Result<Vec<Value>, Failure> {
    let workspace = format!("{CHATS}/{}/workspace", segment(text(call, "chatId")));
    let list = |value: Value| value["items"].as_array().cloned().unwrap_or_default();
    match (call["preManifestId"].as_str(), call["postManifestId"].as_str()) {
        (_, None) => Ok(Vec::new()),
        (Some(before), Some(after)) if before == after => Ok(Vec::new()),
        (Some(before), Some(after)) => {
            let path = format!("{workspace}/diff?from={}&to={}", segment(before), segment(after));
            client.get(&path).await.map(list)
        }
        // Before the first state there was nothing.
        (None, Some(after)) => {
            let state = client.get(&format!("{workspace}/manifest?id={}", segment(after))).await?;
            let paths = state["files"].as_object().into_iter().flat_map(|files| files.keys());
            Ok(paths.map(|path| json!({ "path": path, "change": "added" })).collect())
        }
    }
}

/// Them, a line each, with a sign in front.
pub(super) fn lines(changes: &[Value]) -> Vec<(char, String)> {
    let line = |change: &Value| {
        let path = visible::line(text(change, "path"));
        match (text(change, "change"), change["renamedFrom"].as_str()) {
            ("added", _) => ('+', path),
            ("deleted", _) => ('-', path),
            (_, Some(from)) => ('~', format!("{} -> {path}", visible::line(from))),
            _ => ('~', path),
        }
    };
    let mut lines: Vec<(char, String)> = changes.iter().take(MOST).map(line).collect();
    if changes.len() > MOST {
        lines.push((' ', format!("and {} more", changes.len() - MOST)));
    }
    lines
}
