//! One call in a container of its own: made, fed, heard, ended in time, removed.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, KillContainerOptionsBuilder, StartContainerOptions, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::confine::Spec;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::logs::{Line, Logs, Stream};
use crate::removal::how_it_ended;
use crate::result;

/// So long what a container said is still waited for when it is over.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// So often it is looked how much a call has written beside its workspace, and so much may be there beside two results.
const LOOK: Duration = Duration::from_secs(1);
const ROOM: u64 = 32 << 20;

/// So many lines of a log stand in the message of a failure.
const TAIL: usize = 20;

/// What is to be called.
#[derive(Clone, Debug)]
pub struct Job {
    /// In what.
    pub spec: Spec,
    /// Its arguments.
    pub args: Value,
    /// How long it may take.
    pub deadline: Duration,
    /// The most bytes that its result may have.
    pub most_result: u64,
}

/// How a call ended without a result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The tool failed.
    Failed(String),
    /// Its time was up.
    Timeout(String),
    /// Somebody stopped it.
    Stopped,
    /// The engine did not do its part.
    Unavailable(String),
}

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What it returned, or why nothing.
    pub result: Result<Value, Ended>,
    /// The end of what it said.
    pub logs: Vec<Line>,
    /// How many bytes of that were left out.
    pub logs_cut: u64,
}

impl Engine {
    /// Makes one call, to its end. `tell` hears each line that it says; `stop` ends it before its time.
    pub async fn call(
        &self,
        job: Job,
        tell: &(dyn Fn(&Line) + Send + Sync),
        stop: impl Future<Output = ()>,
    ) -> Finished {
        let mut logs = Logs::new(tell);
        let result = self.run(&job, &mut logs, stop).await.unwrap_or_else(|error| {
            let kind = if matches!(error, EngineError::Command(_)) { Ended::Failed } else { Ended::Unavailable };
            Err(kind(error.to_string()))
        });
        let (logs, logs_cut) = logs.finish();
        let result = result.map_err(|ended| match ended {
            Ended::Failed(message) => Ended::Failed(with_tail(message, &logs)),
            other => other,
        });
        Finished { result, logs, logs_cut }
    }

    async fn run(
        &self,
        job: &Job,
        logs: &mut Logs<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Result<Value, Ended>, EngineError> {
        let args = serde_json::to_vec(&job.args).unwrap_or_default();
        let Some(exchange) = &job.spec.place.exchange else {
            return Err(EngineError::Away("there is no folder for the arguments".to_owned()));
        };
        self.write_args(exchange, &args).await?;
        let made = self.make(&job.spec).await?;
        let ended = tokio::select! {
            biased;
            ended = self.live(made.id(), &args, job.deadline, logs, stop) => ended,
            // It is removed with all that it does.
            why = outgrown(exchange, job.most_result) => Ok(Err(Ended::Failed(why))),
        };
        let result = match ended {
            Ok(Ok(code)) => Ok(self.outcome(made.id(), code, job, exchange).await),
            Ok(Err(ended)) => Ok(Err(ended)),
            Err(error) => Err(error),
        };
        made.now().await;
        result
    }

    /// Puts the arguments where the container finds them.
    async fn write_args(&self, exchange: &Path, args: &[u8]) -> Result<(), EngineError> {
        let path = exchange.join(result::ARGS);
        let written = async {
            tokio::fs::write(&path, args).await?;
            // Whoever reads it may be somebody else; the folder around it is for that one alone.
            tokio::fs::set_permissions(&path, Permissions::from_mode(0o644)).await
        };
        written.await.map_err(|source| EngineError::Disk { what: "the arguments could not be written", source })
    }

    /// Starts a container and hears it to its end. Its exit status, or why there is none.
    async fn live(
        &self,
        id: &str,
        args: &[u8],
        deadline: Duration,
        logs: &mut Logs<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Result<i64, Ended>, EngineError> {
        let both = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
        // podman looks for the command already here.
        let mut attached = self.docker.attach_container(id, Some(both)).await.map_err(EngineError::at_start)?;
        let mut input = attached.input;
        let args = args.to_vec();
        // One that never reads must not keep us from hearing it. It is fed before it starts: podman breaks off what it has still to say if it
        // ends before podman has read all that was written to it.
        let feeding = tokio::spawn(async move {
            let _ = input.write_all(&args).await;
            let _ = input.shutdown().await;
        });
        self.docker.start_container(id, None::<StartContainerOptions>).await.map_err(EngineError::at_start)?;
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        let mut waiting = std::pin::pin!(self.docker.wait_container(id, Some(options)));
        let (mut stop, mut timer) = (std::pin::pin!(stop), std::pin::pin!(tokio::time::sleep(deadline)));
        let mut talking = true;
        let ended = loop {
            tokio::select! {
                said = attached.output.next(), if talking => match said {
                    Some(Ok(said)) => heard(logs, said),
                    _ => talking = false,
                },
                code = waiting.next() => break match code {
                    Some(Ok(done)) => Ok(done.status_code),
                    // The library takes an exit status other than 0 for an error.
                    Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => Ok(code),
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(EngineError::Away("it does not say how a container ended".to_owned())),
                },
                () = &mut timer => break Err(Ended::Timeout(format!("it took longer than {} seconds", deadline.as_secs()))),
                () = &mut stop => break Err(Ended::Stopped),
            }
        };
        if ended.is_err() {
            let at_once = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
            // It may have ended by itself in this moment.
            let _ = self.docker.kill_container(id, Some(at_once)).await;
        }
        let rest = async {
            while let Some(Ok(said)) = attached.output.next().await {
                heard(logs, said);
            }
        };
        if talking {
            let _ = tokio::time::timeout(LAST_WORDS, rest).await;
        }
        feeding.abort();
        Ok(ended)
    }

    /// What it means that a container ended with this status.
    async fn outcome(&self, id: &str, code: i64, job: &Job, exchange: &Path) -> Result<Value, Ended> {
        if code == 0 {
            let (folder, most) = (exchange.to_owned(), job.most_result);
            let read = tokio::task::spawn_blocking(move || result::read(&folder, most)).await;
            return read.unwrap_or_else(|_| Err("its result could not be read".to_owned())).map_err(Ended::Failed);
        }
        Err(Ended::Failed(how_it_ended(self, id, code, job.spec.place.limits.memory).await))
    }
}

pub(crate) fn heard(logs: &mut Logs<'_>, said: LogOutput) {
    match said {
        LogOutput::StdErr { message } => logs.add(Stream::Stderr, &message),
        LogOutput::StdOut { message } | LogOutput::Console { message } => logs.add(Stream::Stdout, &message),
        LogOutput::StdIn { .. } => {}
    }
}

/// Waits until there is more in the folder for arguments and result than any result needs, which may be never. Why that is the end of a call.
async fn outgrown(exchange: &Path, most_result: u64) -> String {
    let most = most_result.saturating_mul(2).saturating_add(ROOM);
    loop {
        tokio::time::sleep(LOOK).await;
        let folder = exchange.to_owned();
        let fits = tokio::task::spawn_blocking(move || result::fits(&folder, most)).await;
        if !fits.unwrap_or(true) {
            return format!("it wrote more to its folder for the result than may be there ({} MiB)", most >> 20);
        }
    }
}

/// A message with the end of the log below it.
fn with_tail(message: String, logs: &[Line]) -> String {
    let tail: Vec<&str> = logs[logs.len().saturating_sub(TAIL)..].iter().map(|line| line.text.as_str()).collect();
    if tail.is_empty() { message } else { format!("{message}\n{}", kitbag_model::safe_text(&tail.join("\n"))) }
}
