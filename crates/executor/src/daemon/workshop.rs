//! One attempt as a task of its own: the agent works, its files go up, its end is written down, its folder goes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kitbag_model::WorkPath;
use kitbag_model::run::wire::{Assignment, AttemptId, FileRef};
use kitbag_model::run::{RunEventKind, RunOutcome, RunState};
use kitbag_trace::{Context, Kind, Span};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::collect::{CollectLimits, Collected, collect};
use super::desk::{Desk, Stops};
use crate::Failure;
use crate::attempt::{Machine, attempt};
use crate::link::{Blobs, Link, LinkError, Patience};
use crate::place;
use crate::voice::Voice;

/// So many things that could not be kept are named.
const NAMED: usize = 20;

/// What all attempts need.
#[derive(Debug)]
pub struct Workshop {
    /// The machine.
    pub machine: Machine,
    /// The server.
    pub link: Link,
    /// Where everything is told.
    pub desk: Desk,
    /// Who looks after the machine.
    pub voice: Voice,
    /// How long things are tried.
    pub patience: Patience,
    /// Whether folders stay.
    pub keep_folders: bool,
    /// What is kept of a folder.
    pub limits: CollectLimits,
    /// How many attempts are not cleared away yet. Their end is told before their folder goes.
    pub busy: watch::Sender<usize>,
}

/// An attempt that is not cleared away yet, also if its task breaks off.
struct Busy(Arc<Workshop>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|attempts| *attempts -= 1);
    }
}

impl Workshop {
    /// Begins an attempt. It tells the desk when it is over, whatever happens.
    pub fn begin(self: &Arc<Self>, job: Box<Assignment>, stops: Stops) {
        let this = self.clone();
        self.busy.send_modify(|attempts| *attempts += 1);
        let busy = Busy(self.clone());
        tokio::spawn(async move {
            this.work(Arc::from(job), stops).await;
            drop(busy);
        });
    }

    /// Waits until nothing of any attempt is left to clear away, and not longer than `long`.
    pub async fn cleared(&self, long: Duration) {
        let mut busy = self.busy.subscribe();
        let _ = timeout(long, busy.wait_for(|attempts| *attempts == 0)).await;
    }

    async fn work(self: Arc<Self>, job: Arc<Assignment>, stops: Stops) {
        let id = job.id;
        self.voice.tell(&json!({ "event": "begun", "attempt": id.to_string() }), || format!("began {id}"));
        let (this, given, cancel) = (self.clone(), job.clone(), stops.cancel.subscribe());
        let contents = Blobs::new(self.link.clone(), &job, self.patience, stops.cancel.subscribe());
        let mut span = traced(&job);
        let place = span.context();
        // In a task of its own: a mistake of ours in one attempt is the end of that attempt and of nothing else.
        let done = tokio::spawn(async move {
            let desk = this.desk.clone();
            let doing = pin!(attempt(&this.machine, &given, &contents, cancel, move |kind| desk.tell(id, kind)));
            kitbag_trace::within(place, doing).await
        });
        let (outcome, folder) = done.await.unwrap_or_else(|error| {
            tracing::error!(%id, %error, "an attempt broke off inside the executor");
            (failed(&Failure::new("EXECUTOR_FAILED", "it broke off inside the executor, whose log says more")), None)
        });
        let outcome = as_cancelled(outcome, *stops.cancel.borrow());
        let work = folder.as_ref().map(crate::prepare::RunFolder::work);
        // What has no usage never began: the folder is not what the agent left, and perhaps not even all that was to be in it.
        let (outcome, files) = match &work {
            Some(work) if job.keep_files && outcome.usage.is_some() => {
                self.kept(&job, work.clone(), outcome, stops.gone.subscribe()).await
            }
            _ => (outcome, None),
        };
        span.set("kitbag.run.state", outcome.state);
        if outcome.state != RunState::Succeeded {
            span.fail(outcome.state.as_str());
        }
        drop(span);
        let (state, code) = (outcome.state, outcome.error.as_ref().map(|error| error.code.clone()));
        let told = self.desk.end(id, outcome, files);
        if let Some(top) = work.as_ref().and_then(|work| work.parent()).filter(|_| !self.keep_folders) {
            let top = top.to_owned();
            let _ = tokio::task::spawn_blocking(move || place::remove(&top)).await;
        }
        let end = if told { state.as_str() } else { "given up" };
        self.voice.tell(&json!({ "event": "ended", "attempt": id.to_string(), "state": end, "code": code }), || {
            let code = code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
            format!("ended {id}: {end}{code}")
        });
    }

    /// The folder's files, which are at the server then. That they cannot be kept is the end of a run that was asked for them.
    async fn kept(
        &self,
        job: &Arc<Assignment>,
        work: PathBuf,
        outcome: RunOutcome,
        gone: watch::Receiver<bool>,
    ) -> (RunOutcome, Option<BTreeMap<WorkPath, FileRef>>) {
        match self.sent(job, work, gone).await {
            Ok(collected) => (outcome, Some(collected.files)),
            Err(failure) if outcome.state == RunState::Succeeded => {
                let usage = outcome.usage;
                let outcome = RunOutcome { usage, ..failed(&failure) };
                self.desk.tell(job.id, RunEventKind::Error { error: failure.into() });
                (outcome, None)
            }
            Err(failure) => {
                self.warn(job.id, format!("the files are not kept: {failure}"));
                (outcome, None)
            }
        }
    }

    async fn sent(
        &self,
        job: &Arc<Assignment>,
        work: PathBuf,
        gone: watch::Receiver<bool>,
    ) -> Result<Collected, Failure> {
        let (given, folder, limits) = (job.clone(), work.clone(), self.limits);
        let collected = tokio::task::spawn_blocking(move || collect(&folder, &given, limits)).await;
        let collected = collected.map_err(|error| Failure::new("WORKSPACE_FAILED", error))??;
        for what in collected.left_out.iter().take(NAMED) {
            self.warn(job.id, format!("{what}; it is not kept"));
        }
        if let Some(more @ 1..) = collected.left_out.len().checked_sub(NAMED) {
            self.warn(job.id, format!("{more} more of the folder are not kept"));
        }
        let failed = |error: LinkError| Failure::new("WORKSPACE_FAILED", error);
        let blobs = Blobs::new(self.link.clone(), job, self.patience, gone);
        let contents = collected.contents();
        let hashes: Vec<_> = contents.keys().copied().collect();
        for hash in blobs.missing(&hashes).await.map_err(failed)? {
            if let Some((path, size)) = contents.get(&hash) {
                blobs.put(hash, &work.join(path), *size).await.map_err(failed)?;
            }
        }
        Ok(collected)
    }

    fn warn(&self, id: AttemptId, message: String) {
        self.desk.tell(id, RunEventKind::Log { level: "warn".to_owned(), message });
    }
}

/// Begins a span as a part of what led to the run, if anything is traced here.
fn traced(job: &Assignment) -> Span {
    let parent = job.trace.as_ref().filter(|_| kitbag_trace::is_on());
    let parent = parent.and_then(|trace| Context::parse(&trace.traceparent, trace.tracestate.as_deref()));
    let mut span = Span::of(parent, None, Kind::Consumer, || "run attempt");
    span.set("kitbag.organization.id", &job.organization_id);
    span.set("kitbag.run.id", job.id.run_id);
    span.count("kitbag.run.attempt", job.id.attempt.into());
    span
}

fn failed(failure: &Failure) -> RunOutcome {
    RunOutcome { state: RunState::Failed, output: None, error: Some(failure.clone().into()), usage: None }
}

/// What was cancelled before its agent began failed because of that, whatever it says.
fn as_cancelled(outcome: RunOutcome, cancelled: bool) -> RunOutcome {
    if cancelled && outcome.state == RunState::Failed && outcome.usage.is_none() {
        let outcome = failed(&Failure::new("CANCELLED", "somebody ended it before the agent began"));
        return RunOutcome { state: RunState::Cancelled, ..outcome };
    }
    outcome
}
