//! A run, followed in the terminal: what happens beside, the answer on standard output.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::way::Way;
use super::{RUNS, show};
use crate::client::segment;
use crate::events::{Event, Events};
use crate::failure::Failure;
use crate::output::{Output, text};
use crate::visible;

/// So much of what a tool gets and gives is shown.
const SHOWN: usize = 300;

/// When nothing was heard for so long, it may be because the run waits.
const SILENCE: Duration = Duration::from_secs(2);

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// What Ctrl-C does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum CtrlC {
    /// Whoever asked for the run ends it.
    Cancels,
    /// Whoever looks on goes away.
    Leaves,
}

/// Follows a run to its end.
pub(super) async fn follow(way: Way<'_>, id: &str, mut ctrl_c: CtrlC) -> Result<ExitCode, Failure> {
    let path = format!("{RUNS}/{}", segment(id));
    let mut following = Following { way, path, events: None, after: 0, waiting: String::new() };
    // One for all of the time: between two of them a signal would be lost.
    let mut interrupts = signal(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            is_over = following.step() => if is_over.map_err(|failure| goes_on(failure, id))? {
                return following.end().await;
            },
            _ = interrupts.recv() => match ctrl_c {
                CtrlC::Cancels => {
                    following.cancel().await.map_err(|failure| goes_on(failure, id))?;
                    // Whoever does not want to wait for the end of it says so once more.
                    ctrl_c = CtrlC::Leaves;
                }
                CtrlC::Leaves => {
                    let note = format!("no longer following; the run goes on. `kitbag runs cancel {id}` ends it");
                    following.way.output.note(&note);
                    return Ok(ExitCode::from(INTERRUPTED));
                }
            },
        }
    }
}

/// That we lost sight of a run does not end it.
fn goes_on(failure: Failure, id: &str) -> Failure {
    if !failure.may_pass() {
        return failure;
    }
    Failure::failed(format!("{}; the run may go on, and `kitbag runs follow {id}` follows it", failure.message))
}

struct Following<'a> {
    way: Way<'a>,
    path: String,
    /// None while there is no connection.
    events: Option<Events>,
    /// The last event that was heard.
    after: u64,
    /// Why it waits, as it was said last.
    waiting: String,
}

impl Following<'_> {
    /// Hears one event, or does what comes before that. Whether the run is over. Nothing is lost if this is not waited for to its end.
    async fn step(&mut self) -> Result<bool, Failure> {
        let Some(events) = &mut self.events else {
            let path = format!("{}/events?after={}", self.path, self.after);
            self.events = Some(self.way.ask(async |client| Events::at(client, &path).await).await?);
            return Ok(false);
        };
        match timeout(SILENCE, events.next()).await {
            Ok(Some(event)) if event.name == "end" => return Ok(true),
            Ok(Some(event)) => {
                self.after = event.data["n"].as_u64().unwrap_or(self.after);
                if let Some(line) = line(&event).filter(|_| !self.way.output.is_json()) {
                    self.way.output.note(&line);
                }
            }
            // The server is gone, or was restarted: from where we were.
            Ok(None) => {
                self.events = None;
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.way.lost()?;
            }
            Err(_) => self.say_why_it_waits().await,
        }
        Ok(false)
    }

    /// Says why it waits, once for each reason. That the server is gone, its events will say.
    async fn say_why_it_waits(&mut self) {
        let Ok(run) = self.way.client().get(&self.path).await else { return };
        if let Some(why) = run["waiting"].as_str().filter(|why| *why != self.waiting) {
            self.way.output.note(&format!("waiting: {why}"));
            self.waiting = why.to_owned();
        }
    }

    async fn cancel(&mut self) -> Result<(), Failure> {
        self.way.output.note("ending the run…");
        match self.way.client().post(&format!("{}/cancel", self.path), &json!({})).await {
            // It was over before: its last event says how.
            Err(failure) if failure.code == "CONFLICT" => Ok(()),
            asked => asked.map(drop),
        }
    }

    async fn end(mut self) -> Result<ExitCode, Failure> {
        let path = &self.path;
        let run = self.way.ask(async |client| client.get(path).await).await?;
        let files = self.way.ask(async |client| client.get(&format!("{path}/workspace")).await).await?;
        let output: &Output = self.way.output;
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
