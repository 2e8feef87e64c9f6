//! `kitbag chat ask` with nothing said yet: a conversation at the terminal, a line and its answer at a time, until the person has had enough.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde_json::Value;
use tokio::sync::oneshot;

use super::ask::ask;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::Output;

/// Talks. `body` has everything but the words.
pub(super) async fn talk(
    client: &Client,
    chat: &str,
    body: &Value,
    yes: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    output.note(&format!("This is chat {chat}. Ctrl-D ends the conversation, Ctrl-C a turn."));
    while let Some(line) = line().await? {
        if line.trim().is_empty() {
            continue;
        }
        let mut body = body.clone();
        body["content"] = line.trim().into();
        // What went wrong with one answer is told; the next one may go better.
        if let Err(failure) = ask(client, chat.to_owned(), &body, yes, output).await {
            output.failure(&failure);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the person says next; none at the end, or on Ctrl-C.
async fn line() -> Result<Option<String>, Failure> {
    let mut stderr = io::stderr();
    write!(stderr, "> ")?;
    stderr.flush()?;
    let (said, heard) = oneshot::channel();
    // Nobody could take a blocking read back; a thread of its own does not keep the program from ending.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = said.send(read.map(|bytes| (bytes > 0).then_some(line)));
    });
    let line = tokio::select! {
        line = heard => line.unwrap_or(Ok(None))?,
        _ = tokio::signal::ctrl_c() => None,
    };
    if line.is_none() {
        writeln!(stderr)?;
    }
    Ok(line)
}
