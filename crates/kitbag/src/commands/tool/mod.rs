//! `kitbag tool`

mod args;
mod call;
mod changes;
mod highlight;
mod rendered;
mod resolve;
mod show;
mod watch;

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::toolset::tool_row;
use crate::cli::{DecideFlags, Place, ToolCommand};
use crate::client::{Client, segment};
use crate::events::Events;
use crate::failure::Failure;
use crate::here;
use crate::output::{Output, plain, table, text};
use crate::visible;

pub(in crate::commands) use call::{decide as say, question};
pub(crate) use show::commands;
pub(crate) use watch::Watch;

const CHATS: &str = "/v1/orgs/local/chats";
const TOOLS: &str = "/v1/orgs/local/tools";

pub(crate) async fn run(place: &Place, command: ToolCommand, output: &Output) -> Result<ExitCode, Failure> {
    // What was typed wrong is told before anything is opened.
    let given = match &command {
        ToolCommand::Call(flags) => Some(args::read(&flags.args)?),
        ToolCommand::Decide(flags) => flags.args.as_deref().map(args::read).transpose()?,
        ToolCommand::Resolve(flags) => resolve::check(flags).map(|()| None)?,
        _ => None,
    };
    let client = Client::open(place).await?;
    let done = dispatch(&client, place, command, given, output).await;
    client.close().await;
    done
}

async fn dispatch(
    client: &Client,
    place: &Place,
    command: ToolCommand,
    given: Option<Map<String, Value>>,
    output: &Output,
) -> Result<ExitCode, Failure> {
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
        ToolCommand::Resolve(flags) => resolve::run(client, &flags, output).await,
        ToolCommand::Call(flags) => {
            let chat = here::chat_or_new(client, place, flags.chat.clone(), output).await?;
            call::call(client, &chat, &flags, given.unwrap_or_default(), output).await
        }
        ToolCommand::Calls { chat } => {
            let chat = here::chat(client, place, chat).await?;
            let calls = client.list(&format!("{CHATS}/{}/tool-calls", segment(&chat)), &None, None).await?;
            output.result(&json!({ "items": calls }), |_| show::calls(&calls))
        }
        ToolCommand::Decide(flags) => decide(client, place, flags, given, output).await,
        ToolCommand::Cancel { call, chat } => {
            let address = address(client, place, &call, chat).await?;
            let call = client.post_nothing(&format!("{address}/cancel")).await?;
            output.result(&call, |call| match call["error"]["code"].as_str() {
                Some("CANCELLED") => format!("cancelled {}", text(call, "id")),
                _ => format!("{} was over already: {}", text(call, "id"), text(call, "status")),
            })
        }
        ToolCommand::Result { call, chat } => {
            let address = address(client, place, &call, chat).await?;
            client.download(&format!("{address}/result"), &mut std::io::stdout()).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn decide(
    client: &Client,
    place: &Place,
    flags: DecideFlags,
    given: Option<Map<String, Value>>,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let call = client.get(&address(client, place, &flags.call, flags.chat).await?).await?;
    let watch = Watch::new(Events::of_chat(client, text(&call, "chatId")).await?, text(&call, "toolId"))?;
    let call = call::decide(client, &call, flags.yes, given).await?;
    if flags.no {
        return output.result(&call, |call| format!("{} does not run", text(call, "id")));
    }
    let call = call::follow(client, call, watch).await?;
    show::finished(client, &call, output).await
}

/// Where a call is.
async fn address(client: &Client, place: &Place, call: &str, chat: Option<String>) -> Result<String, Failure> {
    let chat = here::chat(client, place, chat).await?;
    Ok(format!("{CHATS}/{}/tool-calls/{}", segment(&chat), segment(call)))
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
        if let Some(problem) = tool["problem"].as_str() {
            shown.push(format!("  cannot be called: {}", visible::line(problem.lines().next().unwrap_or_default())));
        }
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
    if let Some(problem) = tool["problem"].as_str() {
        lines.push(format!("It cannot be called: {}", visible::lines(problem)));
    }
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
