//! The way to another node, one message a line: what is sent is kept until the other end takes it, within a limit, and whoever sends waits for
//! nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

use super::lines::Lines;
use super::{Link, Outgoing};
use crate::connection::hub::Hub;
use crate::connection::{Boxed, Options, Wire};
use crate::lasting::Lasting;

/// How long the other end may take nothing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines on their way to another node. When the last of these is gone, that direction is closed.
#[derive(Clone)]
pub(crate) struct Said {
    lines: mpsc::UnboundedSender<String>,
    waiting: Arc<AtomicUsize>,
    /// Something could not be said: the rest would make no sense.
    broken: Arc<Notify>,
    limit: usize,
}

impl Said {
    /// Lines are written for as long as somebody may say some. The future ends when there will be none, or they are not taken.
    pub(crate) fn new(mut writer: WriteHalf<Wire>, limit: usize) -> (Self, impl Future<Output = ()> + Send) {
        let (lines, mut told) = mpsc::unbounded_channel::<String>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let broken = Arc::new(Notify::new());
        let (waits, breaks) = (Arc::clone(&waiting), Arc::clone(&broken));
        let writing = async move {
            while let Some(mut line) = told.recv().await {
                let length = line.len();
                line.push('\n');
                let written = async {
                    writer.write_all(line.as_bytes()).await?;
                    if told.is_empty() { writer.flush().await } else { Ok(()) }
                };
                tokio::select! {
                    written = timeout(PATIENCE, written) => if !matches!(written, Ok(Ok(()))) { return },
                    () = breaks.notified() => return,
                }
                waits.fetch_sub(length, Ordering::AcqRel);
            }
            let _ = timeout(PATIENCE, writer.shutdown()).await;
        };
        (Self { lines, waiting, broken, limit }, writing)
    }

    /// Says a line. False if nobody takes it, or too much waits already.
    pub(crate) fn say(&self, line: String) -> bool {
        let length = line.len();
        let before = self.waiting.fetch_add(length, Ordering::AcqRel);
        let fits = before == 0 || before + length <= self.limit;
        if !fits {
            self.broken.notify_one();
        }
        fits && self.lines.send(line).is_ok()
    }
}

/// The way to a node that has a server.
pub(crate) struct Peer {
    hub: Arc<Hub>,
    said: std::sync::Mutex<Option<Said>>,
    over: watch::Receiver<bool>,
}

impl Peer {
    /// Listens to what comes, the rest of which was read already.
    pub(crate) fn start(
        (mut reader, mut lines): (ReadHalf<Wire>, Lines),
        writer: WriteHalf<Wire>,
        options: &Options,
        hub: Arc<Hub>,
    ) -> Arc<Self> {
        let (said, writing) = Said::new(writer, options.longest_message);
        let (ended, over) = watch::channel(false);
        let (longest, heard) = (options.longest_message, Arc::clone(&hub));
        tokio::spawn(async move {
            let reading = async {
                loop {
                    let mut unasked = 0;
                    while let Some(line) = lines.next() {
                        unasked += heard.receive(line, None);
                    }
                    if lines.too_long() {
                        return format!("the server that has it sent a line of more than {longest} bytes");
                    }
                    heard.pace(unasked).await;
                    if !matches!(lines.more(&mut reader).await, Ok(1..)) {
                        return "the server that had it is gone, or let go of it".to_owned();
                    }
                }
            };
            tokio::pin!(writing);
            let why = tokio::select! {
                why = reading => Some(why),
                () = &mut writing => Some("the server that has it does not listen".to_owned()),
                () = heard.closed() => None,
            };
            match why {
                Some(why) => heard.close(&why),
                // What was said last still goes out.
                None => drop(timeout(PATIENCE, writing).await),
            }
            let _ = ended.send(true);
        });
        Arc::new(Self { hub, said: std::sync::Mutex::new(Some(said)), over })
    }
}

impl Link for Peer {
    fn send(&self, message: Outgoing) -> Option<Lasting> {
        let said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if !said.is_some_and(|said| said.say(message.body)) {
            self.hub.close("the server that has it takes nothing any more, and too much waits for it");
        }
        None
    }

    fn ended(&self) -> Boxed<'_, ()> {
        self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let mut over = self.over.clone();
        Box::pin(async move {
            let _ = over.wait_for(|over| *over).await;
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.hub.close("nobody uses it any more");
    }
}
