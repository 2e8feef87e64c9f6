//! A call that runs: it waits for its turn, has the workspace, and what came of it is recorded.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::http::StatusCode;
use kitbag_cas::CasError;
use kitbag_mcp::lasting::Lasting;
use kitbag_model::{CallError, CallErrorCode, CallOutcome, ChatId, Entrypoint, Manifest, OrgId, ToolCall, ToolCallId};
use kitbag_python::{Job, Program};
use kitbag_runner::Ran;
use kitbag_store::{StoreError, Taken};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::behind::Record;
use super::live::{Live, Lives, NotTaken};
use super::plan::BlobsOf;
use super::queue::Ticket;
use super::{Calls, Company, MOST_RESULT_BYTES, hear, traced};
use crate::api::error::{ApiError, Code};
use crate::containers::{Around, Contained};
use crate::edge::words;
use crate::nodes::Failed;
use crate::ops::numbers;
use crate::rules::Quota;
use crate::toolsets::{Callable, Runs};
use crate::workspaces::{Lease, WorkspaceError};

/// How long is waited before it is looked again who holds a chat.
const ELSEWHERE: Duration = Duration::from_millis(200);

/// A call's place among those that run or wait, and that it is known here. Both end with it, however that comes: who finds a call among those that
/// run here waits for its end.
pub(super) struct Place {
    live: Arc<Live>,
    /// None once it is given back.
    ticket: Option<Ticket>,
    lives: Arc<Lives>,
}

impl Place {
    /// What is known of the call while it runs.
    pub(super) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // First: whoever hears that it is over may ask for another at once.
        self.ticket = None;
        self.lives.remove(&self.live);
    }
}

impl Calls {
    /// Takes a place for a call that is about to be recorded as running.
    pub(super) fn take_place(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        callable: &Callable,
        company: Option<Arc<Company>>,
        most: Option<&Quota>,
    ) -> Result<Place, ApiError> {
        let ticket = self.0.queue.enter(org, chat, !matches!(callable.runs, Runs::Mcp { .. }), most)?;
        let live = self.0.lives.add(org, chat, id, callable.toolset(), company).map_err(|reason| match reason {
            NotTaken::Closed => ApiError::new(Code::Unavailable, "the server is stopping; try again"),
            NotTaken::There => ApiError::new(Code::Conflict, "somebody else decides about this call just now"),
        })?;
        let place = Place { live, ticket: Some(ticket), lives: Arc::clone(&self.0.lives) };
        // After it is known here: whoever ends all calls has ended it, or it sees that they are being ended.
        if self.0.nodes.is_coming_back() {
            let message = "another server took this one for dead, and it is not back yet; try again";
            return Err(ApiError::new(Code::Unavailable, message));
        }
        Ok(place)
    }

    /// A call that is recorded as running, or is about to be, runs. It goes on whoever waits for it.
    pub(super) fn start(&self, place: Place, call: Arc<ToolCall>, callable: Arc<Callable>, record: Record) -> Lasting {
        let calls = self.clone();
        let live = place.live();
        let span = tracing::info_span!("call", id = %call.id, tool = %call.tool_id);
        let mut traced = traced::begin(&live, &call);
        let work = async move {
            let running = pin!(calls.run(&live, call, &callable, record));
            let running = pin!(kitbag_trace::within(traced.context(), running));
            if let Err(error) = unless_it_panics(running).await {
                traced.fail(error.told().code.as_str());
                Box::pin(calls.record_failure(&live, &error)).await;
            }
            traced::end(traced, &live);
            drop(place);
        };
        Lasting::new(work.instrument(span))
    }

    async fn run(&self, live: &Live, call: Arc<ToolCall>, callable: &Callable, record: Record) -> Result<(), RunError> {
        match &callable.runs {
            Runs::Mcp { server, tool } => self.run_mcp(live, call, callable, record, (server, tool)).await,
            // Boxed, since the calls of servers are the many, and should not have room for this.
            Runs::Python { .. } | Runs::Container(_) => Box::pin(self.run_in_workspace(live, call, callable)).await,
        }
    }

    async fn run_in_workspace(&self, live: &Live, call: Arc<ToolCall>, callable: &Callable) -> Result<(), RunError> {
        let (org, chat, id) = &live.key;
        let until = Instant::now() + self.0.nodes.patience();
        let lease = loop {
            let lease = tokio::select! {
                biased;
                () = live.stopped() => None,
                lease = self.turn(org, *chat) => Some(lease),
            };
            match lease.transpose() {
                Err(WorkspaceError::Elsewhere(node)) if Instant::now() < until => {
                    if self.run_elsewhere(live, &node).await? {
                        return Ok(());
                    }
                    sleep(ELSEWHERE).await;
                }
                lease => break lease?,
            }
        };
        let Some((lease, _place)) = lease else {
            let why = live.why().unwrap_or_else(|| CallError::new(CallErrorCode::Cancelled, "it was stopped"));
            return self.end_unrun(org, *chat, *id, &why).await;
        };
        let holding = lease.hold_for(*id);
        let Some((pre, folder)) = lease.ready_for(call.message_id).await? else {
            let why = "the chat went to another branch, with another workspace, before it was this call's turn";
            return self.end_unrun(org, *chat, *id, &CallError::new(CallErrorCode::Interrupted, why)).await;
        };
        let ran = match &callable.runs {
            Runs::Python { program, entrypoint } => self.work(live, &call, program, entrypoint, folder).await,
            Runs::Container(what) => self.work_in_container(live, &call, what, folder).await,
            Runs::Mcp { .. } => return Err(RunError::Defect("a server's tool needs no workspace".to_owned())),
        };
        let left_running = ran.left_running;
        let outcome = self.outcome(live, &lease, &call, callable, ran).await?;
        let call = self.record_end(live, &lease, pre.as_ref(), outcome).await?;
        drop(holding);
        drop(lease);
        self.announce(live, Arc::new(call), matches!(callable.runs, Runs::Container(_)));
        if left_running {
            self.tell_processes(org, *chat).await;
        }
        Ok(())
    }

    /// Says that a call is over, and how it ended. `contained` says that it was one of a container's tool.
    pub(super) fn announce(&self, live: &Live, call: Arc<ToolCall>, contained: bool) {
        let error = call.outcome.error.as_ref();
        tracing::info!(status = %call.status, code = error.map(|error| error.code.as_str()), "a call is over");
        numbers::ended(&call, contained);
        self.tell(&live.key.0, &call);
        live.ended(call);
    }

    /// Waits for the workspace, and then for a place among those that run.
    async fn turn(&self, org: &OrgId, chat: ChatId) -> Result<(Lease, Taken), WorkspaceError> {
        let lease = self.0.workspaces.lease(org, chat).await?;
        let place = self.0.places.take(org).await;
        Ok((lease, place))
    }

    async fn work(
        &self,
        live: &Live,
        call: &ToolCall,
        program: &Program,
        entrypoint: &Entrypoint,
        folder: PathBuf,
    ) -> Ran {
        let (org, chat, id) = &live.key;
        let job = Job {
            org: org.clone(),
            chat: *chat,
            call: id.to_string(),
            entrypoint: entrypoint.clone(),
            args: call.args.clone(),
            workspace: folder,
            deadline: self.0.settings.tool_timeout,
        };
        let (sender, heard) = mpsc::unbounded_channel();
        tokio::spawn(hear::pass_on(self.0.events.clone(), live.key.clone(), live.company.clone(), heard));
        let ran = kitbag_runner::run(&self.0.workers, program, job, sender, live.stop()).await;
        with_reason(live, ran)
    }

    async fn work_in_container(&self, live: &Live, call: &ToolCall, what: &Contained, folder: PathBuf) -> Ran {
        let (heard, pieces) = mpsc::unbounded_channel();
        tokio::spawn(hear::pass_on(self.0.events.clone(), live.key.clone(), live.company.clone(), pieces));
        let around = Around {
            org: &live.key.0,
            call,
            workspace: &folder,
            deadline: self.0.settings.tool_timeout,
            most_result: MOST_RESULT_BYTES,
            heard,
            stop: live.stop(),
        };
        with_reason(live, self.0.containers.call(what, around).await)
    }

    /// What is kept of what came back.
    async fn outcome(
        &self,
        live: &Live,
        lease: &Lease,
        call: &ToolCall,
        callable: &Callable,
        ran: Ran,
    ) -> Result<CallOutcome, RunError> {
        let mut outcome = CallOutcome {
            logs: ran.logs,
            logs_cut: ran.logs_cut,
            sandbox: Some(ran.sandbox),
            ..CallOutcome::default()
        };
        match ran.result {
            Err(error) => outcome.error = Some(error),
            Ok(result) => {
                // Python's results are checked where they are made.
                if let (Runs::Container(_), Some(schema)) = (&callable.runs, &callable.tool.output_schema)
                    && let Err(error) = self.fits_value(&callable.output, schema, &result).await
                {
                    outcome.warnings.push(format!("the result is not what the tool declares: {error}"));
                }
                let blobs = BlobsOf::Held(lease);
                self.plan(live, &blobs, call, callable, &result, &mut outcome).await?;
                self.keep_result(live, &blobs, result, &mut outcome).await?;
            }
        }
        Ok(outcome)
    }

    pub(super) async fn keep_result(
        &self,
        live: &Live,
        blobs: &BlobsOf<'_>,
        result: Value,
        outcome: &mut CallOutcome,
    ) -> Result<(), RunError> {
        let kept = kitbag_runner::keep(result, self.0.settings.max_result_bytes);
        if let Some((hash, bytes)) = kept.blob {
            Box::pin(self.keep_bytes(live, blobs, hash, bytes)).await?;
            outcome.result_sha256 = Some(hash);
        }
        outcome.result = Some(kept.value);
        Ok(())
    }

    /// Records the end of a call with the state it left.
    async fn record_end(
        &self,
        live: &Live,
        lease: &Lease,
        pre: Option<&Manifest>,
        outcome: CallOutcome,
    ) -> Result<ToolCall, RunError> {
        let finish = || lease.finish_call(live.key.2, pre, outcome.clone());
        self.until_recorded(live, || async { Ok(finish().await?) }).await
    }

    /// It ended before it ran.
    pub(super) async fn end_unrun(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        why: &CallError,
    ) -> Result<(), RunError> {
        self.end_unless(org, chat, id, why, || false).await
    }

    /// The same for one that nobody began here, as far as is known. What begins is known here before its record says that it is this node's, so it is looked
    /// for after the record.
    pub(super) async fn end_unbegun(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        why: &CallError,
    ) -> Result<(), RunError> {
        self.end_unless(org, chat, id, why, || self.0.lives.find(org, chat, id).is_some()).await
    }

    async fn end_unless(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        why: &CallError,
        runs: impl Fn() -> bool,
    ) -> Result<(), RunError> {
        let mut tx = self.0.store.write(org).await?;
        let me = self.0.nodes.id();
        let ended = match tx.call_node(chat, id).await? {
            _ if runs() => None,
            // It has taken it, and says how it ends.
            Some(at) if *at != *me && self.0.nodes.peer(&at).is_some() => None,
            // Also one that was recorded while this node was dead, under the name that it had then: nobody else looks for it any more.
            Some(at) => tx.end_call_of(&at, chat, id, why).await?,
            None => None,
        };
        tx.commit().await?;
        ended.iter().for_each(|call| self.tell(org, call));
        Ok(())
    }

    /// Something around the tool failed: the folder, the database, or this program.
    async fn record_failure(&self, live: &Live, error: &RunError) {
        let ((org, chat, id), why) = (&live.key, error.told());
        match why.code {
            CallErrorCode::Internal => tracing::error!(%error, call = %id, "a call failed outside its tool"),
            _ => tracing::warn!(%error, call = %id, "a call could not be made"),
        }
        if let Err(error) = self.until_recorded(live, || self.end_unrun(org, *chat, *id, &why)).await {
            tracing::error!(%error, call = %id, "the end of a call could not be recorded");
            // It is tried again from time to time.
            self.doubt(org, *chat, *id);
        }
    }
}

/// What was heard of the end, with the reason that somebody gave for it.
fn with_reason(live: &Live, mut ran: Ran) -> Ran {
    if let (Err(error), Some(why)) = (&mut ran.result, live.why())
        && matches!(error.code, CallErrorCode::Cancelled | CallErrorCode::Interrupted)
    {
        *error = why;
    }
    ran
}

/// What comes of a call, also of one that panics: that is a defect, and its record must end all the same.
fn unless_it_panics<F>(mut running: Pin<&mut F>) -> impl Future<Output = Result<(), RunError>>
where
    F: Future<Output = Result<(), RunError>>,
{
    poll_fn(move |context| {
        // It is not polled again after a panic, so nobody sees what that left half done.
        let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context)));
        polled.unwrap_or_else(|cause| Poll::Ready(Err(RunError::Defect(format!("panic: {}", words(&*cause))))))
    })
}

/// Why a call failed outside its tool.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node that holds the chat does not run it.
    #[error("{}", .0.message)]
    NotTaken(Failed),
    #[error("{0}")]
    Defect(String),
}

impl RunError {
    /// What the call's record says.
    fn told(&self) -> CallError {
        match self {
            Self::Workspace(error @ (WorkspaceError::Cas(CasError::Limit { .. }) | WorkspaceError::NoRoom(_))) => {
                CallError::new(CallErrorCode::QuotaExceeded, error.to_string())
            }
            Self::NotTaken(failed) => {
                let is_too_much = failed.status == StatusCode::TOO_MANY_REQUESTS;
                let code = if is_too_much { CallErrorCode::QuotaExceeded } else { CallErrorCode::Interrupted };
                CallError::new(code, failed.message.as_str())
            }
            Self::Workspace(WorkspaceError::Cas(CasError::InUse { .. })) => {
                CallError::new(CallErrorCode::Unavailable, "another process works with this workspace")
            }
            Self::Workspace(error @ (WorkspaceError::Lost | WorkspaceError::Elsewhere(_))) => {
                CallError::new(CallErrorCode::Interrupted, error.to_string())
            }
            Self::Workspace(WorkspaceError::Collected) => {
                let why = "the files of the chat are collected again and again; what the tool left is kept with the next change";
                CallError::new(CallErrorCode::Unavailable, why)
            }
            Self::Workspace(WorkspaceError::NoChat) => CallError::new(CallErrorCode::Cancelled, "the chat was deleted"),
            Self::Workspace(WorkspaceError::Cas(CasError::Distant { .. })) => {
                let why = "the store of the files did not answer; if the tool ran, what it left in the workspace is kept with the next change";
                CallError::new(CallErrorCode::Unavailable, why)
            }
            Self::Store(StoreError::Unavailable(_))
            | Self::Workspace(WorkspaceError::Store(StoreError::Unavailable(_))) => {
                let why = "the database did not answer; if the tool ran, what came of it was not kept";
                CallError::new(CallErrorCode::Unavailable, why)
            }
            Self::Store(StoreError::LeaseLost) | Self::Workspace(WorkspaceError::Store(StoreError::LeaseLost)) => {
                CallError::new(CallErrorCode::Interrupted, WorkspaceError::Lost.to_string())
            }
            _ => CallError::new(CallErrorCode::Internal, "something went wrong around the tool; the log has the cause"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::Queue;
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_end_and_is_told() {
        let panicking = async {
            tokio::task::yield_now().await;
            panic!("a defect of {}", "ours")
        };
        let ended = unless_it_panics(pin!(panicking)).await.expect_err("it panicked");
        assert_eq!(ended.to_string(), "panic: a defect of ours");
        assert_eq!(ended.told().code, CallErrorCode::Internal);
        assert!(unless_it_panics(pin!(async { Ok(()) })).await.is_ok());
    }

    #[tokio::test]
    async fn a_place_that_is_let_go_of_is_nobodys_and_whoever_waits_for_its_call_hears_it() {
        let (queue, lives) = (Queue::new(1, 1), Arc::new(Lives::default()));
        let (org, chat, id) = (OrgId::local(), ChatId::generate(), ToolCallId::generate());
        let take = || {
            let ticket = queue.enter(&org, chat, true, None).ok()?;
            let live = lives.add(&org, chat, id, "zoo", None).ok()?;
            Some(Place { live, ticket: Some(ticket), lives: Arc::clone(&lives) })
        };
        let place = take().expect("there is room");
        assert!(take().is_none(), "there is room for one");
        let known = lives.find(&org, chat, id).expect("it is known");
        // Whatever went wrong before it was started.
        drop(place);
        assert!(lives.find(&org, chat, id).is_none());
        known.over().await;
        assert!(take().is_some(), "its room is free");
    }
}
