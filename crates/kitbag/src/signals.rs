//! SIGTERM and SIGINT: somebody wants it to end. What that means is for whoever listens.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Hears both. From when it listens on, neither ends the program by itself.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
