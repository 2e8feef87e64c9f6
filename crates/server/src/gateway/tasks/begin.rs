//! How a call becomes a task: its record is written, and then its client is told.

use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::serve::{Client, Fault};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{CallStatus, ToolCall};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::questions::Questions;
use super::{Task, name, theirs};
use crate::app::App;
use crate::calls::{Answered, Asked};
use crate::gateway::tools::{fault, internal};
use crate::gateway::view::View;

/// So long a client waits for the answer itself. Nearly all calls are over by then, and one that is not may take any time; to
/// ask again for it costs as much as it waited.
pub(in crate::gateway) const SOON: Duration = Duration::from_millis(400);

/// So long is kept what a record does not have of a call that is over.
const KEPT: Duration = Duration::from_secs(600);

impl View {
    /// Makes a task of a call that is not over. What its client gets.
    pub(in crate::gateway) async fn begin_task(
        &self,
        asked: Asked,
        questions: Arc<Questions>,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        let (chat, id) = (asked.call.chat_id, asked.call.id);
        let task = Task::new(questions);
        self.app.gateway().tasks.table().insert(id, Arc::clone(&task));
        follow(self.app.clone(), self.org.clone(), asked, task);
        // Whoever reads waits until it is written.
        match self.app.calls().find(&self.org, chat, id).await {
            Ok(Some(call)) => {
                let task = self.outline(&call, "task", client);
                to_raw_value(&task).map_err(|error| internal(&error))
            }
            Ok(None) => Err(Fault::params("the chat was deleted").with_status(404)),
            Err(error) => {
                // Nobody could ever find it again.
                let _ = self.app.calls().cancel(&self.org, chat, id, &self.who).await;
                Err(fault(error))
            }
        }
    }

    /// The task that a server answered with, under the name that leads to it from here.
    pub(in crate::gateway) async fn named_task(
        &self,
        raw: Box<RawValue>,
        call: &ToolCall,
    ) -> Result<Box<RawValue>, Fault> {
        if theirs(call).is_none() {
            return Ok(raw);
        }
        let Some(mut task) = Shallow::read(&raw) else { return Ok(raw) };
        let written = Box::pin(self.app.calls().find(&self.org, call.chat_id, call.id)).await.map_err(fault)?;
        written.ok_or_else(|| Fault::params("the chat was deleted").with_status(404))?;
        task.set_value("taskId", &name(call).into());
        Ok(task.raw())
    }
}

/// Forgets a task when its call is over, or some time later if its record does not have all.
fn follow(app: App, org: kitbag_model::OrgId, asked: Asked, task: Arc<Task>) {
    let id = asked.call.id;
    tokio::spawn(async move {
        let calls = app.calls();
        let asked = match asked.call.status {
            CallStatus::Pending => calls.decided(&org, &asked.call).await.ok(),
            _ => Some(asked),
        };
        calls.leave(id);
        if let Some(asked) = asked {
            let live = asked.clone();
            // How it ended is in its record.
            let _ = calls.wait(&org, asked).await;
            if let Some(answer) = live.answered().filter(is_refusal) {
                let _ = task.refused.set(answer);
            }
        }
        task.over.send_replace(true);
        if task.refused.get().is_some() {
            tokio::time::sleep(KEPT).await;
        }
        app.gateway().tasks.table().remove(&id);
    });
}

/// Whether a record has only words of it.
fn is_refusal(answer: &Answered) -> bool {
    match answer {
        Answered::Refused { .. } => true,
        Answered::Result(raw) => {
            let read: Option<Value> = serde_json::from_str(raw.get()).ok();
            read.is_some_and(|result| result.get("isError") == Some(&Value::Bool(true)))
        }
    }
}
