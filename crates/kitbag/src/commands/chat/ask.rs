//! `kitbag chat ask`: a model's turn in the terminal. Its words go to standard output as they come, what it does beside goes to standard error.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::CHATS;
use crate::client::{Client, segment};
use crate::commands::tool::{question, say};
use crate::events::{Event, Events};
use crate::failure::Failure;
use crate::output::{Output, text};
use crate::signals::Signals;
use crate::visible;

/// So much of what a tool gets and gives is shown.
const SHOWN: usize = 300;

/// So often a connection that broke is opened again.
const TRIES: u32 = 30;

/// Whether somebody wants the turn to end.
#[derive(Eq, PartialEq)]
enum Ending {
    No,
    Wanted,
    Asked,
}

/// A turn that is followed.
struct Following<'a> {
    client: &'a Client,
    output: &'a Output,
    chat: String,
    yes: bool,
    /// The turn, once it is known.
    turn: String,
    /// The last event that was heard.
    after: u64,
    /// The block whose pieces are being printed.
    printing: Option<u64>,
    error: Option<Value>,
}

/// Asks, and follows the turn to its end. Ctrl-C ends the turn, too, as does whoever ends the program.
pub(super) async fn ask(
    client: &Client,
    chat: String,
    body: &Value,
    yes: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let path = format!("{CHATS}/{}", segment(&chat));
    // First: from when the turn runs, nobody ends the program without it.
    let mut signals = Signals::listen()?;
    let mut events = Events::asked(client, &format!("{path}/stream"), body).await?;
    let mut following =
        Following { client, output, chat, yes, turn: String::new(), after: 0, printing: None, error: None };
    let (mut tries, mut ending) = (0, Ending::No);
    let done = loop {
        let event = tokio::select! {
            event = events.next() => Some(event),
            () = signals.next(), if ending == Ending::No => {
                output.note("ending the turn…");
                ending = Ending::Wanted;
                None
            }
        };
        match event {
            None => {}
            Some(Some(event)) if event.name == "done" => break event.data,
            Some(Some(event)) => {
                tries = 0;
                following.heard(&event).await?;
            }
            Some(None) if tries < TRIES && !following.turn.is_empty() => {
                tries += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
                let path = format!("{path}/turns/{}/events?after={}", segment(&following.turn), following.after);
                match Events::at(client, &path).await {
                    Ok(again) => events = again,
                    // It may be there again by the next try.
                    Err(failure) if failure.may_pass() => {}
                    Err(failure) => return Err(failure),
                }
            }
            Some(None) => return Err(Failure::failed("the server is gone; the turn may go on there")),
        }
        // Who is quick ends a turn before its id is heard.
        if ending == Ending::Wanted && !following.turn.is_empty() {
            ending = Ending::Asked;
            client.post(&format!("{path}/turns/{}/cancel", segment(&following.turn)), &json!({})).await?;
        }
    };
    following.finish(&done)
}

impl Following<'_> {
    async fn heard(&mut self, event: &Event) -> Result<(), Failure> {
        self.after = event.id.unwrap_or(self.after);
        let data = &event.data;
        match event.name.as_str() {
            "turn" => {
                self.turn = text(data, "turnId").to_owned();
                if let Some(saved) = data["tools"]["savedTokens"].as_u64().filter(|saved| *saved > 0) {
                    let count = &data["tools"]["count"];
                    self.note(&format!("{count} tools, found by search: {saved} tokens saved each step"));
                }
            }
            "text" => self.piece(data)?,
            "block" => self.block(data)?,
            "tool_call" => self.call(&data["call"]).await?,
            "error" => self.error = Some(data.clone()),
            _ => {}
        }
        Ok(())
    }

    fn note(&self, line: &str) {
        if !self.output.is_json() {
            self.output.note(line);
        }
    }

    fn piece(&mut self, data: &Value) -> Result<(), Failure> {
        if !self.output.is_json() {
            self.printing = data["index"].as_u64();
            print(&visible::lines(text(data, "delta")))?;
        }
        Ok(())
    }

    /// A block is whole. Its pieces were printed, unless it came while the connection was broken.
    fn block(&mut self, data: &Value) -> Result<(), Failure> {
        let block = &data["block"];
        if self.output.is_json() {
            return Ok(());
        }
        match text(block, "type") {
            "text" if self.printing.take() == data["index"].as_u64() => print("\n")?,
            "text" => print(&format!("{}\n", visible::lines(text(block, "text"))))?,
            "thinking" => self.note(&format!("(thinking) {}", visible::lines(text(block, "text")))),
            "tool_search" => {
                let found =
                    block["found"].as_array().into_iter().flatten().map(|tool| visible::line(text(tool, "name")));
                self.note(&format!("-> looked for tools: {}", found.collect::<Vec<_>>().join(", ")));
            }
            "tool_call" if block["error"].is_string() => {
                self.note(&format!(
                    "-> {}: {}",
                    visible::line(text(block, "name")),
                    visible::line(text(block, "error"))
                ));
            }
            _ => {}
        }
        Ok(())
    }

    async fn call(&mut self, call: &Value) -> Result<(), Failure> {
        let tool = visible::line(text(call, "toolId"));
        match text(call, "status") {
            "pending" => {
                let approve = match (self.yes, self.output.has_person()) {
                    (true, _) => true,
                    (false, true) => question(self.client, call).await?,
                    (false, false) => {
                        self.note(&format!("{tool} asks before it runs, and nobody is here to say yes; --yes does"));
                        false
                    }
                };
                // Somebody at the page may have been quicker.
                if let Err(failure) = say(self.client, call, approve, None).await {
                    self.note(&visible::lines(&failure.message));
                }
            }
            "running" => self.note(&format!("-> {tool} {}", short(&call["args"]))),
            "success" => self.note(&format!("<- {}", short(&call["result"]))),
            _ => self.note(&format!("<- failed: {}", visible::line(text(&call["error"], "message")))),
        }
        Ok(())
    }

    fn finish(&self, done: &Value) -> Result<ExitCode, Failure> {
        let state = text(done, "state");
        let usage = &done["usage"];
        self.note(&format!("{} tokens in, {} out", usage["inputTokens"], usage["outputTokens"]));
        if self.output.is_json() {
            let told = json!({ "chatId": self.chat, "turnId": self.turn, "done": done, "error": self.error });
            self.output.result(&told, |_| String::new())?;
            return Ok(ExitCode::from(u8::from(state != "done")));
        }
        match (state, &self.error) {
            ("done", _) => Ok(ExitCode::SUCCESS),
            (_, Some(error)) => Err(Failure::with_exit(text(error, "code"), visible::lines(text(error, "message")), 1)),
            (state, None) => Err(Failure::failed(format!("the turn is {state}"))),
        }
    }
}

/// Prints what comes bit by bit. A reader that has gone away is no error.
fn print(piece: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(piece.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn short(value: &Value) -> String {
    let whole = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let cut: String = whole.chars().take(SHOWN).collect();
    format!("{}{}", visible::line(&cut), if cut.len() < whole.len() { "…" } else { "" })
}
