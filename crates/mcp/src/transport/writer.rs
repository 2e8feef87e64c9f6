//! Writing to a child without waiting for it: what its pipe does not take at once is kept, up to a limit, and written when it
//! does. So no caller is ever stuck because a server does not read, and none that goes away leaves half a line.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Why a line cannot be written.
pub(super) enum Stuck {
    /// The pipe is closed.
    Closed,
    /// Too much waits already.
    Full,
}

pub(super) struct Writer {
    state: Mutex<State>,
    /// There is something to write later, or nothing ever again.
    work: Notify,
    limit: usize,
}

struct State {
    pipe: Option<Arc<pipe::Sender>>,
    waiting: VecDeque<u8>,
    /// How many bytes the pipe took.
    taken: u64,
}

impl Writer {
    pub(super) fn new(pipe: pipe::Sender, limit: usize) -> Self {
        let state = State { pipe: Some(Arc::new(pipe)), waiting: VecDeque::new(), taken: 0 };
        Self { state: Mutex::new(state), work: Notify::new(), limit }
    }

    /// Writes a line, or keeps what the pipe does not take.
    pub(super) fn write(&self, mut line: String) -> Result<(), Stuck> {
        line.push('\n');
        let mut bytes = line.as_bytes();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pipe) = state.pipe.clone() else { return Err(Stuck::Closed) };
        if state.waiting.is_empty() {
            while !bytes.is_empty() {
                match pipe.try_write(bytes) {
                    Ok(written) => {
                        state.taken += written as u64;
                        bytes = bytes.get(written..).unwrap_or_default();
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return Err(Stuck::Closed),
                }
            }
        } else if state.waiting.len().saturating_add(bytes.len()) > self.limit {
            return Err(Stuck::Full);
        }
        if !bytes.is_empty() {
            state.waiting.extend(bytes);
            self.work.notify_one();
        }
        Ok(())
    }

    /// Whether the other end has read anything. What it did not read stays in the pipe, also after its end. When in doubt, yes.
    pub(super) fn was_read(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = state.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        unread.is_none_or(|unread| unread < state.taken)
    }

    /// Closes the pipe; what waits is thrown away.
    pub(super) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pipe = None;
        state.waiting.clear();
        self.work.notify_one();
    }

    /// Writes what waits, whenever the pipe takes some. Ends when the pipe is closed; an error if it took nothing for
    /// `patience`.
    pub(super) async fn drain(&self, patience: Duration) -> io::Result<()> {
        loop {
            self.work.notified().await;
            loop {
                let pipe = {
                    let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(pipe) = state.pipe.clone() else { return Ok(()) };
                    if state.waiting.is_empty() {
                        break;
                    }
                    pipe
                };
                timeout(patience, pipe.writable()).await.map_err(|_| io::ErrorKind::TimedOut)??;
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match pipe.try_write(state.waiting.make_contiguous()) {
                    Ok(written) => {
                        state.taken += written as u64;
                        state.waiting.drain(..written);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}
