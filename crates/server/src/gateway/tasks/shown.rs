//! A call as a task: what `tasks/get` tells of its record and of what is open.

use kitbag_mcp::serve::{Client, Fault, code};
use kitbag_model::{CallErrorCode, CallStatus, ToolCall, ToolId};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::{CONFIRM, name};
use crate::calls::Answered;
use crate::gateway::confirm::question;
use crate::gateway::tools::internal;
use crate::gateway::upstream::rename_links;
use crate::gateway::view::View;

/// How often a client should ask, in milliseconds. Reading a record is cheap, and who waits for a call wants to know.
const POLL: u64 = 500;

impl View {
    /// What every answer about a task has.
    pub(super) fn outline(&self, call: &ToolCall, kind: &str, client: &Client) -> Map<String, Value> {
        let task = self.app.gateway().tasks.find(call.id);
        let asked = match call.status {
            CallStatus::Pending => client.can("elicitation/create"),
            CallStatus::Running => {
                task.as_ref().is_some_and(|task| !task.questions.open(|method| client.can(method)).is_empty())
            }
            _ => false,
        };
        let decided = call.decision.as_ref().map(|decision| decision.at);
        let changed = task.map(|task| task.questions.changed());
        let updated = [Some(call.started_at), decided, changed].into_iter().flatten().max();
        let mut outline = Map::new();
        let mut set = |name: &str, value: Value| drop(outline.insert(name.to_owned(), value));
        set("resultType", kind.into());
        set("taskId", name(call).into());
        set("status", status(call, asked).into());
        set("createdAt", json!(call.started_at));
        set("lastUpdatedAt", json!(call.finished_at.or(updated)));
        // Records are kept for as long as their chat.
        set("ttlMs", Value::Null);
        set("pollIntervalMs", POLL.into());
        if call.status == CallStatus::Pending {
            set("statusMessage", self.waits(call).into());
        }
        outline
    }

    /// `tasks/get`.
    pub(super) async fn shown(&self, call: &ToolCall, client: &Client) -> Result<Box<RawValue>, Fault> {
        let task = self.app.gateway().tasks.find(call.id);
        if let (Some(task), Some(_)) = (task, call.finished_at) {
            task.over().await;
        }
        let mut shown = self.outline(call, "complete", client);
        let status = shown.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
        match status.as_str() {
            "input_required" => {
                drop(shown.insert("inputRequests".to_owned(), Value::Object(self.asked_of(call, client))))
            }
            "completed" => {
                let result = self.result(call).await?;
                let result: Value = serde_json::from_str(result.get()).map_err(|error| internal(&error))?;
                shown.insert("result".to_owned(), result);
            }
            "failed" => drop(shown.insert("error".to_owned(), self.failure(call))),
            _ => {}
        }
        if let Some(Answered::Refused { .. }) = self.refused(call) {
            shown.insert("status".to_owned(), "failed".into());
            shown.remove("result");
            shown.insert("error".to_owned(), self.failure(call));
        }
        to_raw_value(&shown).map_err(|error| internal(&error))
    }

    /// What the client is asked.
    fn asked_of(&self, call: &ToolCall, client: &Client) -> Map<String, Value> {
        if call.status == CallStatus::Pending {
            let asked = question(&call.tool_id.to_string(), &call.args, &self.where_to_approve(call));
            let confirm = json!({ "method": "elicitation/create", "params": asked });
            return Map::from_iter([(CONFIRM.to_owned(), confirm)]);
        }
        let task = self.app.gateway().tasks.find(call.id);
        task.map(|task| task.questions.open(|method| client.can(method))).unwrap_or_default()
    }

    fn refused(&self, call: &ToolCall) -> Option<Answered> {
        self.app.gateway().tasks.find(call.id)?.refused.get().cloned()
    }

    /// What the call would have been answered with.
    async fn result(&self, call: &ToolCall) -> Result<Box<RawValue>, Fault> {
        let raw = match self.refused(call) {
            Some(Answered::Result(raw)) => RawValue::to_owned(&raw),
            _ => self.ended(call).await?,
        };
        self.links(raw, &call.tool_id).await
    }

    /// A result with its links in the names of this place.
    pub(super) async fn links(&self, raw: Box<RawValue>, tool: &ToolId) -> Result<Box<RawValue>, Fault> {
        let menu = self.menu().await?;
        Ok(if menu.plain { raw } else { rename_links(raw, tool) })
    }

    /// What a client gets as an error of the protocol.
    fn failure(&self, call: &ToolCall) -> Value {
        if let Some(Answered::Refused { code, message, data }) = self.refused(call) {
            return match data {
                Some(data) => json!({ "code": code, "message": message, "data": data }),
                None => json!({ "code": code, "message": message }),
            };
        }
        let Some(error) = &call.outcome.error else { return Value::Null };
        json!({ "code": code::INTERNAL, "message": error.message, "data": { "code": error.code.as_str() } })
    }
}

/// How a task is whose call is like this. What a tool says of its own failure is a result; what went wrong around it is not.
fn status(call: &ToolCall, asked: bool) -> &'static str {
    match (call.status, &call.outcome.error) {
        (CallStatus::Pending | CallStatus::Running, _) if asked => "input_required",
        (CallStatus::Pending | CallStatus::Running, _) => "working",
        (_, None) => "completed",
        (_, Some(error)) => match error.code {
            CallErrorCode::Cancelled => "cancelled",
            CallErrorCode::Interrupted | CallErrorCode::Internal => "failed",
            _ => "completed",
        },
    }
}
