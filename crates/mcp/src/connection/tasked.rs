//! A call of a tool that its server runs as a task alone, as 2025-11-25 has them: the call is answered with a task, and what comes of it is
//! asked for when it is over. Whoever makes the call sees nothing of that: it lasts as long as the task, and ends it when it is given up.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::ask::{Asker, Question};
use super::{Call, CallError, Connection};
use crate::shallow::Shallow;

/// How often it is asked how a task is: as its server wants it within these bounds, and else this often.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
const USUAL: Duration = Duration::from_secs(1);

/// So long a server may take to hear that a task is not wanted any more.
const GOODBYE: Duration = Duration::from_secs(10);

/// What results and questions say of the task that they belong to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

#[derive(Deserialize)]
struct Created {
    task: Task,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: String,
    status_message: Option<String>,
    poll_interval: Option<u64>,
}

impl Connection {
    /// Whether the server runs calls of tools as tasks.
    pub(super) fn has_tasks(&self) -> bool {
        !self.is_stateless() && self.shared.agreed.capabilities.pointer("/tasks/requests/tools/call").is_some()
    }

    /// Makes a call that has to be a task, and brings what comes of that.
    pub(super) async fn call_as_task(&self, call: Call) -> Result<Box<RawValue>, CallError> {
        let whole = call.deadline;
        self.live_through(call).await.map_err(|error| match error {
            CallError::Timeout(_) => CallError::Timeout(whole),
            other => other,
        })
    }

    async fn live_through(&self, mut call: Call) -> Result<Box<RawValue>, CallError> {
        let end = Instant::now() + call.deadline;
        // Longer than anybody asks for it, it need not be kept.
        call.params.set_value("task", &json!({ "ttl": u64::try_from(call.deadline.as_millis()).unwrap_or(u64::MAX) }));
        let mut params = std::mem::take(&mut call.params);
        let answer = self.part_of(&mut call, "tools/call", &mut params, end).await?;
        let Ok(Created { mut task }) = serde_json::from_str(answer.get()) else {
            // It has done all of it at once.
            return Ok(answer);
        };
        let mut unwanted =
            Unwanted { asker: Some(self.shared.asker.clone()), connection: self, id: task.task_id.clone() };
        let mut named = Shallow::default();
        named.set_value("taskId", &task.task_id.as_str().into());
        let (mut told, mut rounds) = (None, 0_u64);
        while task.status == "working" {
            if let (Some(progress), true) = (&call.progress, task.status_message != told) {
                rounds += 1;
                let message = task.status_message.clone().unwrap_or_default();
                let _ = progress.send(json!({ "progress": rounds, "message": message }));
                told = task.status_message.take();
            }
            let pause =
                task.poll_interval.map_or(USUAL, |millis| Duration::from_millis(millis).clamp(BOUNDS.0, BOUNDS.1));
            tokio::select! {
                () = sleep(pause.min(end.saturating_duration_since(Instant::now()))) => {}
                Ok(_) = call.stop.wait_for(|stop| *stop) => return Err(CallError::Cancelled),
            }
            let answer = self.part_of(&mut call, "tasks/get", &mut named.clone(), end).await.map_err(heard)?;
            task = serde_json::from_str(answer.get())
                .map_err(|error| CallError::Nonsense(format!("what it says of a task: {error}")))?;
        }
        // It may want to ask something first, which it does while its result is waited for.
        let result = self.part_of(&mut call, "tasks/result", &mut named, end).await.map_err(heard);
        if !matches!(result, Err(CallError::Cancelled | CallError::Timeout(_))) {
            unwanted.asker = None;
        }
        Ok(unrelated(result?))
    }

    /// One of the requests that a call is made of.
    async fn part_of(
        &self,
        call: &mut Call,
        method: &str,
        params: &mut Shallow,
        end: Instant,
    ) -> Result<Box<RawValue>, CallError> {
        let question = Question {
            method,
            params,
            beside: None,
            version: Some(self.shared.agreed.version.clone()),
            headers: Vec::new(),
            deadline: Some(end.saturating_duration_since(Instant::now())),
            stop: Some(&mut call.stop),
            progress: call.progress.clone(),
            company: call.beside.clone(),
            tell: true,
        };
        self.shared.asker.ask(question).await
    }
}

/// A server that is asked about a task has heard of the call: who makes it anew makes another.
fn heard(error: CallError) -> CallError {
    match error {
        CallError::Unheard(why) => CallError::Disconnected(why),
        other => other,
    }
}

/// A result without the name of its task, which means nothing to whoever made the call.
fn unrelated(raw: Box<RawValue>) -> Box<RawValue> {
    let Some(mut result) = Shallow::read(&raw).filter(|_| raw.get().contains(RELATED)) else { return raw };
    let mut meta: Map<String, Value> = result.parse("_meta").unwrap_or_default();
    if meta.remove(RELATED).is_none() {
        return raw;
    }
    match meta.is_empty() {
        true => drop(result.remove("_meta")),
        false => result.set_value("_meta", &Value::Object(meta)),
    }
    result.raw()
}

/// A task that nobody waits for any more when this goes. Its server is told.
struct Unwanted<'c> {
    asker: Option<Asker>,
    connection: &'c Connection,
    id: String,
}

impl Drop for Unwanted<'_> {
    fn drop(&mut self) {
        let Some(asker) = self.asker.take() else { return };
        let (version, id) = (self.connection.shared.agreed.version.clone(), std::mem::take(&mut self.id));
        // Without a runtime the connection goes, too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let mut params = Shallow::default();
            params.set_value("taskId", &id.into());
            let question = Question {
                method: "tasks/cancel",
                params: &mut params,
                beside: None,
                version: Some(version),
                headers: Vec::new(),
                deadline: Some(GOODBYE),
                stop: None,
                progress: None,
                company: None,
                tell: false,
            };
            // Whatever it answers: nobody is left who wants to know.
            let _ = asker.ask(question).await;
        });
    }
}
