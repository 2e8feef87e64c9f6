//! One call in a container, and what its end means.

use std::pin::pin;
use std::time::Duration;

use kitbag_container::{Ended, Engine, Finished, Job, Line, Stream, Unlimited};
use kitbag_model::{CallError, CallErrorCode, LogLine, LogStream, SandboxReport};
use kitbag_trace::{Kind, Span};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::outcome::{Ran, shortened};

/// What is said to have held such a call.
const LAYER: &str = "container";

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
        told(kitbag_trace::within(span.context(), calling).await, engine.unlimited())
    };
    if let Err(error) = &ran.result {
        span.fail(error.code.as_str());
    }
    ran
}

/// So long an engine may take for its part of a call, beside the tool itself.
const GRACE: Duration = Duration::from_secs(20);

/// Waits for a call no longer than it may take and its engine may: one that hangs keeps neither the place of the call nor whoever waits for
/// their turn. What was begun is dropped, and removes itself when the engine answers again.
pub async fn in_time(
    calling: impl Future<Output = Result<Ran, CallError>>,
    longest: Duration,
    mut stop: watch::Receiver<bool>,
) -> Ran {
    let stopped = async {
        if stop.wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could stop it.
            std::future::pending::<()>().await;
        }
        sleep(GRACE).await;
    };
    let called = tokio::select! {
        called = calling => called,
        () = stopped => {
            Err(CallError::new(CallErrorCode::Cancelled, "it was stopped, and the container engine did not answer"))
        }
        () = sleep(longest.saturating_add(GRACE)) => {
            Err(CallError::new(CallErrorCode::Unavailable, "the container engine did not answer in time"))
        }
    };
    called.unwrap_or_else(|error| Ran {
        result: Err(error),
        logs: Vec::new(),
        logs_cut: 0,
        sandbox: SandboxReport::default(),
        left_running: false,
    })
}

/// What held a call in a container, and what its engine could not.
pub(crate) fn report(unlimited: Unlimited) -> SandboxReport {
    let missing = unlimited.names().into_iter().map(|name| format!("limit of {name}")).collect();
    SandboxReport { layers: vec![LAYER.to_owned()], missing }
}

fn told(finished: Finished, unlimited: Unlimited) -> Ran {
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
        sandbox: report(unlimited),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_hangs_is_not_waited_for() {
        let (stop, stopped) = watch::channel(false);
        let hangs = std::future::pending::<Result<Ran, CallError>>;
        let code = |ran: Ran| ran.result.unwrap_err().code;
        let ran = in_time(hangs(), Duration::from_secs(60), stopped.clone()).await;
        assert_eq!(code(ran), CallErrorCode::Unavailable);
        stop.send_replace(true);
        assert_eq!(code(in_time(hangs(), Duration::MAX, stopped.clone()).await), CallErrorCode::Cancelled);
        // Nobody can stop it any more: that is not a stop.
        let (stop, stopped) = watch::channel(false);
        drop(stop);
        assert_eq!(code(in_time(hangs(), Duration::from_secs(60), stopped.clone()).await), CallErrorCode::Unavailable);
        let ended = async { Err(CallError::new(CallErrorCode::ToolFailed, "why")) };
        assert_eq!(code(in_time(ended, Duration::ZERO, stopped).await), CallErrorCode::ToolFailed);
    }

    #[test]
    fn what_an_engine_cannot_limit_stands_in_the_record() {
        assert_eq!(report(Unlimited::default()).missing, Vec::<String>::new());
        let some = Unlimited { memory: true, cpus: true, ..Unlimited::default() };
        assert_eq!(report(some).missing, ["limit of memory", "limit of processors"]);
        assert_eq!(report(some).layers, ["container"]);
    }
}
