//! A server that somebody else started and whose pipes we were given: one message a line. Who started it knows when it is over, and ends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::stdio::{LAST_WORDS, WRITE, drain, read};
use super::writer::{Stuck, Writer};
use super::{Link, Outgoing};
use crate::connection::{Boxed, Options, hub::Hub};
use crate::lasting::Lasting;

/// How long who started it may take to find out how it ended.
const ENDING: Duration = Duration::from_secs(2);

/// A server that runs already.
pub struct Pipes {
    /// What it reads.
    pub input: pipe::Sender,
    /// What it writes.
    pub output: pipe::Receiver,
    /// Comes to its end with the server, and says how that ended.
    pub over: Boxed<'static, String>,
}

pub(crate) struct Attached {
    hub: Arc<Hub>,
    writer: Arc<Writer>,
    over: watch::Receiver<bool>,
}

impl Attached {
    pub(crate) fn new(pipes: Pipes, options: &Options, hub: Arc<Hub>) -> Arc<Self> {
        let writer = Arc::new(Writer::new(pipes.input, options.longest_message));
        let reader = tokio::spawn(read(pipes.output, hub.clone(), options.longest_message));
        let drain = tokio::spawn(drain(writer.clone(), hub.clone(), options.answer.min(WRITE)));
        let (ended, over) = watch::channel(false);
        let watched = supervise(pipes.over, hub.clone(), writer.clone(), reader, drain);
        tokio::spawn(async move {
            watched.await;
            let _ = ended.send(true);
        });
        Arc::new(Self { hub, writer, over })
    }
}

impl Link for Attached {
    fn send(&self, message: Outgoing) -> Option<Lasting> {
        match self.writer.write(message.body) {
            // Whoever closed it says why.
            Ok(()) | Err(Stuck::Closed) => {}
            Err(Stuck::Full) => self.hub.close("the server does not read its input, and too much waits for it"),
        }
        None
    }

    fn ended(&self) -> Boxed<'_, ()> {
        let mut over = self.over.clone();
        Box::pin(async move {
            let _ = over.wait_for(|over| *over).await;
        })
    }
}

/// Waits for the end of the server or of the connection, whichever is first. Its input is closed then.
async fn supervise(
    mut over: Boxed<'static, String>,
    hub: Arc<Hub>,
    writer: Arc<Writer>,
    mut reader: JoinHandle<()>,
    drain: JoinHandle<()>,
) {
    tokio::select! {
        () = hub.closed() => {}
        how = &mut over => {
            // What it said before it died counts.
            let _ = timeout(LAST_WORDS, &mut reader).await;
            hub.close(&how);
        }
        _ = &mut reader => {
            let how = timeout(ENDING, over).await;
            hub.close(how.as_deref().unwrap_or("the server closed its output"));
        }
    }
    writer.close();
    reader.abort();
    drain.abort();
}
