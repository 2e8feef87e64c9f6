//! One call in a container, and what its end means.

use std::pin::pin;

use kitbag_container::{Ended, Engine, Finished, Job, Line, Stream};
use kitbag_model::{CallError, CallErrorCode, LogLine, LogStream, SandboxReport};
use kitbag_trace::{Kind, Span};

use crate::outcome::{Ran, shortened};

/// What is said to have held such a call.
pub(crate) const LAYER: &str = "container";

/// Makes one call, to its end. `tell` hears what it says.
pub async fn run_container(
    engine: &Engine,
    job: Job,
    tell: &(dyn Fn(&Line) + Send + Sync),
    stop: impl Future<Output = ()>,
) -> Ran {
    let mut span = Span::new("container", Kind::Client);
    let ran = {
        let calling = pin!(engine.call(job, tell, stop));
        told(kitbag_trace::within(span.context(), calling).await)
    };
    if let Err(error) = &ran.result {
        span.fail(error.code.as_str());
    }
    ran
}

fn told(finished: Finished) -> Ran {
    let result = finished.result.map_err(|ended| {
        let (code, message) = match ended {
            Ended::Failed(message) => (CallErrorCode::ToolFailed, message),
            Ended::Timeout(message) => (CallErrorCode::Timeout, message),
            Ended::Stopped => (CallErrorCode::Cancelled, "it was stopped".to_owned()),
            Ended::Unavailable(message) => (CallErrorCode::Unavailable, message),
        };
        CallError::new(code, shortened(&message))
    });
    Ran {
        result,
        logs: finished.logs.into_iter().map(line).collect(),
        logs_cut: finished.logs_cut,
        sandbox: SandboxReport { layers: vec![LAYER.to_owned()], missing: Vec::new() },
        left_running: false,
    }
}

/// A line as it is kept.
pub(crate) fn line(line: Line) -> LogLine {
    let stream = match line.stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
    };
    LogLine { stream, text: line.text }
}
