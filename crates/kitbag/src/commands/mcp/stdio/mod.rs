//! `kitbag mcp stdio`: an MCP server on standard input and output. It is a bridge to the endpoint of the server that runs on the
//! data folder, or of one inside this process. One message a line; nothing else is ever written to standard output.

mod bridge;
mod events;
mod road;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kitbag_server::bridge::{Kind, Piped};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cli::{Place, StdioFlags};
use crate::failure::Failure;
use crate::logging;
use crate::signals::Signals;
use bridge::{Bridge, Message};
use road::Road;

/// What is under way when the client closes its end has so long to finish.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// How long each step of the end may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Lines that wait, in and out. Then whoever writes them waits.
const WAITING: usize = 64;

pub(super) async fn run(place: &Place, flags: StdioFlags) -> Result<ExitCode, Failure> {
    // A client shows its person what comes here, or keeps it in a file that nobody clears.
    logging::start("warn", Some("text"))?;
    let mut signals = Signals::listen()?;
    let road = Road::open(place, flags).await?;
    let (out, lines) = mpsc::channel(WAITING);
    let mut written = writer(lines);
    let bridge = Arc::new(Bridge::new(road, out));
    let mut work = JoinSet::new();
    let heard = tokio::select! {
        () = serve(&bridge, &mut work) => true,
        () = signals.next() => true,
        // Nobody reads: the client is gone.
        _ = &mut written => false,
    };
    work.shutdown().await;
    let _ = timeout(FAREWELL, bridge.leave()).await;
    bridge.end().await;
    drop(bridge);
    if heard {
        let _ = timeout(FAREWELL, written).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Carries what comes in until there is no more, and then what is under way to its end.
async fn serve(bridge: &Arc<Bridge>, work: &mut JoinSet<()>) {
    let mut lines = reader();
    let (told, telling) = mpsc::channel(WAITING);
    work.spawn(tell(bridge.clone(), telling));
    while let Some(text) = lines.recv().await {
        // Those that are over.
        while work.try_join_next().is_some() {}
        let piped = match Piped::read(&text) {
            Ok(piped) => piped,
            Err(answer) => {
                bridge.say(answer).await;
                continue;
            }
        };
        let message = Message { text, piped };
        match &message.piped.kind {
            // What follows needs the session.
            Kind::Begin => {
                let unwanted = bridge.enter(&message);
                bridge.clone().request(Arc::new(message), unwanted).await;
            }
            Kind::Alone { .. } | Kind::Request => {
                let unwanted = bridge.enter(&message);
                work.spawn(bridge.clone().request(Arc::new(message), unwanted));
            }
            Kind::Cancel(id) => {
                let id = id.clone();
                bridge.cancel(&id, message.text);
            }
            Kind::Begun | Kind::Said => {
                let _ = told.send(message).await;
            }
        }
    }
    drop(told);
    bridge.leave_endless();
    let finished = async { while work.join_next().await.is_some() {} };
    let _ = timeout(LAST_ANSWERS, finished).await;
}

/// What is not answered goes in the order in which it came.
async fn tell(bridge: Arc<Bridge>, mut messages: mpsc::Receiver<Message>) {
    while let Some(message) = messages.recv().await {
        bridge.tell(message).await;
    }
}

/// The lines of standard input. On a thread of its own: one that waits for a line cannot be stopped, and must keep nobody.
fn reader() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => {
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
            }
        }
    });
    lines
}

/// Writes lines to standard output, each whole and at once. The other end of what comes back is done when nobody reads any more,
/// or everything is written.
fn writer(mut lines: mpsc::Receiver<String>) -> oneshot::Receiver<()> {
    let (done, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let mut output = io::stdout().lock();
        while let Some(mut line) = lines.blocking_recv() {
            line.push('\n');
            if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        let _ = done.send(());
    });
    ended
}
