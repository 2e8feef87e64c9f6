//! What a call says: drained without end, kept up to a limit, told to whoever listens up to another.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::call::{Event, LoggedLine, Stream};

/// What is kept of a call's log: its end.
const KEPT: usize = 64 * 1024;
/// A line that is longer is cut into several.
const LONGEST_LINE: usize = 8 * 1024;
/// What is told of a call while it runs.
const TOLD: usize = 512 * 1024;

/// The log of one call. Clones share it.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Tail>>);

struct Tail {
    lines: VecDeque<LoggedLine>,
    bytes: usize,
    cut: u64,
    told: usize,
    heard: Option<UnboundedSender<Event>>,
}

impl Log {
    pub(crate) fn new(heard: UnboundedSender<Event>) -> Self {
        let tail = Tail { lines: VecDeque::new(), bytes: 0, cut: 0, told: 0, heard: Some(heard) };
        Self(Arc::new(Mutex::new(tail)))
    }

    pub(crate) fn say(&self, stream: Stream, text: &str) {
        let mut rest = text;
        while rest.len() > LONGEST_LINE {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(LONGEST_LINE));
            self.say_piece(stream, piece.to_owned());
            rest = after;
        }
        self.say_piece(stream, rest.to_owned());
    }

    fn say_piece(&self, stream: Stream, text: String) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = LoggedLine { stream, text };
        if tail.told < TOLD {
            tail.told += line.text.len() + 1;
            if let Some(heard) = &tail.heard {
                let _ = heard.send(Event::Log(line.clone()));
            }
        }
        tail.bytes += line.text.len() + 1;
        tail.lines.push_back(line);
        while tail.bytes > KEPT {
            let Some(gone) = tail.lines.pop_front() else { break };
            tail.bytes -= gone.text.len() + 1;
            tail.cut += gone.text.len() as u64 + 1;
        }
    }

    /// Progress goes the same way, and counts as something said. Of a long message the beginning is told.
    pub(crate) fn progress(&self, fraction: Option<f64>, mut message: Option<String>) {
        if let Some(message) = &mut message {
            message.truncate(message.floor_char_boundary(LONGEST_LINE));
        }
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.told < TOLD {
            tail.told += 64 + message.as_ref().map_or(0, String::len);
            if let Some(heard) = &tail.heard {
                let _ = heard.send(Event::Progress { fraction, message });
            }
        }
    }

    /// The call is over: its lines, and how many bytes were left out. What comes later is nobody's.
    pub(crate) fn close(&self) -> (Vec<LoggedLine>, u64) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.heard = None;
        (tail.lines.iter().cloned().collect(), tail.cut)
    }

    /// Drains a pipe into the log, to its end.
    pub(crate) fn drain(&self, pipe: OwnedFd, stream: Stream) -> std::io::Result<JoinHandle<()>> {
        let mut pipe = pipe::Receiver::from_owned_fd(pipe)?;
        let log = self.clone();
        Ok(tokio::spawn(async move {
            let (mut chunk, mut line) = (vec![0; 64 * 1024], Vec::new());
            while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
                for part in chunk[..length].split_inclusive(|byte| *byte == b'\n') {
                    for piece in part.chunks(LONGEST_LINE) {
                        line.extend_from_slice(piece);
                        if line.ends_with(b"\n") || line.len() >= LONGEST_LINE {
                            log.say_piece(stream, text(&line));
                            line.clear();
                        }
                    }
                }
            }
            if !line.is_empty() {
                log.say_piece(stream, text(&line));
            }
        }))
    }
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).replace('\0', "\u{fffd}")
}
