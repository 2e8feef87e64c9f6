//! A run as a part of a trace. It may be given out long after it was asked for, and by another server: so the place is kept with the
//! first thing that happened to it.

use kitbag_model::run::{Run, RunEventKind, Trace};
use kitbag_model::{ExecutorId, OrgId};
use kitbag_trace::{Context, Kind, Span};

use super::AgentRuns;

/// A place as it travels.
pub(super) fn told(place: Context) -> Trace {
    Trace { traceparent: place.traceparent(), tracestate: place.tracestate() }
}

impl AgentRuns {
    /// Says that a run is given to an executor: the place that its work belongs to. None where nothing is traced.
    pub(super) async fn trace_of(&self, org: &OrgId, run: &Run, executor: ExecutorId) -> Option<Trace> {
        if !kitbag_trace::is_on() {
            return None;
        }
        let asked = match self.0.store.read_beside(org).await {
            Ok(mut tx) => tx.run_events(run.id, 0, 1).await,
            Err(error) => Err(error),
        };
        let asked = asked.unwrap_or_else(|error| {
            tracing::warn!(%error, run = %run.id, "of which trace a run is could not be read");
            Vec::new()
        });
        let asked = asked.into_iter().find_map(|event| match event.kind {
            RunEventKind::State { trace, .. } => trace,
            _ => None,
        });
        let parent = asked.and_then(|trace| Context::parse(&trace.traceparent, trace.tracestate.as_deref()));
        let mut span = Span::of(parent, None, Kind::Producer, || "run given");
        span.set("kitbag.organization.id", org);
        span.set("kitbag.run.id", run.id);
        span.set("kitbag.executor.id", executor);
        span.count("kitbag.run.attempt", run.attempt.into());
        span.context().map(told)
    }
}
