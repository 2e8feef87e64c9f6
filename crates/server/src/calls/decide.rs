//! A yes or a no to a call that waits for one. It is for the exact call and arguments that were shown, and it is said once.

use std::sync::Arc;

use kitbag_model::{
    Action, Audience, CallError, CallErrorCode, CallStatus, ChatId, ContentHash, Decision, OrgId, Timestamp, ToolCall,
    ToolCallId, args_digest,
};
use serde_json::{Map, Value, json};

use super::behind::Record;
use super::{Asked, Calls};
use crate::api::error::{ApiError, Code};

/// What somebody says about a call.
pub(crate) struct Verdict {
    pub(crate) approve: bool,
    /// What to call it with instead.
    pub(crate) args: Option<Map<String, Value>>,
    /// What was looked at.
    pub(crate) digest: Option<ContentHash>,
    pub(crate) who: String,
    /// Whose eyes looked at it.
    pub(crate) audience: Audience,
}

impl Calls {
    /// Decides about a call. It runs from then on, or is over.
    pub(crate) async fn decide(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        verdict: Verdict,
    ) -> Result<Asked, ApiError> {
        let found = self.find(org, chat, id).await?;
        let call = found.ok_or_else(|| ApiError::not_found("tool call", &id.to_string()))?;
        if let Some(refusal) = decided(&call) {
            return Err(refusal);
        }
        if verdict.digest.is_some_and(|seen| seen != call.args_sha256) {
            let message = "the call is not the one that was looked at: its argsDigest is another; look at it again";
            return Err(ApiError::new(Code::Conflict, message));
        }
        match verdict.approve {
            true => self.approve(org, call, verdict).await,
            false => self.deny(org, call, verdict).await.map(Asked::from),
        }
    }

    async fn deny(&self, org: &OrgId, call: ToolCall, verdict: Verdict) -> Result<ToolCall, ApiError> {
        let decision = Decision { approved: false, by: verdict.who, at: Timestamp::now() };
        let error = CallError::new(CallErrorCode::Denied, "somebody said no to this call");
        let mut tx = self.0.store.write(org).await?;
        let denied = tx.deny_call(call.chat_id, call.id, &decision, &error).await?;
        let Some(denied) = denied else {
            drop(tx);
            return Err(self.too_late(org, call).await);
        };
        tx.audit(&decision.by, Action::ToolCallDenied, &denied.id.to_string(), &details(&denied)).await?;
        tx.commit().await?;
        self.tell(org, &denied);
        Ok(denied)
    }

    async fn approve(&self, org: &OrgId, call: ToolCall, verdict: Verdict) -> Result<Asked, ApiError> {
        let callable = self.0.toolsets.callable(org, verdict.audience, &call.tool_id).await?;
        if call.generation.as_ref() != Some(&callable.generation) {
            let message =
                format!("the tool {} was changed since this call was asked for; ask for it again", call.tool_id);
            return Err(ApiError::new(Code::Conflict, message));
        }
        let edited = verdict.args.filter(|args| *args != call.args);
        self.check(&callable, edited.as_ref().unwrap_or(&call.args)).await?;
        let company = self.companies().get(&call.id).cloned();
        let company = match edited {
            Some(_) => company.map(|company| Arc::new(company.with_other_arguments())),
            None => company,
        };
        let most = self.with_others(org, self.0.rules.of(org).await?.concurrent_calls()).await?;
        let place = self.take_place(org, call.chat_id, call.id, &callable, company, most.as_ref())?;
        let decision = Decision { approved: true, by: verdict.who, at: Timestamp::now() };
        match self.record_approval(org, &call, &decision, edited.as_ref()).await {
            Ok(Some(approved)) => {
                self.tell(org, &approved);
                let (call, live) = (Arc::new(approved), Some(place.live()));
                self.start(place, Arc::clone(&call), callable, Record::Now).detach();
                Ok(Asked::new(call, live))
            }
            Ok(None) => {
                // Before it is waited for anything.
                drop(place);
                Err(self.too_late(org, call).await)
            }
            Err(error) => Err(error),
        }
    }

    async fn record_approval(
        &self,
        org: &OrgId,
        call: &ToolCall,
        decision: &Decision,
        edited: Option<&Map<String, Value>>,
    ) -> Result<Option<ToolCall>, ApiError> {
        let mut tx = self.0.store.write(org).await?;
        if !tx.is_on_active_line(call.chat_id, call.message_id).await? {
            let message = "the chat stands at another branch now, which has another workspace; go back to the call's \
                           message first (active-leaf)";
            return Err(ApiError::new(Code::Conflict, message));
        }
        let edited = edited.map(|args| (args, args_digest(&call.tool_id, args)));
        let approved = tx.approve_call(call.chat_id, call.id, decision, edited, &self.0.nodes.id()).await?;
        let Some(approved) = approved else { return Ok(None) };
        let mut details = details(&approved);
        if edited.is_some() {
            // What was asked for is nowhere else any more.
            details["argsAskedFor"] = Value::Object(call.args.clone());
            details["args"] = Value::Object(approved.args.clone());
        }
        tx.audit(&decision.by, Action::ToolCallApproved, &approved.id.to_string(), &details).await?;
        tx.commit().await.inspect_err(|_| self.doubt(org, approved.chat_id, approved.id))?;
        Ok(Some(approved))
    }

    /// Somebody else was quicker, or nobody was quick enough.
    async fn too_late(&self, org: &OrgId, call: ToolCall) -> ApiError {
        match self.again(org, &call).await {
            Ok(call) => decided(&call)
                .unwrap_or_else(|| ApiError::new(Code::Conflict, "somebody else decides about this call just now")),
            Err(error) => error,
        }
    }
}

fn details(call: &ToolCall) -> Value {
    json!({
        "toolId": call.tool_id, "chatId": call.chat_id, "argsSha256": call.args_sha256, "generation": call.generation,
        "askedBy": call.asked_by,
    })
}

/// Why nobody can decide about a call any more.
fn decided(call: &ToolCall) -> Option<ApiError> {
    let refuse = |message: String| {
        let details = json!({ "status": call.status, "error": call.outcome.error });
        Some(ApiError::new(Code::Conflict, message).with_details(details))
    };
    match (&call.decision, call.status, call.expires_at) {
        (Some(decision), ..) => {
            let what = if decision.approved { "approved" } else { "denied" };
            refuse(format!("the call was {what} already, at {}", decision.at))
        }
        (None, CallStatus::Pending, _) => None,
        (None, CallStatus::Error, Some(_)) => {
            let error = call.outcome.error.as_ref().map_or("", |error| error.message.as_str());
            refuse(format!("the call is over: {error}"))
        }
        (None, ..) => refuse("the call needs no decision".to_owned()),
    }
}
