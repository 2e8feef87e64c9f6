//! One call of a container's tool.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kitbag_container::{CALL_LABEL, Job, Line, NODE_LABEL, Place};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_mcp::resolve::{Redactor, ResolveError, resolve};
use kitbag_model::{CallError, CallErrorCode, OrgId, SandboxReport, ToolCall};
use kitbag_python::{Event, LoggedLine, Stream};
use kitbag_runner::{Ran, run_container};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::{Contained, Containers};

/// What a call needs beside its tool.
pub(crate) struct Around<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) call: &'a ToolCall,
    pub(crate) workspace: &'a Path,
    pub(crate) deadline: Duration,
    pub(crate) most_result: u64,
    pub(crate) heard: UnboundedSender<Event>,
}

impl Containers {
    /// Makes one call, to its end.
    pub(crate) async fn call(&self, what: &Contained, around: Around<'_>, stop: impl Future<Output = ()>) -> Ran {
        match self.try_call(what, around, stop).await {
            Ok(ran) => ran,
            Err(error) => Ran {
                result: Err(error),
                logs: Vec::new(),
                logs_cut: 0,
                sandbox: SandboxReport::default(),
                left_running: false,
            },
        }
    }

    async fn try_call(
        &self,
        what: &Contained,
        around: Around<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Ran, CallError> {
        let unavailable = |reason: String| CallError::new(CallErrorCode::Unavailable, reason);
        let container = &what.container.container;
        let (env, redactor) = self.variables(around.org, container)?;
        let engine = self.engine().await.map_err(|error| unavailable(error.to_string()))?;
        let id = around.call.id.to_string();
        let place = self.place(around.org, &id, around.workspace).await.map_err(unavailable)?;
        let seconds = container.limits.seconds.map(Duration::from_secs);
        let command = if what.tool.command.is_empty() { &container.command } else { &what.tool.command };
        let job = Job {
            image: what.image.clone(),
            command: command.clone(),
            env,
            labels: BTreeMap::from([(NODE_LABEL.to_owned(), self.0.node.clone()), (CALL_LABEL.to_owned(), id)]),
            place: Place {
                workspace: place.workspace.clone(),
                exchange: place.exchange.clone(),
                user: place.user,
                network: container.network && self.0.servers.may_be_in_network(around.org),
                limits: self.limits(&container.limits),
            },
            args: Value::Object(around.call.args.clone()),
            deadline: seconds.map_or(around.deadline, |seconds| seconds.min(around.deadline)),
            most_result: around.most_result,
        };
        let tell = |line: &Line| {
            let stream = match line.stream {
                kitbag_container::Stream::Stdout => Stream::Stdout,
                kitbag_container::Stream::Stderr => Stream::Stderr,
            };
            let _ = around.heard.send(Event::Log(LoggedLine { stream, text: redactor.text(&line.text) }));
        };
        let ran = run_container(&engine, job, &tell, stop).await;
        drop(place);
        Ok(without_values(ran, &redactor))
    }

    /// The values of a container's variables, and what keeps them from being told.
    fn variables(
        &self,
        org: &OrgId,
        container: &kitbag_model::Container,
    ) -> Result<(Vec<(String, String)>, Redactor), CallError> {
        let resolved = resolve(&container.launch(), None, |name| self.0.servers.variable(org, name));
        let resolved = resolved.map_err(|error| match error {
            ResolveError::EnvNotSet(unset) => CallError::new(
                CallErrorCode::EnvNotSet,
                format!("{unset}: the container {} needs the variable {}, which is not set", container.id, unset.name),
            ),
            other => CallError::new(CallErrorCode::Unavailable, other.to_string()),
        })?;
        match resolved.endpoint {
            Endpoint::Stdio { env, .. } => Ok((env, resolved.redactor)),
            Endpoint::Remote { .. } => Ok((Vec::new(), resolved.redactor)),
        }
    }
}

/// What came of a call without the values that went in.
fn without_values(mut ran: Ran, redactor: &Redactor) -> Ran {
    if redactor.is_empty() {
        return ran;
    }
    for line in &mut ran.logs {
        line.text = redactor.text(&line.text);
    }
    ran.result = match ran.result {
        Ok(value) => Ok(redactor.result(value)),
        Err(error) => Err(CallError::new(error.code, redactor.text(&error.message))),
    };
    ran
}
