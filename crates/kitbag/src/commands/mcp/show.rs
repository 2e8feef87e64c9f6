//! A server as people read it on a terminal.

use serde_json::Value;

use crate::output::{plain, table, text};
use crate::visible;

pub(super) fn server(server: &Value) -> String {
    let list = |field: &str| server[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = |field: &str| list(field).iter().filter_map(Value::as_str).map(plain).collect::<Vec<_>>().join(", ");
    let off = if server["enabled"] == true { "" } else { "  (off)" };
    let mut lines = vec![
        format!("{}  {}{off}", text(server, "id"), text(server, "serverType")),
        format!("  {}", plain(text(server, "commandLine"))),
    ];
    let mut add = |what: &str, said: String| {
        if !said.is_empty() {
            lines.push(format!("  {what}{said}"));
        }
    };
    add("in ", plain(text(server, "cwd")));
    add("", if server["sandbox"] == true { "in the sandbox".to_owned() } else { String::new() });
    add("variables: ", names("envNames"));
    add("headers: ", names("headerNames"));
    add("", visible::line(text(server, "description")));
    let reason = text(server, "reason");
    let because = if reason.is_empty() { String::new() } else { format!(" ({})", visible::line(reason)) };
    let since = text(server, "since");
    let since = if since.is_empty() { String::new() } else { format!(" since {since}") };
    add("", format!("{}{because}{since}", text(server, "status")));
    add("error: ", visible::line(text(server, "error")));
    add("sign in: ", visible::line(text(server, "authUrl")));
    add("protocol ", plain(text(server, "protocolVersion")));
    let asks = if server["requiresConfirmation"] == true {
        "you are asked before each call"
    } else {
        "calls are not asked about"
    };
    add("", format!("{asks}; a changed tool: {}", text(server, "pinPolicy")));
    if server["strictRecords"] == true {
        add("", "every call is recorded before it runs".to_owned());
    }
    let row = |tool: &Value| {
        let state = match (text(tool, "pinState"), tool["waiting"] == true) {
            ("quarantined", _) => "quarantined",
            (_, true) => "changed",
            _ => "",
        };
        let said = tool["title"].as_str().or(tool["description"].as_str()).unwrap_or_default();
        let first = said.lines().next().unwrap_or_default();
        [visible::line(text(tool, "name")), state.to_owned(), visible::line(first)]
    };
    let tools: Vec<_> = list("tools").iter().map(row).collect();
    if !tools.is_empty() {
        lines.push(format!("\n{}", table(["TOOL", "", "FOR"], &tools)));
    }
    if server["waitingCount"].as_u64().unwrap_or_default() > 0 {
        lines.push(format!("\nSee what has changed with: kitbag mcp accept {}", text(server, "id")));
    }
    let stderr: Vec<String> = list("stderr").iter().filter_map(Value::as_str).map(visible::line).collect();
    if !stderr.is_empty() {
        lines.push(format!("\nIt wrote:\n  {}", stderr.join("\n  ")));
    }
    lines.join("\n")
}
