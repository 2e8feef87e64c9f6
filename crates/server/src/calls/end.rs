//! Calls that are ended before their time: by a person, with their chat or toolset, or with the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kitbag_model::{Action, CallError, CallErrorCode, CallStatus, ChatId, OrgId, ToolCall, ToolCallId};
use kitbag_store::{StoreError, WriteTx};
use serde_json::json;

use super::live::Live;
use super::{Asked, Calls};
use crate::api::error::{ApiError, Code};
use crate::nodes::{CANCEL, Line, NodeAnswer};

/// So long a call may take to be over after it was asked to end. A worker kills what does not go by itself long before.
const PATIENCE: Duration = Duration::from_secs(20);

impl Calls {
    /// Takes a call back, whether it waits or runs, at whichever node. One that is over stays what it is.
    pub(crate) async fn cancel(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        who: &str,
    ) -> Result<ToolCall, ApiError> {
        match self.0.store.read(org).await?.call_node(chat, id).await? {
            Some(node) if self.0.lives.find(org, chat, id).is_none() && self.0.nodes.can_ask(&node) => {
                let what = (org, chat, id);
                let answer = self.0.nodes.ask(&self.0.servers, &node, CANCEL, what, &[("who", who)]).await;
                // It runs there, and nobody here can end it. It is worth another try, which a call that nobody can end is not.
                if matches!(answer, NodeAnswer::Refused | NodeAnswer::Unknown)
                    && self.find(org, chat, id).await?.is_some_and(|call| call.status == CallStatus::Running)
                {
                    let message = "the server that runs the call cannot be asked to end it just now; try again";
                    return Err(ApiError::new(Code::Unavailable, message));
                }
            }
            _ => {}
        }
        self.cancel_here(org, chat, id, by_somebody(), Some(who)).await
    }

    /// The same for one that waits, or runs here, and for whatever reason. What somebody does is in the audit.
    pub(crate) async fn cancel_here(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        why: CallError,
        who: Option<&str>,
    ) -> Result<ToolCall, ApiError> {
        let not_found = || ApiError::not_found("tool call", &id.to_string());
        let call = self.find(org, chat, id).await?.ok_or_else(not_found)?;
        match call.status {
            CallStatus::Pending => {
                let mut tx = self.0.store.write(org).await?;
                let ended = tx.end_call(chat, id, CallStatus::Pending, &why).await?;
                if let Some(ended) = ended {
                    note(&mut tx, who, chat, id).await?;
                    tx.commit().await?;
                    self.tell(org, &ended);
                    return Ok(ended);
                }
                drop(tx);
                // It was decided just now.
                Box::pin(self.cancel_here(org, chat, id, why, who)).await
            }
            CallStatus::Running => match self.0.lives.find(org, chat, id) {
                Some(live) => {
                    live.end(why);
                    let mut tx = self.0.store.write(org).await?;
                    note(&mut tx, who, chat, id).await?;
                    tx.commit().await?;
                    let asked = Asked::new(Arc::new(call), Some(live));
                    self.wait(org, asked).await.map(Arc::unwrap_or_clone)
                }
                // It may be over since we looked.
                None => match self.again(org, &call).await? {
                    call if call.status == CallStatus::Running => {
                        Err(ApiError::new(Code::Conflict, "the call runs on another server; cancel it there"))
                    }
                    call => Ok(call),
                },
            },
            CallStatus::Success | CallStatus::Error => Ok(call),
        }
    }

    /// Ends the calls of a toolset that was changed or removed, and its workers.
    pub(crate) async fn end_toolset(&self, org: &OrgId, toolset: &str, what: &str) {
        let line = || Line::ToolsetEnded { toolset: toolset.to_owned(), what: what.to_owned() };
        self.0.events.tell_others(org, line);
        self.end_toolset_here(org, toolset, what).await;
    }

    /// The same for what runs at this node.
    pub(crate) async fn end_toolset_here(&self, org: &OrgId, toolset: &str, what: &str) {
        let why = CallError::new(CallErrorCode::Interrupted, format!("the toolset {toolset} was {what} while it ran"));
        let lives = self.0.lives.all(|live| live.key.0 == *org && live.toolset == toolset);
        lives.iter().for_each(|live| live.end(why.clone()));
        self.0.workers.end_toolset(org, toolset).await;
        all_over(&lives).await;
        self.0.containers.end_toolset(org, toolset).await;
        self.0.toolsets.keep_environments().await;
    }

    /// Ends everything of a chat that is about to go.
    pub(crate) async fn end_chat(&self, org: &OrgId, chat: ChatId) {
        let why = CallError::new(CallErrorCode::Cancelled, "the chat was deleted");
        let lives = self.0.lives.all(|live| live.key.0 == *org && live.key.1 == chat);
        lives.iter().for_each(|live| live.end(why.clone()));
        all_over(&lives).await;
        self.0.workers.end_chat(org, chat).await;
        self.0.containers.end_chat(org, chat).await;
    }

    /// From now on no call begins.
    pub(crate) fn close(&self) {
        self.0.lives.close();
    }

    /// Waits until no call runs any more.
    pub(crate) async fn idle(&self) {
        for live in self.0.lives.all(|_| true) {
            live.over().await;
        }
    }

    /// Ends all calls and all workers, because the server does.
    pub(crate) async fn shut_down(&self) {
        self.interrupt().await;
        tokio::join!(self.0.workers.shut_down(), self.0.containers.shut_down());
    }

    /// Ends all calls, because the server ends, and waits for them once.
    pub(crate) async fn interrupt(&self) {
        self.close();
        // None begins any more. Those that did not end by then, since their ends cannot be recorded, do not end by waiting for them again.
        if self.0.interrupted.load(Ordering::SeqCst) {
            return;
        }
        self.end_all(&CallError::new(CallErrorCode::Interrupted, "the server stopped while it ran")).await;
        self.0.interrupted.store(true, Ordering::SeqCst);
    }

    /// Ends all calls.
    pub(crate) async fn end_all(&self, why: &CallError) {
        let lives = self.0.lives.all(|_| true);
        lives.iter().for_each(|live| live.end(why.clone()));
        all_over(&lives).await;
    }

    /// Tells whoever listens what still runs of a chat's calls.
    pub(crate) async fn tell_processes(&self, org: &OrgId, chat: ChatId) {
        let processes = self.0.workers.processes(org, chat).await;
        let shown: Vec<_> = processes.into_iter().map(crate::api::processes::ProcessView::from).collect();
        let data = json!({ "chatId": chat, "processes": shown });
        self.0.events.publish(org, Some(chat), "process", data);
    }
}

/// Why a call ends that somebody does not want any more.
pub(crate) fn by_somebody() -> CallError {
    CallError::new(CallErrorCode::Cancelled, "somebody cancelled this call")
}

async fn note(tx: &mut WriteTx, who: Option<&str>, chat: ChatId, id: ToolCallId) -> Result<(), StoreError> {
    match who {
        Some(who) => tx.audit(who, Action::ToolCallCancelled, &id.to_string(), &json!({ "chatId": chat })).await,
        None => Ok(()),
    }
}

async fn all_over(lives: &[Arc<Live>]) {
    let over = async {
        for live in lives {
            live.over().await;
        }
    };
    if tokio::time::timeout(PATIENCE, over).await.is_err() {
        tracing::error!("some calls do not end");
    }
}
