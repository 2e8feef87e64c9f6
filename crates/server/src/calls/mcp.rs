//! A call of an MCP server's tool. It has no workspace: it waits for nobody's turn, leaves no state, and many run at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kitbag_mcp::connection::Call;
use kitbag_model::{CallError, CallErrorCode, CallOutcome, McpToolName, ServerKey, ToolCall};
use kitbag_python::Event;
use kitbag_runner::Ran;
use kitbag_store::FinishError;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;

use super::behind::Record;
use super::company::Answered;
use super::live::Live;
use super::plan::BlobsOf;
use super::run::RunError;
use super::{Calls, hear};
use crate::toolsets::{Callable, Tool};
use crate::workspaces::WorkspaceError;

impl Calls {
    pub(super) async fn run_mcp(
        &self,
        live: &Live,
        call: Arc<ToolCall>,
        callable: &Callable,
        record: Record,
        (server, tool): (&ServerKey, &McpToolName),
    ) -> Result<(), RunError> {
        let ran = self.ask_server(live, &call, callable, (server, tool)).await;
        let mut outcome = self.judged(live, &call, callable, ran).await?;
        let call = match record {
            // Boxed, as it is of few calls.
            Record::Now => Arc::new(Box::pin(self.record_answer(live, outcome)).await?),
            Record::Behind(stand, node) => {
                if !self.0.nodes.is_surely(&node)
                    && let Some(why) = Box::pin(self.lost_meanwhile(live, &node)).await
                {
                    live.take_answer_back();
                    outcome = CallOutcome { error: Some(why), ..CallOutcome::default() };
                }
                self.record_behind(live, call, stand, outcome).await
            }
        };
        self.announce(live, call, false);
        Ok(())
    }

    /// Why an answer does not count that came when somebody else may have said that this node is dead: whoever did has said how its calls
    /// ended. Nobody is told another end. Nothing if nobody did.
    async fn lost_meanwhile(&self, live: &Live, node: &str) -> Option<CallError> {
        let sure = async { (!self.0.nodes.is_alive_yet(node).await).then(|| WorkspaceError::Lost.to_string()) };
        let mut sure = pin!(sure);
        let lost = tokio::select! {
            lost = &mut sure => lost,
            // It is ended, as all are when it is known that this node was taken for dead.
            () = live.stopped() => Some(WorkspaceError::Lost.to_string()),
            () = sleep(self.0.nodes.patience()) => {
                live.is_late();
                tokio::select! {
                    lost = sure => lost,
                    () = live.stopped() => Some(WorkspaceError::Lost.to_string()),
                }
            }
        };
        lost.map(|lost| live.why().unwrap_or_else(|| CallError::new(CallErrorCode::Interrupted, lost)))
    }

    async fn ask_server(
        &self,
        live: &Live,
        call: &ToolCall,
        callable: &Callable,
        (server, tool): (&ServerKey, &McpToolName),
    ) -> Ran {
        let (told, progress) = unbounded_channel();
        let mut made = Call::of_tool(tool.as_str(), &call.args, self.0.settings.tool_timeout, live.stop());
        made.progress = Some(told);
        made.as_task = is_task(&callable.tool);
        if let Some(company) = &live.company {
            company.params.iter().for_each(|(name, value)| made.params.set(name, value.to_owned()));
            made.beside = Some(Arc::clone(&company.answers));
            made.relay = company.relay;
        }
        let org = &live.key.0;
        let answered = |answer: &_| {
            if let (Some(_), Some(answer)) = (&live.company, Answered::of(answer)) {
                live.was_answered(answer);
            }
        };
        let running = pin!(kitbag_runner::run_mcp(self.0.servers.manager(org), org, server, made, answered));
        let mut ran = self.hearing(live, progress, running).await;
        if let (Err(error), Some(why)) = (&mut ran.result, live.why())
            && error.code == CallErrorCode::Cancelled
        {
            *error = why;
        }
        ran
    }

    /// Waits for what comes of a call, and passes on what is heard of it meanwhile. Most say nothing.
    async fn hearing(
        &self,
        live: &Live,
        mut progress: UnboundedReceiver<Value>,
        mut running: Pin<&mut impl Future<Output = Ran>>,
    ) -> Ran {
        let mut passing = None;
        let mut pass_on = |params: Value| {
            if let Some(company) = &live.company {
                company.answers.told("notifications/progress", &params);
            }
            let sender = passing.get_or_insert_with(|| {
                let (sender, heard) = unbounded_channel();
                tokio::spawn(hear::pass_on(self.0.events.clone(), live.key.clone(), None, heard));
                sender
            });
            // Who does not listen any more misses nothing.
            let _ = sender.send(progress_of(&params));
        };
        let ran = poll_fn(|context| {
            loop {
                // Most calls end without having said anything. Who ends one lets go of the way to here, and need not wake itself by it.
                while let Poll::Ready(Some(said)) = progress.poll_recv(&mut Context::from_waker(Waker::noop())) {
                    pass_on(said);
                }
                if let ran @ Poll::Ready(_) = running.as_mut().poll(context) {
                    return ran;
                }
                match progress.poll_recv(context) {
                    Poll::Ready(Some(said)) => pass_on(said),
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        while let Ok(said) = progress.try_recv() {
            pass_on(said);
        }
        ran
    }

    /// What is kept of the answer.
    async fn judged(
        &self,
        live: &Live,
        call: &ToolCall,
        callable: &Callable,
        ran: Ran,
    ) -> Result<CallOutcome, RunError> {
        let (org, chat, _) = &live.key;
        let mut outcome = CallOutcome::default();
        match ran.result {
            Err(error) => outcome.error = Some(error),
            Ok(answer) => {
                outcome.warnings.extend(self.misfit(callable, &answer).await);
                let blobs = BlobsOf::Chat(&self.0.workspaces, org, *chat);
                if callable.tool.effective.rendering.value.is_some() {
                    let shown = kitbag_runner::returned(&answer);
                    Box::pin(self.plan(live, &blobs, call, callable, &shown, &mut outcome)).await?;
                }
                self.keep_result(live, &blobs, answer, &mut outcome).await?;
            }
        }
        Ok(outcome)
    }

    /// Whether the structured answer is what the server said that it would be. If it is not, it is kept and said.
    async fn misfit(&self, callable: &Callable, answer: &Value) -> Option<String> {
        let schema = callable.tool.output_schema.as_ref()?;
        // Questions and tasks are no results yet.
        if answer.get("resultType").is_some_and(|kind| kind != "complete") {
            return None;
        }
        let Some(structured) = answer.get("structuredContent") else {
            return Some("the server declares structured results, and this one is not".to_owned());
        };
        let error = self.fits_value(&callable.output, schema, structured).await.err()?;
        Some(format!("the structured result is not what the server declares: {error}"))
    }

    /// What the server did is done: an end that cannot be recorded just now is no error of its tool.
    async fn record_answer(&self, live: &Live, outcome: CallOutcome) -> Result<ToolCall, RunError> {
        self.until_recorded(live, || self.try_to_record(live, outcome.clone())).await
    }

    async fn try_to_record(&self, live: &Live, mut outcome: CallOutcome) -> Result<ToolCall, RunError> {
        let (org, chat, id) = &live.key;
        let mut tx = self.0.store.write(org).await?;
        let state = tx.chat(*chat).await?.ok_or(WorkspaceError::NoChat)?.active_manifest_id;
        (outcome.pre_manifest_id, outcome.post_manifest_id) = (state, state);
        let (call, _) = tx.finish_call(*chat, *id, &outcome, None).await.map_err(|error| match error {
            FinishError::NotRunning => RunError::Workspace(WorkspaceError::Conflict),
            FinishError::Keep(error) => RunError::Workspace(error.into()),
            FinishError::Store(error) => RunError::Store(error),
        })?;
        tx.commit_chat().await?;
        Ok(call)
    }
}

/// Whether a server's tool can be called as a task alone.
fn is_task(tool: &Tool) -> bool {
    let said = tool.definition.as_ref().and_then(|definition| definition.get("execution")?.get("taskSupport"));
    said.and_then(Value::as_str) == Some("required")
}

/// So much of it is told to those who listen to calls. Who made one gets all of it.
const LONGEST_PROGRESS: usize = 2000;

/// What a server says of its progress, as those know it who listen to calls.
pub(crate) fn progress_of(params: &Value) -> Event {
    let number = |name: &str| params.get(name).and_then(Value::as_f64);
    let fraction = match (number("progress"), number("total")) {
        (Some(done), Some(total)) if total > 0.0 => Some((done / total).clamp(0.0, 1.0)),
        _ => None,
    };
    let message = params.get("message").and_then(Value::as_str);
    let message = message.map(|message| message.chars().take(LONGEST_PROGRESS).collect());
    Event::Progress { fraction, message }
}
