//! What one connection has said of an attempt. The next connection begins anew.

use std::time::Duration;

use tokio::time::Instant;

/// How far it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// That it was begun.
    pub started: bool,
    /// Up to which event.
    pub said: u64,
    /// How it ended.
    pub ended: bool,
    last: Option<Instant>,
}

impl Progress {
    /// Something was sent or acknowledged just now.
    pub fn moved(&mut self) {
        self.last = Some(Instant::now());
    }

    /// What was said behind this event is as good as unsaid.
    pub fn rewind(&mut self, said: u64) {
        *self = Self { started: self.started, said, ..Self::default() };
    }

    /// Whether that is long ago.
    pub fn is_older_than(&self, long: Duration) -> bool {
        self.last.is_some_and(|last| last.elapsed() >= long)
    }
}
