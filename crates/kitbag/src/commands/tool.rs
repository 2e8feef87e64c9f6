//! `kitbag tool`

use std::process::ExitCode;

use serde_json::{Value, json};

use super::toolset::tool_row;
use crate::cli::{Place, ToolCommand};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};

const TOOLS: &str = "/v1/orgs/local/tools";

pub(crate) async fn run(place: &Place, command: ToolCommand, output: &Output) -> Result<ExitCode, Failure> {
    let client = Client::open(place).await?;
    let done = dispatch(&client, command, output).await;
    client.close().await;
    done
}

async fn dispatch(client: &Client, command: ToolCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        ToolCommand::List { search, available } => {
            let words = search.map(|words| format!("&q={}", segment(&words))).unwrap_or_default();
            let tools = client.list(TOOLS, &Some(format!("available={available}{words}")), None).await?;
            output.result(&json!({ "items": tools }), |_| groups(&tools))
        }
        ToolCommand::Show { tool } => {
            let tool = client.get(&format!("{TOOLS}/{}", segment(&tool))).await?;
            output.result(&tool, detail)
        }
    }
}

/// The tools under the names of their toolsets.
fn groups(tools: &[Value]) -> String {
    if tools.is_empty() {
        return "No tool fits.".to_owned();
    }
    let rows: Vec<[String; 4]> = tools.iter().map(tool_row).collect();
    let whole = table(["TOOL", "", "RENDERER", "NAME"], &rows);
    let mut lines = whole.lines();
    let mut shown = vec![lines.next().unwrap_or_default().to_owned()];
    let mut group = "";
    for (tool, line) in tools.iter().zip(lines) {
        if text(tool, "toolsetId") != group {
            group = text(tool, "toolsetId");
            shown.push(format!("\n{}", plain(text(tool, "toolsetName"))));
        }
        shown.push(line.to_owned());
    }
    shown.join("\n")
}

fn detail(tool: &Value) -> String {
    let mut lines = vec![
        format!("{}  {}", plain(text(tool, "id")), plain(text(tool, "name"))),
        plain(text(tool, "description")),
        format!(
            "{} tool of {}; a model calls it {}",
            text(tool, "provider"),
            text(tool, "toolsetId"),
            text(tool, "modelName")
        ),
    ];
    lines.retain(|line| !line.is_empty());
    let values = [
        ("name", "name"),
        ("description", "description"),
        ("renderer", "renderer"),
        ("confirmation", "requiresConfirmation"),
        ("enabled", "enabled"),
    ];
    let row = |(what, field): &(&str, &str)| {
        let origin = &tool["origins"][*field];
        let from = match (text(origin, "from"), origin["key"].as_str()) {
            (from, Some(key)) => format!("{from} override {key}"),
            (from, None) => from.to_owned(),
        };
        let value = tool[*field].as_str().map_or_else(|| tool[*field].to_string(), ToOwned::to_owned);
        let short: String = plain(&value).chars().take(60).collect();
        [(*what).to_owned(), short, plain(&from)]
    };
    lines.push(format!("\n{}", table(["", "IS", "FROM"], &values.iter().map(row).collect::<Vec<_>>())));
    if !tool["rendererConfig"].is_null() {
        lines.push(format!(
            "\nshown by {} with {}",
            text(tool, "renderer"),
            plain(&tool["rendererConfig"].to_string())
        ));
    }
    let schema = serde_json::to_string_pretty(&tool["inputSchema"]).unwrap_or_default();
    lines.push(format!("\narguments\n{schema}"));
    lines.join("\n")
}
