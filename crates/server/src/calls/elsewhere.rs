//! A call whose chat another node holds: it was asked for and recorded here, runs there, and whoever waits for it waits here.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::{Audience, CallError, CallErrorCode, CallStatus, ChatId, OrgId, ToolCall, ToolCallId};
use kitbag_python::Event;
use kitbag_store::StoreError;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Calls;
use super::behind::Record;
use super::end::by_somebody;
use super::live::Live;
use super::run::RunError;
use crate::api::error::{ApiError, Code};
use crate::nodes::{CANCEL, Handed, NodeAnswer, RUN};
use crate::rules::Quota;
use crate::workspaces::WorkspaceError;

/// How long is waited before a call that somebody may have ended is looked at again.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// So often a record that cannot be read is read again, and after how long.
const MOST_UNREAD: u32 = 20;
const UNREAD: Duration = Duration::from_secs(1);

impl Calls {
    /// A call, and the node that has taken it.
    async fn record_and_node(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
    ) -> Result<(Option<ToolCall>, Option<String>), StoreError> {
        let mut tx = self.0.store.read(org).await?;
        Ok((tx.tool_call(chat, id).await?, tx.call_node(chat, id).await?))
    }

    /// A quota of what may run at the same time, with what of it others have, once this node may begin something. What was handed over from here has a place here until it is over, so what its
    /// record says does not count again.
    pub(super) async fn with_others(&self, org: &OrgId, quota: Option<Quota>) -> Result<Option<Quota>, StoreError> {
        if self.0.nodes.is_coming_back() {
            // Boxed, as it is of few calls.
            Box::pin(self.0.nodes.until_back()).await;
        }
        // Every call comes here, and most have no quota, or nobody to share it with.
        if quota.is_none() || !self.0.nodes.has_peers() {
            return Ok(quota);
        }
        let handed = self.0.lives.all(|live| live.is_handed_over() && live.key.0 == *org);
        let counted: Vec<String> = handed.iter().map(|live| live.key.2.to_string()).collect();
        self.0.nodes.with_others(org, quota, &counted).await
    }

    /// Has a call run at the node that holds its chat. Whether it did; if not, somebody else may hold the chat by now.
    pub(super) async fn run_elsewhere(&self, live: &Live, node: &str) -> Result<bool, RunError> {
        let (org, chat, id) = &live.key;
        live.hands_over();
        let (mut node, mut passed, mut alone, mut unread) = (node.to_owned(), Passed::default(), None, 0);
        loop {
            if let NodeAnswer::Failed(failed) = self.hand_over(live, &node, &mut passed).await {
                return Err(RunError::NotTaken(failed));
            }
            // Only the record knows, also if the answer was lost. While it cannot be read nobody knows, and a guess would be told as the end.
            let (call, at) = loop {
                match self.record_and_node(org, *chat, *id).await {
                    Ok(known) => break known,
                    Err(error) if unread == MOST_UNREAD => return Err(error.into()),
                    Err(_) => unread += 1,
                }
                sleep(UNREAD).await;
            };
            match (call, at) {
                (None, _) => return Err(WorkspaceError::NoChat.into()),
                (Some(call), _) if call.status != CallStatus::Running => {
                    live.ended(Arc::new(call));
                    return Ok(true);
                }
                // Nobody has taken it.
                (Some(_), Some(at)) if *at == *self.0.nodes.id() => return Ok(false),
                // It runs there for as long as that node lives: who asks for it again waits with whoever asked before.
                (Some(_), Some(at)) if self.0.nodes.peer(&at).is_some() => (node, alone) = (at, None),
                // That node is dead: somebody says so, and how the call ended.
                (Some(_), _) => {
                    let since = *alone.get_or_insert_with(Instant::now);
                    if since.elapsed() > self.0.nodes.patience() {
                        return Err(WorkspaceError::Lost.into());
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks a node to run a call and waits until it did, passing on what is heard of it here, and there that it is to end.
    async fn hand_over(&self, live: &Live, node: &str, passed: &mut Passed) -> NodeAnswer {
        let (org, chat, id) = &live.key;
        let asking = self.0.nodes.ask(&self.0.servers, node, RUN, (org, *chat, *id), &[]);
        tokio::pin!(asking);
        let mut events = self.0.events.listen();
        loop {
            tokio::select! {
                answer = &mut asking => return answer,
                () = live.stopped(), if !passed.stopped => {
                    // Whoever wanted it is in the audit of this node, if that was anybody.
                    let why = live.why().unwrap_or_else(by_somebody);
                    let more = [("code", why.code.as_str()), ("why", &why.message)];
                    let told = self.0.nodes.ask(&self.0.servers, node, CANCEL, (org, *chat, *id), &more).await;
                    passed.stopped = matches!(told, NodeAnswer::Done(_));
                    if !passed.stopped {
                        // It may not be there yet.
                        sleep(PAUSE).await;
                    }
                }
                event = events.recv() => {
                    if let (Ok(event), Some(company)) = (event, &live.company)
                        && event.name == "tool_call_progress"
                        && event.data.get("callId").and_then(Value::as_str) == Some(&id.to_string())
                    {
                        passed.steps += 1;
                        let fraction = event.data.get("fraction").and_then(Value::as_f64);
                        let message = event.data.get("message").and_then(Value::as_str).map(ToOwned::to_owned);
                        company.heard(&Event::Progress { fraction, message }, passed.steps);
                    }
                }
            }
        }
    }

    /// Runs a call that another node recorded, to its end.
    pub(crate) async fn run_for(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        from: &str,
    ) -> Result<Handed, ApiError> {
        let not_found = || ApiError::not_found("tool call", &id.to_string());
        let mut tx = self.0.store.read(org).await?;
        let call = tx.tool_call(chat, id).await?.ok_or_else(not_found)?;
        let at = tx.call_node(chat, id).await?;
        drop(tx);
        if call.status != CallStatus::Running {
            return Ok(Handed::Looked);
        }
        // It was asked for before, and the answer was lost.
        if let Some(live) = self.0.lives.find(org, chat, id) {
            over_or_late(&live).await;
            return Ok(Handed::Looked);
        }
        let me = self.0.nodes.id();
        if at.as_ref().is_some_and(|at| **at == *me) {
            // Its end could not be recorded: it is known here from before its record says that it is here until it is over.
            let why = CallError::new(CallErrorCode::Interrupted, WorkspaceError::Lost.to_string());
            self.end_unrun(org, chat, id, &why).await.map_err(|error| ApiError::internal(&error))?;
            return Ok(Handed::Looked);
        }
        // Whether its maker may see the tool was looked at where it was asked for.
        let callable = self.0.toolsets.callable(org, Audience::Everything, &call.tool_id).await?;
        if call.generation.as_ref() != Some(&callable.generation) {
            return Err(ApiError::new(Code::Conflict, "the tool was changed since this call was asked for"));
        }
        if let Err(error) = self.0.nodes.hold(org, chat).await {
            return Ok(Handed::Elsewhere(ApiError::new(Code::Conflict, error.to_string())));
        }
        let most = self.0.rules.of(org).await?.concurrent_calls();
        let place = match self.take_place(org, chat, id, &callable, None, most.as_ref()) {
            // This server stops, or the same was asked for at the same moment.
            Err(error) if matches!(error.code(), Code::Unavailable | Code::Conflict) => {
                return Ok(Handed::Elsewhere(error));
            }
            place => place?,
        };
        match self.take(org, chat, id, (from, &me)).await {
            Ok(true) => {}
            Ok(false) | Err(StoreError::LeaseLost) => return Ok(Handed::Looked),
            Err(error) => return Err(error.into()),
        }
        let live = place.live();
        self.start(place, Arc::new(call), callable, Record::Now).detach();
        over_or_late(&live).await;
        Ok(Handed::Looked)
    }

    /// Writes down that a call runs here, unless somebody else has it by now. Whether it does.
    async fn take(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        (from, me): (&str, &str),
    ) -> Result<bool, StoreError> {
        let mut tx = self.0.store.write(org).await?;
        let is_ours = tx.take_call(chat, id, from, me).await?;
        if is_ours {
            tx.commit_chat().await.inspect_err(|_| self.doubt(org, chat, id))?;
        }
        Ok(is_ours)
    }
}

/// Whoever asks looks at the record, and waits for that if it has to.
async fn over_or_late(live: &Live) {
    tokio::select! {
        () = live.over() => {}
        () = live.late() => {}
    }
}

/// What was passed on of a call already.
#[derive(Default)]
struct Passed {
    stopped: bool,
    steps: u64,
}
