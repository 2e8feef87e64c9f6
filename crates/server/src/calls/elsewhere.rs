//! A call whose chat another node holds: it was asked for and recorded here, runs there, and whoever waits for it waits here.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::{Audience, CallStatus, ChatId, OrgId, ToolCallId};
use kitbag_python::Event;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Calls;
use super::behind::Record;
use super::live::Live;
use super::run::RunError;
use crate::api::error::{ApiError, Code};
use crate::nodes::{CANCEL, NodeAnswer, RUN};
use crate::workspaces::WorkspaceError;

/// How long is waited before a call that somebody may have ended is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

impl Calls {
    /// Has a call run at the node that holds its chat. Whether it did; if not, somebody else may hold the chat by now.
    pub(super) async fn run_elsewhere(&self, live: &Live, node: &str) -> Result<bool, RunError> {
        let (org, chat, id) = &live.key;
        let asking = self.0.nodes.ask(&self.0.servers, node, RUN, (org, *chat, *id), None);
        tokio::pin!(asking);
        let mut events = self.0.events.listen();
        let (mut step, mut stopped) = (0, false);
        let answer = loop {
            tokio::select! {
                answer = &mut asking => break answer,
                () = live.stopped(), if !stopped => {
                    stopped = true;
                    let why = live.why().map(|why| why.message).unwrap_or_default();
                    self.0.nodes.ask(&self.0.servers, node, CANCEL, (org, *chat, *id), Some(&why)).await;
                }
                event = events.recv() => {
                    if let (Ok(event), Some(company)) = (event, &live.company)
                        && event.name == "tool_call_progress"
                        && event.data.get("callId").and_then(Value::as_str) == Some(&id.to_string())
                    {
                        step += 1;
                        let fraction = event.data.get("fraction").and_then(Value::as_f64);
                        let message = event.data.get("message").and_then(Value::as_str).map(ToOwned::to_owned);
                        company.heard(&Event::Progress { fraction, message }, step);
                    }
                }
            }
        };
        if answer == NodeAnswer::Refused {
            return Ok(false);
        }
        // If that node is dead, somebody says so, and how the call ended.
        let until = Instant::now() + self.0.nodes.patience();
        loop {
            let call = self.0.store.read(org).await?.tool_call(*chat, *id).await?;
            match call {
                None => return Err(WorkspaceError::NoChat.into()),
                Some(call) if call.status != CallStatus::Running => {
                    live.ended(Arc::new(call));
                    return Ok(true);
                }
                Some(_) if Instant::now() > until => return Err(WorkspaceError::Lost.into()),
                Some(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Runs a call that another node recorded, to its end.
    pub(crate) async fn run_for(&self, org: &OrgId, chat: ChatId, id: ToolCallId, from: &str) -> Result<(), ApiError> {
        let not_found = || ApiError::not_found("tool call", &id.to_string());
        let call = self.0.store.read(org).await?.tool_call(chat, id).await?.ok_or_else(not_found)?;
        if call.status != CallStatus::Running {
            return Ok(());
        }
        // Whether its maker may see the tool was looked at where it was asked for.
        let callable = self.0.toolsets.callable(org, Audience::Everything, &call.tool_id).await?;
        if call.generation.as_ref() != Some(&callable.generation) {
            return Err(ApiError::new(Code::Conflict, "the tool was changed since this call was asked for"));
        }
        if let Err(error) = self.0.nodes.hold(org, chat).await {
            return Err(ApiError::new(Code::Conflict, error.to_string()));
        }
        let most = self.0.rules.of(org).await?.concurrent_calls();
        let place = self.take_place(org, chat, id, &callable, None, most.as_ref())?;
        let mut tx = self.0.store.write(org).await?;
        let taken = tx.take_call(chat, id, from, &self.0.nodes.id()).await;
        let taken = match taken {
            Ok(true) => tx.commit_chat().await.map(|()| true),
            other => other,
        };
        match taken {
            Ok(true) => {}
            other => {
                self.give_back(place);
                other?;
                return Err(ApiError::new(Code::Conflict, "the call is not that node's any more"));
            }
        }
        let live = place.live();
        self.start(place, Arc::new(call), callable, Record::Now).detach();
        live.over().await;
        Ok(())
    }
}
