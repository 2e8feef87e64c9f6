//! The way to another node, one message a line: what is sent is kept until the other end takes it, within a limit. Whoever can wait for room
//! waits; where nobody can, and there is none, the way ends.

use std::pin::pin;
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
    /// Something was taken.
    room: Arc<Notify>,
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
        let room = Arc::new(Notify::new());
        let (waits, breaks, makes_room) = (Arc::clone(&waiting), Arc::clone(&broken), Arc::clone(&room));
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
                makes_room.notify_waiters();
            }
            let _ = timeout(PATIENCE, writer.shutdown()).await;
        };
        (Self { lines, waiting, room, broken, limit }, writing)
    }

    /// Says a line that nobody can wait for. False if nobody takes it, or too much waits already, which ends the way.
    pub(crate) fn say(&self, line: String) -> bool {
        match self.say_if_it_fits(line) {
            Ok(said) => said,
            Err(_) => {
                self.broken.notify_one();
                false
            }
        }
    }

    /// The same for a line that may be left out, or said later: it comes back if there is no room for it.
    pub(crate) fn say_if_it_fits(&self, line: String) -> Result<bool, String> {
        let length = line.len();
        let fits = |waiting: usize| {
            let after = waiting.saturating_add(length);
            (waiting == 0 || after <= self.limit).then_some(after)
        };
        match self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(self.lines.send(line).is_ok()),
            Err(_) => Err(line),
        }
    }

    /// Says a line as soon as there is room for it. False if nobody takes it.
    pub(crate) async fn say_in_turn(&self, mut line: String) -> bool {
        loop {
            let mut room = pin!(self.room.notified());
            // It listens before it looks.
            room.as_mut().enable();
            line = match self.say_if_it_fits(line) {
                Ok(said) => return said,
                Err(line) => line,
            };
            tokio::select! {
                () = room => {}
                () = self.lines.closed() => return false,
            }
        }
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
        let taken = said.map_or(Ok(false), |said| said.say_if_it_fits(message.body).map_err(|line| (said, line)));
        let full = match taken {
            Ok(true) => return None,
            Ok(false) => None,
            Err(full) => Some(full),
        };
        let hub = Arc::clone(&self.hub);
        let Some((said, line)) = full else {
            hub.close("the server that has it takes nothing any more");
            return None;
        };
        Some(Lasting::new(async move {
            if !said.say_in_turn(line).await {
                hub.close("the server that has it takes nothing any more");
            }
        }))
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    #[tokio::test]
    async fn what_can_wait_for_room_waits_and_the_way_ends_for_nothing_else() {
        let (here, there) = tokio::io::duplex(16);
        let wire: Wire = Box::new(here);
        let (_reader, writer) = tokio::io::split(wire);
        let (said, writing) = Said::new(writer, 100);
        let writing = tokio::spawn(writing);
        // Each alone is as much as may wait; none of them is lost.
        let all: Vec<String> = "abcdef".chars().map(|letter| letter.to_string().repeat(90)).collect();
        let mut saying = tokio::task::JoinSet::new();
        for line in &all {
            let (said, line) = (said.clone(), line.clone());
            saying.spawn(async move { said.say_in_turn(line).await });
        }
        let mut lines = BufReader::new(there).lines();
        let mut came = Vec::new();
        for _ in &all {
            came.push(lines.next_line().await.unwrap().unwrap());
        }
        assert!(saying.join_all().await.into_iter().all(|said| said));
        came.sort();
        assert_eq!(came, all);

        assert!(said.say("x".repeat(90)));
        assert!(said.say_if_it_fits("y".repeat(90)).is_err(), "the other end takes nothing just now");
        assert!(!writing.is_finished());
        assert!(!said.say("z".repeat(90)), "it cannot wait");
        writing.await.unwrap();
        assert!(!said.say_in_turn("late".to_owned()).await, "nobody takes it");
    }
}
