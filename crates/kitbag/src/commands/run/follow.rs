//! A run, followed in the terminal: what happens beside, the answer on standard output.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{RUNS, show};
use crate::client::{Client, segment};
use crate::events::{Event, Events};
use crate::failure::Failure;
use crate::output::{Output, text};
use crate::visible;

/// So much of what a tool gets and gives is shown.
const SHOWN: usize = 300;

/// Follows a run to its end. Ctrl-C ends the run, too.
pub(super) async fn follow(client: &Client, id: &str, output: &Output) -> Result<ExitCode, Failure> {
    let path = format!("{RUNS}/{}", segment(id));
    let (mut after, mut waiting) = (0, String::new());
    let mut events = Events::at(client, &format!("{path}/events")).await?;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = tokio::signal::ctrl_c() => {
                output.note("ending the run…");
                client.post(&format!("{path}/cancel"), &json!({})).await?;
                continue;
            }
            () = tokio::time::sleep(std::time::Duration::from_secs(2)) => {
                say_why_it_waits(client, &path, &mut waiting, output).await?;
                continue;
            }
        };
        match event {
            Some(event) if event.name == "end" => break,
            Some(event) => {
                after = event.data["n"].as_u64().unwrap_or(after);
                if let Some(line) = line(&event).filter(|_| !output.is_json()) {
                    output.note(&line);
                }
            }
            // The server is gone, or was restarted: from where we were.
            None => {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                events = Events::at(client, &format!("{path}/events?after={after}")).await?;
            }
        }
    }
    let run = client.get(&path).await?;
    let files = client.get(&format!("{path}/workspace")).await?;
    if !output.is_json() {
        for line in show::changes(&files) {
            output.note(&line);
        }
    }
    let is_done = run["state"] == "succeeded";
    if !is_done && !output.is_json() {
        let error = &run["error"];
        return Err(Failure::with_exit(
            text(error, "code"),
            format!("{}: {}", text(&run, "state"), visible::lines(text(error, "message"))),
            1,
        ));
    }
    output.result(&run, show::answer)?;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Says why it waits, once for each reason.
async fn say_why_it_waits(client: &Client, path: &str, known: &mut String, output: &Output) -> Result<(), Failure> {
    let run = client.get(path).await?;
    if let Some(why) = run["waiting"].as_str().filter(|why| why != known) {
        output.note(&format!("waiting: {why}"));
        *known = why.to_owned();
    }
    Ok(())
}

/// What an event looks like in the terminal.
fn line(event: &Event) -> Option<String> {
    let data = &event.data;
    let short = |value: &Value| {
        let whole = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let cut: String = whole.chars().take(SHOWN).collect();
        let more = if cut.len() < whole.len() { "…" } else { "" };
        format!("{}{more}", visible::line(&cut))
    };
    Some(match event.name.as_str() {
        "state" => match data["reason"].as_str() {
            Some(reason) => format!("[{}] {}", text(data, "state"), visible::line(reason)),
            None => format!("[{}]", text(data, "state")),
        },
        "agent_toolset_applied" => {
            let list = |field: &str| {
                let items = data[field].as_array().into_iter().flatten().filter_map(Value::as_str);
                items.collect::<Vec<_>>().join(", ")
            };
            format!("toolset {}: servers {}; skills {}", text(data, "toolsetId"), list("servers"), list("skills"))
        }
        "toolset_not_applied" => format!("no toolset: {}", visible::line(text(data, "reason"))),
        "text" => visible::lines(text(data, "text")),
        "thinking" => format!("(thinking) {}", visible::lines(text(data, "text"))),
        "tool_call" => format!("-> {} {}", visible::line(text(data, "tool")), short(&data["input"])),
        "tool_result" if data["isError"] == true => format!("<- failed: {}", short(&data["output"])),
        "tool_result" => format!("<- {}", short(&data["output"])),
        "log" => format!("{}: {}", text(data, "level"), visible::lines(text(data, "message"))),
        _ => return None,
    })
}
