//! One call in a container, and what its end means.

use kitbag_container::{Ended, Engine, Finished, Job, Line, Stream};
use kitbag_model::{CallError, CallErrorCode, LogLine, LogStream, SandboxReport};

use crate::outcome::{Ran, shortened};

/// Makes one call, to its end. `tell` hears what it says.
pub async fn run_container(
    engine: &Engine,
    job: Job,
    tell: &(dyn Fn(&Line) + Sync),
    stop: impl Future<Output = ()>,
) -> Ran {
    told(engine.call(job, tell, stop).await)
}

fn told(finished: Finished) -> Ran {
    let line = |line: Line| LogLine { stream: stream(line.stream), text: line.text };
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
        sandbox: SandboxReport { layers: vec!["container".to_owned()], missing: Vec::new() },
        left_running: false,
    }
}

/// Where a line was said, as it is kept.
fn stream(stream: Stream) -> LogStream {
    match stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
    }
}
