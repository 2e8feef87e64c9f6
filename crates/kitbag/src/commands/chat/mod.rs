//! `kitbag chat`

mod ask;
mod talk;

use std::process::ExitCode;

use serde_json::{Value, json};

use super::run::prompt;
use super::tool::commands;
use crate::cli::{ChatCommand, Place};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::here;
use crate::output::{Output, table, text};

const CHATS: &str = "/v1/orgs/local/chats";

pub(crate) async fn run(place: &Place, command: ChatCommand, output: &Output) -> Result<ExitCode, Failure> {
    let client = Client::open(place).await?;
    let done = dispatch(&client, place, command, output).await;
    client.close().await;
    done
}

async fn dispatch(client: &Client, place: &Place, command: ChatCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        ChatCommand::New { title, tools } => {
            let selectors = (!tools.is_empty()).then_some(tools);
            let chat = client.post(CHATS, &json!({ "title": title, "toolSelectors": selectors })).await?;
            output.result(&chat, |chat| text(chat, "id").to_owned())
        }
        ChatCommand::List { limit } => {
            let chats = client.list(CHATS, &None, limit).await?;
            output.result(&json!({ "items": chats }), |_| chat_table(&chats))
        }
        ChatCommand::Show { chat } => {
            let path = format!("{CHATS}/{}", segment(&chat));
            let found = client.get(&path).await?;
            let messages = client.list(&format!("{path}/messages"), &None, None).await?;
            output.result(&json!({ "chat": found, "messages": messages }), |_| conversation(&found, &messages))
        }
        ChatCommand::Say { chat, text: said, role, parent } => {
            let mut body = json!({ "role": role, "content": said });
            if let Some(parent) = parent {
                body["parentId"] = parent.into();
            }
            let message = client.post(&format!("{CHATS}/{}/messages", segment(&chat)), &body).await?;
            output.result(&message, |message| text(message, "id").to_owned())
        }
        ChatCommand::Ask { text: said, chat, model, system, thinking, yes, again } => {
            let talks = said.is_none() && again.is_none();
            if talks && !output.has_person() {
                return Err(Failure::wrong_use("say something, or name a message with --again"));
            }
            let mut body = match (said, again) {
                (_, Some(message)) => json!({ "messageId": message }),
                (Some(said), None) => match prompt(&said)? {
                    blank if blank.trim().is_empty() => {
                        return Err(Failure::wrong_use("say something: there is nothing to answer"));
                    }
                    said => json!({ "content": said }),
                },
                (None, None) => json!({}),
            };
            for (name, value) in [("model", model), ("system", system), ("thinking", thinking)] {
                if let Some(value) = value {
                    body[name] = value.into();
                }
            }
            let chat = here::chat_or_new(client, place, chat, output).await?;
            match talks {
                true => talk::talk(client, &chat, &body, yes, output).await,
                false => ask::ask(client, chat, &body, yes, output).await,
            }
        }
        ChatCommand::Processes { chat } => {
            let chat = here::chat(client, place, chat).await?;
            let processes = client.get(&format!("{CHATS}/{}/processes", segment(&chat))).await?;
            output.result(&processes, process_table)
        }
        ChatCommand::Stop { process, chat } => {
            let chat = here::chat(client, place, chat).await?;
            client.delete(&format!("{CHATS}/{}/processes/{}", segment(&chat), segment(&process))).await?;
            output.result(&json!({ "stopped": process }), |_| format!("stopped {process}"))
        }
        ChatCommand::Delete { chat } => {
            client.delete(&format!("{CHATS}/{}", segment(&chat))).await?;
            output.result(&json!({ "deleted": chat }), |_| format!("deleted {chat}"))
        }
    }
}

fn chat_table(chats: &[Value]) -> String {
    if chats.is_empty() {
        return "There are no chats yet. Make one with: kitbag chat new --title TITLE".to_owned();
    }
    let row = |chat: &Value| ["id", "updatedAt", "title"].map(|field| text(chat, field).to_owned());
    table(["CHAT", "CHANGED", "TITLE"], &chats.iter().map(row).collect::<Vec<_>>())
}

/// What calls left running.
fn process_table(processes: &Value) -> String {
    let items = processes["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return "Nothing runs.".to_owned();
    }
    let row = |process: &Value| {
        let ports = process["ports"].as_array().into_iter().flatten().map(ToString::to_string);
        let (id, toolset) = (text(process, "id").to_owned(), text(process, "toolsetId").to_owned());
        [id, toolset, ports.collect::<Vec<_>>().join(","), commands(process).join("; ")]
    };
    table(["PROCESS", "TOOLSET", "PORTS", "COMMAND"], &items.iter().map(row).collect::<Vec<_>>())
}

/// The messages in the order they were added; `*` marks those on the way to where the chat stands.
fn conversation(chat: &Value, messages: &[Value]) -> String {
    let title = chat["title"].as_str().unwrap_or("(untitled)");
    if messages.is_empty() {
        return format!("{title}\nThere are no messages yet.");
    }
    let mut path = Vec::new();
    let mut at = chat["activeLeafMessageId"].as_str();
    while let Some(message) = at.and_then(|id| messages.iter().find(|message| text(message, "id") == id)) {
        path.push(text(message, "id"));
        at = message["parentId"].as_str();
    }
    let row = |message: &Value| {
        let mark = if path.contains(&text(message, "id")) { "*" } else { "" };
        let parent = message["parentId"].as_str().unwrap_or("(top)");
        [mark, text(message, "id"), parent, text(message, "role"), &one_line(&message["content"])]
            .map(ToOwned::to_owned)
    };
    format!(
        "{title}\n{}",
        table(["", "MESSAGE", "BELOW", "ROLE", "CONTENT"], &messages.iter().map(row).collect::<Vec<_>>())
    )
}

/// A message's beginning, without what could move the cursor or colour the terminal.
fn one_line(content: &Value) -> String {
    const MOST: usize = 60;
    let whole = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(block_words).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let plain: String = whole.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST).collect();
    if whole.chars().count() > MOST { format!("{plain}…") } else { plain }
}

/// What a block says in a line. How a turn stands is told only if it is not as it should be.
fn block_words(block: &Value) -> Option<String> {
    let tool = || format!("[{}]", block["name"].as_str().unwrap_or(text(block, "toolId")));
    match text(block, "type") {
        "text" => Some(text(block, "text").to_owned()),
        "turn" => Some(text(block, "state")).filter(|state| *state != "done").map(|state| format!("({state})")),
        "tool_call" | "tool_search" => Some(tool()),
        "thinking" => None,
        other => Some(format!("[{other}]")),
    }
}
