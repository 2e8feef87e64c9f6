//! One call of a container's tool: in a container of its own, or in the chat's that stays.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kitbag_container::{CALL_LABEL, HOME_LABEL, Job, Limits, Line, NODE_LABEL, Spec};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_mcp::resolve::{Redactor, ResolveError, resolve};
use kitbag_model::{CallError, CallErrorCode, Container, OrgId, ToolCall};
use kitbag_python::{Event, LoggedLine, Stop, Stream};
use kitbag_runner::{Place, Ran, in_time, run_container};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::warm::STARTING;
use super::{Contained, Containers};

/// What a call needs beside its tool.
pub(crate) struct Around<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) call: &'a ToolCall,
    pub(crate) workspace: &'a Path,
    pub(crate) deadline: Duration,
    pub(crate) most_result: u64,
    pub(crate) heard: UnboundedSender<Event>,
    /// Turns to true when it is to end before its time.
    pub(crate) stop: Stop,
}

/// The variables of a container, with their values, and what keeps those from being told.
pub(super) struct Values {
    pub(super) env: Vec<(String, String)>,
    pub(super) redactor: Redactor,
}

impl Containers {
    /// Makes one call, to its end.
    pub(crate) async fn call(&self, what: &Contained, around: Around<'_>) -> Ran {
        let starting = if what.container.speaks_mcp() { STARTING } else { Duration::ZERO };
        let (longest, stop) = (deadline(what, around.deadline) + starting, around.stop.clone());
        let working = async {
            match what.container.speaks_mcp() {
                true => self.call_warm(what, around).await,
                false => self.call_cold(what, around).await,
            }
        };
        in_time(working, longest, stop).await
    }

    async fn call_cold(&self, what: &Contained, around: Around<'_>) -> Result<Ran, CallError> {
        let Values { env, redactor } = self.values(around.org, &what.container.container)?;
        let engine = self.engine_for(around.org).await.map_err(|error| unavailable(error.to_string()))?;
        let id = around.call.id.to_string();
        let place = self.0.places.make(&id, around.workspace, *around.org != OrgId::local()).await;
        let place = place.map_err(unavailable)?;
        let mut spec = self.spec(around.org, &what.container.container, &what.image, &place, env);
        spec.labels.insert(CALL_LABEL.to_owned(), id);
        if !what.tool.command.is_empty() {
            spec.command.clone_from(&what.tool.command);
        }
        if let Some(context) = kitbag_trace::current() {
            spec.env.push(("TRACEPARENT".to_owned(), context.traceparent()));
        }
        let job = Job {
            spec,
            args: Value::Object(around.call.args.clone()),
            deadline: deadline(what, around.deadline),
            most_result: around.most_result,
        };
        let tell = |line: &Line| {
            let _ = around.heard.send(event(line, &redactor));
        };
        let mut stop = around.stop;
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let ran = run_container(&engine, job, &tell, stopped).await;
        place.clear().await;
        Ok(without_values(ran, &redactor))
    }

    /// What is started of a container, at a place that was made for it.
    pub(super) fn spec(
        &self,
        org: &OrgId,
        container: &Container,
        image: &str,
        place: &Place,
        env: Vec<(String, String)>,
    ) -> Spec {
        Spec {
            image: image.to_owned(),
            command: container.command.clone(),
            env,
            labels: BTreeMap::from([
                (HOME_LABEL.to_owned(), self.0.home.clone()),
                (NODE_LABEL.to_owned(), self.0.nodes.id().to_string()),
            ]),
            place: kitbag_container::Place {
                workspace: place.workspace.clone(),
                exchange: Some(place.exchange.clone()),
                user: place.user,
                network: container.network && self.0.servers.may_be_in_network(org),
                limits: Limits::within(&container.limits, self.0.memory),
            },
        }
    }

    /// The values of a container's variables.
    pub(super) fn values(&self, org: &OrgId, container: &Container) -> Result<Values, CallError> {
        let resolved = resolve(&container.launch(), None, |name| self.0.servers.variable(org, name));
        let resolved = resolved.map_err(|error| match error {
            ResolveError::EnvNotSet(unset) => CallError::new(
                CallErrorCode::EnvNotSet,
                format!("{unset}: the container {} needs the variable {}, which is not set", container.id, unset.name),
            ),
            other => unavailable(other.to_string()),
        })?;
        let env = match resolved.endpoint {
            Endpoint::Stdio { env, .. } => env,
            Endpoint::Remote { .. } => Vec::new(),
        };
        Ok(Values { env, redactor: resolved.redactor })
    }
}

pub(super) fn unavailable(reason: String) -> CallError {
    CallError::new(CallErrorCode::Unavailable, reason)
}

/// How long a call may take: what its container says, and no longer than all calls.
pub(super) fn deadline(what: &Contained, most: Duration) -> Duration {
    let seconds = what.container.container.limits.seconds.map(Duration::from_secs);
    seconds.map_or(most, |seconds| seconds.min(most))
}

/// A line for whoever listens.
pub(super) fn event(line: &Line, redactor: &Redactor) -> Event {
    let stream = match line.stream {
        kitbag_container::Stream::Stdout => Stream::Stdout,
        kitbag_container::Stream::Stderr => Stream::Stderr,
    };
    Event::Log(LoggedLine { stream, text: redactor.text(&line.text) })
}

/// What came of a call without the values that went in.
pub(super) fn without_values(mut ran: Ran, redactor: &Redactor) -> Ran {
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
