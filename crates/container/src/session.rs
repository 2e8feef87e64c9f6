//! A container that stays: what it reads and writes goes through pipes of ours, what it says beside is a log, and how it ended is told.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::query_parameters::{AttachContainerOptionsBuilder, StartContainerOptions, WaitContainerOptionsBuilder};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::call::heard;
use crate::confine::Spec;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::logs::{Line, Logs};
use crate::removal::{Removal, how_it_ended};

/// So much is read from a pipe at a time.
const PIECE: usize = 64 << 10;

/// A container that runs, and the pipes to it.
pub struct Opened {
    /// What is written here it reads.
    pub input: pipe::Sender,
    /// What it writes can be read here.
    pub output: pipe::Receiver,
    /// The container.
    pub session: Session,
}

/// A container that runs until this is dropped or ended, or it ends by itself.
pub struct Session {
    removal: Option<Removal>,
    said: Arc<Mutex<Said>>,
    over: watch::Receiver<Option<String>>,
    tasks: [JoinHandle<()>; 2],
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("container", &self.removal).finish_non_exhaustive()
    }
}

/// What it said beside, and who hears it.
struct Said {
    logs: Logs<'static>,
    listener: Arc<Mutex<Option<UnboundedSender<Line>>>>,
}

impl Said {
    fn new() -> Self {
        let listener: Arc<Mutex<Option<UnboundedSender<Line>>>> = Arc::default();
        let heard = Arc::clone(&listener);
        let logs = Logs::new(move |line: &Line| {
            if let Some(listener) = heard.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                let _ = listener.send(line.clone());
            }
        });
        Self { logs, listener }
    }
}

impl Engine {
    /// Starts a container to talk to.
    pub async fn open(&self, spec: &Spec) -> Result<Opened, EngineError> {
        let pipes = || pipe::pipe().map_err(|source| EngineError::Disk { what: "no pipe for a container", source });
        let ((input, theirs), (ours, output)) = (pipes()?, pipes()?);
        let made = self.make(spec).await?;
        let both = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
        let attached = self.docker.attach_container(made.id(), Some(both)).await;
        let attached = attached.map_err(EngineError::at_start)?;
        let started = self.docker.start_container(made.id(), None::<StartContainerOptions>).await;
        started.map_err(EngineError::at_start)?;
        let said = Arc::new(Mutex::new(Said::new()));
        let (ended, over) = watch::channel(None);
        let feeding = tokio::spawn(feed(theirs, attached.input));
        let (engine, id, memory) = (self.clone(), made.id().to_owned(), spec.place.limits.memory);
        let hearing = Arc::clone(&said);
        let listening = tokio::spawn(async move {
            listen(attached.output, ours, &hearing).await;
            let _ = ended.send(Some(engine.end_of(&id, memory).await));
        });
        let session = Session { removal: Some(made), said, over, tasks: [feeding, listening] };
        Ok(Opened { input, output, session })
    }

    /// How a container ended that says nothing more.
    async fn end_of(&self, id: &str, memory: u64) -> String {
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        let code = match self.docker.wait_container(id, Some(options)).next().await {
            Some(Ok(done)) => done.status_code,
            // The library takes an exit status other than 0 for an error.
            Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => code,
            Some(Err(error)) => return EngineError::from(error).to_string(),
            None => return "nobody says how it ended".to_owned(),
        };
        how_it_ended(self, id, code, memory).await
    }
}

impl Session {
    /// From now on each line that it says beside is heard here, too.
    pub fn listen(&self, listener: UnboundedSender<Line>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.logs.tell_anew();
        *said.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// What it said beside since this was asked last, and how many bytes of that were left out.
    pub fn said(&self) -> (Vec<Line>, u64) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        said.logs.take()
    }

    /// Waits until it is over. How it ended.
    pub fn over(&self) -> impl Future<Output = String> + Send + use<> {
        let mut over = self.over.clone();
        async move {
            match over.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or_default(),
                Err(_) => "it was ended".to_owned(),
            }
        }
    }

    /// Ends it. It has this long to go by itself, when its input was closed before.
    pub async fn end(mut self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.over()).await;
        if let Some(removal) = self.removal.take() {
            removal.now().await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Carries what is written to the container, until either end is closed.
async fn feed(mut from: pipe::Receiver, mut to: impl AsyncWrite + Unpin) {
    let mut piece = vec![0; PIECE];
    while let Some(read) = some(&mut from, &mut piece).await {
        let Some(bytes) = piece.get(..read) else { break };
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

async fn some(from: &mut (impl AsyncRead + Unpin), piece: &mut [u8]) -> Option<usize> {
    from.read(piece).await.ok().filter(|read| *read > 0)
}

/// Carries what the container writes to the pipe, and keeps what it says beside, until it says nothing more.
async fn listen(
    mut from: impl futures_util::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin,
    mut to: pipe::Sender,
    said: &Mutex<Said>,
) {
    while let Some(Ok(piece)) = from.next().await {
        match piece {
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                // Nobody reads any more: the rest is of no use, and how it ends is told all the same.
                let _ = to.write_all(&message).await;
            }
            beside => heard(&mut said.lock().unwrap_or_else(PoisonError::into_inner).logs, beside),
        }
    }
}
