//! `kitbag tool call` and `decide`: one call, from the question to what came of it.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::show;
use super::watch::{Watch, Woken};
use super::{CHATS, TOOLS};
use crate::cli::CallFlags;
use crate::client::{Client, segment};
use crate::events::Events;
use crate::failure::Failure;
use crate::output::{Output, text};
use crate::visible;

/// How often a server that tells nothing any more is asked.
const PAUSE: Duration = Duration::from_millis(500);

/// What somebody said about a call.
enum Verdict {
    Yes,
    No,
    /// They went away.
    Left,
    /// There is nobody.
    Nobody,
}

/// Calls a tool, and waits for its end.
pub(super) async fn call(
    client: &Client,
    chat: &str,
    flags: &CallFlags,
    args: Map<String, Value>,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let mut watch = Watch::new(Events::of_chat(client, chat).await?, &flags.tool)?;
    let path = format!("{CHATS}/{}/tool-calls", segment(chat));
    let body = json!({ "toolId": flags.tool, "args": args, "messageId": flags.message });
    let Some(call) = watch.during(client.post_and_go(&path, &body)).await? else {
        return Err(Failure::failed("stopped before it was known whether the call was made: see `kitbag tool calls`"));
    };
    let call = if text(&call, "status") == "pending" {
        watch.quiet();
        match verdict(client, &call, flags.yes, &mut watch, output).await? {
            Verdict::Yes => decide(client, &call, true, None).await?,
            Verdict::No => decide(client, &call, false, None).await?,
            Verdict::Left => cancel(client, &call).await?,
            Verdict::Nobody => return nobody(&call, flags.chat.is_some(), output),
        }
    } else {
        call
    };
    let call = follow(client, call, watch).await?;
    show::finished(client, &call, output).await
}

/// Follows a call to its end.
pub(super) async fn follow(client: &Client, mut call: Value, mut watch: Watch) -> Result<Value, Failure> {
    watch.about(&call);
    let mut deaf = false;
    while !is_over(&call) {
        let woken = tokio::select! {
            woken = watch.next() => woken,
            () = tokio::time::sleep(PAUSE), if deaf => Woken::Deaf,
        };
        match woken {
            Woken::Event(event) => match event.name.as_str() {
                "tool_call" if text(&event.data, "id") == text(&call, "id") && is_over(&event.data) => {
                    call = again(client, &call).await?;
                }
                "lagged" => call = again(client, &call).await?,
                _ => {}
            },
            Woken::Deaf => {
                deaf = true;
                call = again(client, &call).await?;
            }
            Woken::Stop => {
                watch.quiet();
                let _ = writeln!(io::stderr(), "cancelling; once more to leave at once");
                call = tokio::select! {
                    cancelled = cancel(client, &call) => cancelled?,
                    () = watch.stopped() => return Err(Failure::failed("left before the call was over")),
                };
            }
        }
    }
    Ok(call)
}

/// A call as it is now.
async fn again(client: &Client, call: &Value) -> Result<Value, Failure> {
    client.get(&address(call)).await
}

/// Says yes or no to exactly the call that was looked at.
pub(in crate::commands) async fn decide(
    client: &Client,
    call: &Value,
    approve: bool,
    args: Option<Map<String, Value>>,
) -> Result<Value, Failure> {
    let mut body = json!({ "approve": approve, "digest": call["argsDigest"] });
    if let Some(args) = args {
        body["args"] = Value::Object(args);
    }
    client.post_and_go(&format!("{}/decision", address(call)), &body).await
}

async fn cancel(client: &Client, call: &Value) -> Result<Value, Failure> {
    client.post_nothing(&format!("{}/cancel", address(call))).await
}

/// Where a call is.
pub(super) fn address(call: &Value) -> String {
    format!("{CHATS}/{}/tool-calls/{}", segment(text(call, "chatId")), segment(text(call, "id")))
}

fn is_over(call: &Value) -> bool {
    matches!(text(call, "status"), "success" | "error")
}

/// Asks whether a call may be made, if nobody said so already.
async fn verdict(
    client: &Client,
    call: &Value,
    yes: bool,
    watch: &mut Watch,
    output: &Output,
) -> Result<Verdict, Failure> {
    if yes {
        return Ok(Verdict::Yes);
    }
    if !output.has_person() {
        return Ok(Verdict::Nobody);
    }
    tokio::select! {
        said = question(client, call) => Ok(if said? { Verdict::Yes } else { Verdict::No }),
        () = watch.stopped() => {
            writeln!(io::stderr())?;
            Ok(Verdict::Left)
        }
    }
}

/// Asks the person at the terminal whether a call may be made.
pub(in crate::commands) async fn question(client: &Client, call: &Value) -> Result<bool, Failure> {
    let tool = client.get(&format!("{TOOLS}/{}", segment(text(call, "toolId")))).await.unwrap_or_default();
    let name = visible::line(text(&tool, "name"));
    let name = if name.is_empty() { name } else { format!(" ({name})") };
    let mut stderr = io::stderr();
    writeln!(stderr, "{}{name} asks before it runs. Its arguments:", visible::line(text(call, "toolId")))?;
    writeln!(stderr, "{}", visible::json(&call["args"]))?;
    write!(stderr, "Run it? [y/N] ")?;
    stderr.flush()?;
    let (said, answer) = oneshot::channel();
    // A thread of its own, which nobody waits for: it may sit at a question that is never answered.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = io::stdin().lock().read_line(&mut line);
        let _ = said.send(line);
    });
    Ok(matches!(answer.await.unwrap_or_default().trim(), "y" | "Y" | "yes"))
}

/// Says how a call can be decided that nobody here can decide.
fn nobody(call: &Value, named: bool, output: &Output) -> Result<ExitCode, Failure> {
    output.result(call, |_| String::new())?;
    let id = text(call, "id");
    // The chat of this folder need not be named.
    let chat = if named { format!(" --chat {}", text(call, "chatId")) } else { String::new() };
    output.note(&format!(
        "error: {} asks before it runs, and there is nobody to ask here. Until {} the call waits:\n  \
         kitbag tool decide {id}{chat} --yes    lets it run\n  \
         kitbag tool decide {id}{chat} --no     takes it back\n\
         With --yes, `kitbag tool call` does not ask.",
        visible::line(text(call, "toolId")),
        text(call, "expiresAt"),
    ));
    Ok(ExitCode::FAILURE)
}
