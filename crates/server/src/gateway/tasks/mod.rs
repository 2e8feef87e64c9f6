//! Long calls as tasks (`io.modelcontextprotocol/tasks`): a client that offers them and whose call is not over soon gets the
//! name of a task, asks how it is, answers what is asked, and takes it back.
//!
//! A task is a recorded call, and its name leads to the record: what is over is told from there, after a restart too. Only what
//! a record does not have is kept in memory: the questions of servers that are open ([`questions`]). A task of a server behind
//! us is the call that it was the answer to, and what is asked of it is passed on.

pub(super) mod begin;
pub(super) mod questions;
mod shown;
mod watched;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kitbag_mcp::serve::{Client, Fault, code};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{CallStatus, ChatId, ServerKey, ToolCall, ToolCallId, ToolId};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::lists::nothing;
use super::tools::fault;
use super::view::View;
use crate::calls::{Answered, Verdict};
use questions::Questions;

/// The extension's name.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The name of the question whether a call may be made.
const CONFIRM: &str = "confirm";

/// The tasks of this server that are not over, and of some that are what their records do not have.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<ToolCallId, Arc<Task>>>);

struct Task {
    questions: Arc<Questions>,
    /// The server's own words, where it refused.
    refused: OnceLock<Answered>,
    /// Turns to true when all is known of how it ended.
    over: watch::Sender<bool>,
}

impl Task {
    fn new(questions: Arc<Questions>) -> Arc<Self> {
        Arc::new(Self { questions, refused: OnceLock::new(), over: watch::Sender::new(false) })
    }

    /// Waits until all is known of how it ended.
    async fn over(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

impl Tasks {
    fn table(&self) -> MutexGuard<'_, HashMap<ToolCallId, Arc<Task>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, call: ToolCallId) -> Option<Arc<Task>> {
        self.table().get(&call).cloned()
    }
}

/// Whether a client knows what to do with a task. Only where every request says so is it known for this one.
pub(super) fn offers(client: &Client) -> bool {
    let peer = client.peer();
    peer.stateless && peer.capabilities.get("extensions").is_some_and(|all| all.get(TASKS).is_some())
}

/// The client must know tasks for this.
fn needed(what: &str) -> Fault {
    let message = format!("{what} is for clients that offer the extension {TASKS}");
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    Fault::new(code::MISSING_CAPABILITY, message).with_data(data)
}

/// The name of the task that a call is.
fn name(call: &ToolCall) -> String {
    format!("{}.{}", call.chat_id, call.id)
}

/// The server that a call's task is at, and what it is called there, where the answer to the call was a task.
fn theirs(call: &ToolCall) -> Option<(&ServerKey, &str)> {
    let ToolId::Mcp { server, .. } = &call.tool_id else { return None };
    let result = call.outcome.result.as_ref()?;
    let is_task = result.get("resultType").and_then(Value::as_str) == Some("task");
    result.get("taskId").and_then(Value::as_str).filter(|_| is_task).map(|theirs| (server, theirs))
}

impl View {
    /// `tasks/get`, `tasks/update` and `tasks/cancel`.
    pub(super) async fn task(&self, method: &str, params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        if !offers(client) {
            return Err(needed(method));
        }
        let id = params.text("taskId").ok_or_else(|| Fault::params("`taskId` must be the name of a task"))?;
        let call = self.call_of(&id).await?;
        if let Some((server, theirs)) = theirs(&call) {
            return self.pass_on_task(method, params, client, &call, (server, theirs)).await;
        }
        match method {
            "tasks/get" => self.shown(&call, client).await,
            "tasks/update" => {
                let answers = params.parse("inputResponses");
                let answers = answers.ok_or_else(|| Fault::params("`inputResponses` must be an object of answers"))?;
                self.take_answers(call, answers, client).await
            }
            _ => {
                let (chat, id) = (call.chat_id, call.id);
                self.app.calls().cancel(&self.org, chat, id, &self.who).await.map_err(fault)?;
                Ok(nothing())
            }
        }
    }

    /// The call that a task is. One of somebody else is not there.
    async fn call_of(&self, id: &str) -> Result<ToolCall, Fault> {
        let unknown = || {
            let shown: String = id.chars().take(100).collect();
            Fault::params(format!("there is no task {shown:?}"))
        };
        let ids = id.split_once('.').and_then(|(chat, call)| Some((chat.parse().ok()?, call.parse().ok()?)));
        let (chat, call): (ChatId, ToolCallId) = ids.ok_or_else(unknown)?;
        let found = self.app.calls().find(&self.org, chat, call).await.map_err(fault)?;
        found.filter(|call| call.asked_by == self.who).ok_or_else(unknown)
    }

    /// What is asked of a task of a server is asked there.
    async fn pass_on_task(
        &self,
        method: &str,
        mut params: Shallow,
        client: &Client,
        call: &ToolCall,
        (server, theirs): (&ServerKey, &str),
    ) -> Result<Box<RawValue>, Fault> {
        params.set_value("taskId", &theirs.into());
        let raw = self.forward(server, method, params, client).await?;
        if method != "tasks/get" {
            return Ok(raw);
        }
        let Some(mut task) = Shallow::read(&raw) else { return Ok(raw) };
        task.set_value("taskId", &name(call).into());
        if let Some(result) = task.get("result").map(RawValue::to_owned) {
            task.set("result", self.links(result, &call.tool_id).await?);
        }
        Ok(task.raw())
    }

    /// `tasks/update`: answers to what is asked. What is not asked, or not any more, is passed over.
    async fn take_answers(
        &self,
        call: ToolCall,
        mut answers: Map<String, Value>,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        if call.status == CallStatus::Pending {
            // Who cannot ask a person is not asked: the answer would be its own.
            let asked = answers.get(CONFIRM).filter(|_| client.can("elicitation/create"));
            let action = asked.and_then(|answer| answer.get("action")).and_then(Value::as_str);
            let approve = match action {
                Some("accept") => true,
                Some("decline" | "cancel") => false,
                _ => return Ok(nothing()),
            };
            let verdict = Verdict {
                approve,
                args: None,
                digest: Some(call.args_sha256),
                who: self.person(),
                audience: self.audience,
            };
            let decided = self.app.calls().decide(&self.org, call.chat_id, call.id, verdict).await;
            if let Err(error) = decided {
                let now = self.app.calls().find(&self.org, call.chat_id, call.id).await.map_err(fault)?;
                // Somebody else was quicker: then it is not asked any more.
                if now.is_some_and(|now| now.status == CallStatus::Pending) {
                    return Err(fault(error));
                }
            }
        } else if let Some(task) = self.app.gateway().tasks.find(call.id) {
            task.questions.answer(&mut answers);
        }
        Ok(nothing())
    }
}
