//! One call in a worker, and what its end means.

use std::pin::pin;

use kitbag_model::{CallError, CallErrorCode, LogLine, LogStream, SandboxReport};
use kitbag_python::{Event, Failure, FailureKind, Finished, Job, LoggedLine, Program, Stop, Stream, Workers};
use kitbag_trace::{Kind, Span};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

/// So many characters of a message are kept. What is longer is in the log.
const MESSAGE: usize = 4096;

/// So many bytes of a traceback are kept: its end, where the reason is.
const TRACEBACK: usize = 16 * 1024;

/// So many bytes of a log are kept, whatever a worker gives.
const LOG: usize = 256 * 1024;

/// What came of a call in a worker.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What it returned, or why it returned nothing.
    pub result: Result<Value, CallError>,
    /// The end of what it said.
    pub logs: Vec<LogLine>,
    /// How many bytes of that were left out.
    pub logs_cut: u64,
    /// What held it.
    pub sandbox: SandboxReport,
    /// Whether something that it started is still running.
    pub left_running: bool,
}

/// Makes one call, to its end.
pub async fn run(workers: &Workers, program: &Program, job: Job, heard: UnboundedSender<Event>, stop: Stop) -> Ran {
    let mut span = Span::new("python", Kind::Client);
    let ran = {
        let calling = pin!(workers.call(program, job, heard, stop));
        told(kitbag_trace::within(span.context(), calling).await)
    };
    if let Err(error) = &ran.result {
        span.fail(error.code.as_str());
    }
    ran
}

fn told(finished: Finished) -> Ran {
    let mut logs: Vec<LogLine> = finished.logs.into_iter().map(line).collect();
    let result = finished.result.map_err(|failure| {
        let Failure { kind, message, traceback } = failure;
        if let Some(text) = traceback.filter(|text| !text.trim().is_empty()) {
            logs.push(LogLine { stream: LogStream::Traceback, text: end_of(&text, TRACEBACK).to_owned() });
        }
        let code = match kind {
            FailureKind::Failed => CallErrorCode::ToolFailed,
            FailureKind::Timeout => CallErrorCode::Timeout,
            FailureKind::Cancelled => CallErrorCode::Cancelled,
            FailureKind::Interrupted => CallErrorCode::Interrupted,
            FailureKind::Unavailable => CallErrorCode::Unavailable,
        };
        CallError::new(code, shortened(&message))
    });
    let cut = trim(&mut logs);
    Ran {
        result,
        logs,
        logs_cut: finished.logs_cut.saturating_add(cut),
        sandbox: SandboxReport { layers: finished.layers, missing: finished.missing_layers },
        left_running: finished.left_running,
    }
}

/// A line as it is kept.
pub(crate) fn line(line: LoggedLine) -> LogLine {
    let stream = match line.stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
        Stream::Log => LogStream::Log,
    };
    LogLine { stream, text: line.text }
}

pub(crate) fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None if message.trim().is_empty() => "the tool failed and did not say why".to_owned(),
        None => message.to_owned(),
    }
}

/// The last `most` bytes, from the beginning of a character.
fn end_of(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}

/// Takes lines away from the front until the rest is small enough. How many bytes that were.
fn trim(logs: &mut Vec<LogLine>) -> u64 {
    let mut room = LOG;
    let mut kept = 0;
    for line in logs.iter().rev() {
        match room.checked_sub(line.text.len()) {
            Some(rest) => room = rest,
            None => break,
        }
        kept += 1;
    }
    let gone = logs.len() - kept;
    logs.drain(..gone).map(|line| line.text.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(result: Result<Value, Failure>, logs: Vec<LoggedLine>) -> Finished {
        Finished { result, logs, logs_cut: 1, layers: Vec::new(), missing_layers: Vec::new(), left_running: false }
    }

    fn failure(kind: FailureKind, message: &str, traceback: Option<&str>) -> Failure {
        Failure { kind, message: message.to_owned(), traceback: traceback.map(ToOwned::to_owned) }
    }

    #[test]
    fn kinds_have_codes_and_a_traceback_goes_to_the_log() {
        for (kind, code) in [
            (FailureKind::Failed, "TOOL_FAILED"),
            (FailureKind::Timeout, "TIMEOUT"),
            (FailureKind::Cancelled, "CANCELLED"),
            (FailureKind::Interrupted, "INTERRUPTED"),
            (FailureKind::Unavailable, "UNAVAILABLE"),
        ] {
            let ran = told(finished(Err(failure(kind, "why", Some("Traceback: here"))), Vec::new()));
            let error = ran.result.unwrap_err();
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, "why"));
            assert_eq!(ran.logs, [LogLine { stream: LogStream::Traceback, text: "Traceback: here".to_owned() }]);
        }
        let ran = told(finished(Ok(Value::Null), Vec::new()));
        assert_eq!((ran.result, ran.logs.len()), (Ok(Value::Null), 0));
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = "é".repeat(100_000);
        let ran = told(finished(Err(failure(FailureKind::Failed, &long, Some(&long))), Vec::new()));
        assert_eq!(ran.result.unwrap_err().message.chars().count(), MESSAGE + 1);
        assert!(ran.logs[0].text.len() <= TRACEBACK && !ran.logs[0].text.is_empty());
        let lines = (0..10).map(|n| LoggedLine { stream: Stream::Stdout, text: format!("{n}").repeat(50_000) });
        let ran = told(finished(Ok(Value::Null), lines.collect()));
        assert_eq!(ran.logs.len(), 5);
        assert!(ran.logs[4].text.starts_with('9'));
        assert_eq!(ran.logs_cut, 1 + 5 * 50_000);
        let ran = told(finished(Err(failure(FailureKind::Failed, " ", None)), Vec::new()));
        assert_eq!(ran.result.unwrap_err().message, "the tool failed and did not say why");
    }
}
