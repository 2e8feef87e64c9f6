//! Drives one engine: starts it, hears what it says, keeps it within its limits, and ends it with everything it started.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use kitbag_guard::child::ChildSpec;
use kitbag_model::run::{Limits, RunEventKind};
use kitbag_trace::{Kind, Span};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::engine::{Heard, Listener, Plan};
use crate::prepare::ReadyServers;

/// The most bytes that a line may have. A longer one is no message of an engine that works.
const LONGEST_LINE: u64 = 16 << 20;

/// The most bytes that it may say in all, on both ways. Whoever says more does not work, and keeps this machine busy.
const MOST: usize = 512 << 20;

/// How much of what it says beside is kept, to be told when it fails.
const TAIL: usize = 8 << 10;

/// How long an engine has to end by itself when it has answered, and how long its output is read when it has ended: a process that it
/// left behind may hold that open.
const PATIENCE: Duration = Duration::from_secs(3);

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// With an answer.
    Answer(String),
    /// Without one.
    Failed(Failure),
    /// Its time was up.
    TimedOut,
    /// Somebody ended it.
    Cancelled,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Used {
    turns: u32,
    tool_calls: u32,
    input_tokens: u64,
    output_tokens: u64,
}

impl Used {
    /// As a result tells it.
    pub fn to_json(self) -> Value {
        json!({
            "turns": self.turns, "toolCalls": self.tool_calls,
            "inputTokens": self.input_tokens, "outputTokens": self.output_tokens,
        })
    }
}

/// Runs an engine to its end. What happens is told as it happens, without the values of variables. When this returns, nothing that it
/// started is alive.
pub async fn drive(
    plan: Plan,
    work: &Path,
    listener: Box<dyn Listener>,
    limits: &Limits,
    servers: &ReadyServers,
    mut cancel: watch::Receiver<bool>,
    tell: impl FnMut(RunEventKind),
) -> (Ended, Used) {
    let deadline = Instant::now() + Duration::from_millis(limits.timeout_ms);
    let mut span = Span::new("engine", Kind::Client);
    // Where programs look for it that trace what they do themselves.
    let trace = span.context().map(|place| ("TRACEPARENT".to_owned(), place.traceparent()));
    let spec = ChildSpec::new(&plan.program, work).args(plan.args).declare(plan.env.into_iter().chain(trace));
    let (mut child, pipes) = match spec.start().await {
        Ok(started) => started,
        Err(error) => return (Ended::Failed(Failure::new(CLI_FAILED, error)), Used::default()),
    };
    let mut stdin = pipes.stdin;
    let prompt = tokio::spawn(async move {
        // An engine that does not read to the end has its reasons; it says them itself.
        let _ = stdin.write_all(plan.stdin.as_bytes()).await;
    });
    let (mut said, mut beside) = (lines(pipes.stdout), lines(pipes.stderr));
    let mut hearing = Hearing { listener, limits, servers, tell, used: Used::default(), told: 0, end: None };
    let mut tail = Tail::default();
    let (mut status, mut until, mut heard, mut open) = (None, deadline, 0, (true, true));
    let stopped = loop {
        let line = tokio::select! {
            () = cancelled(&mut cancel) => break Some(Ended::Cancelled),
            line = said.recv(), if open.0 => match line {
                Some(line) => hearing.line(&line).map(|()| line.len()),
                None => {
                    open.0 = false;
                    Ok(0)
                }
            },
            line = beside.recv(), if open.1 => match line {
                Some(line) => {
                    tail.keep(&line, servers);
                    hearing.beside(&line).map(|()| line.len())
                }
                None => {
                    open.1 = false;
                    Ok(0)
                }
            },
            ended = child.ended(), if status.is_none() => {
                status = Some(ended);
                until = deadline.min(Instant::now() + PATIENCE);
                Ok(0)
            }
            () = sleep_until(until) => match (&status, &hearing.end) {
                // It has ended, or has answered and does not.
                (Some(_), _) | (None, Some(_)) => break None,
                (None, None) => break Some(Ended::TimedOut),
            },
        };
        heard += match line {
            Ok(bytes) => bytes,
            Err(failure) => break Some(Ended::Failed(failure)),
        };
        if heard > MOST {
            break Some(Ended::Failed(Failure::new(CLI_FAILED, format_args!("it said more than {MOST} bytes"))));
        }
        if hearing.end.is_some() {
            until = until.min(Instant::now() + PATIENCE);
        }
        if status.is_some() && open == (false, false) {
            break None;
        }
    };
    prompt.abort();
    // One that is stopped has nothing to finish: it would only go on asking the model.
    child.stop(if stopped.is_some() { Duration::ZERO } else { PATIENCE }).await;
    let ended = match stopped {
        Some(ended) => ended,
        None => hearing.over(status, &tail),
    };
    let masked = match ended {
        Ended::Failed(failure) => Ended::Failed(Failure::new(failure.code, servers.masked(&failure.message))),
        Ended::Answer(answer) => Ended::Answer(servers.masked(&answer)),
        other => other,
    };
    match &masked {
        Ended::Answer(_) => {}
        Ended::Failed(_) => span.fail("failed"),
        Ended::TimedOut => span.fail("timed_out"),
        Ended::Cancelled => span.fail("cancelled"),
    }
    (masked, hearing.used)
}

/// The code of a failure that is the engine's own.
const CLI_FAILED: &str = "EXECUTOR_CLI_FAILED";

async fn cancelled(cancel: &mut watch::Receiver<bool>) {
    if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
        // Nobody can cancel any more.
        std::future::pending::<()>().await;
    }
}

/// The lines of a pipe. One that is too long comes in pieces, of which none is a message.
fn lines(from: impl AsyncRead + Unpin + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            match (&mut from).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
                Err(_) | Ok(0) => return,
                Ok(_) if sender.send(line).await.is_err() => return,
                Ok(_) => {}
            }
        }
    });
    receiver
}

/// The last that is said beside, without the values of variables: they are taken out line by line, before any line is cut.
#[derive(Default)]
struct Tail(String);

impl Tail {
    fn keep(&mut self, line: &[u8], servers: &ReadyServers) {
        self.0.push_str(&servers.masked(&String::from_utf8_lossy(line)));
        if self.0.len() > 4 * TAIL {
            self.0 = self.text().to_owned();
        }
    }

    fn text(&self) -> &str {
        let from = self.0.len().saturating_sub(TAIL);
        let from = (from..self.0.len()).find(|at| self.0.is_char_boundary(*at)).unwrap_or(self.0.len());
        &self.0[from..]
    }
}

struct Hearing<'a, T> {
    listener: Box<dyn Listener>,
    limits: &'a Limits,
    servers: &'a ReadyServers,
    tell: T,
    used: Used,
    /// Characters that were told so far.
    told: usize,
    end: Option<Ended>,
}

impl<T: FnMut(RunEventKind)> Hearing<'_, T> {
    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        if line.len() as u64 == LONGEST_LINE {
            return Err(Failure::new(CLI_FAILED, format_args!("it said a line of more than {LONGEST_LINE} bytes")));
        }
        let heard = match serde_json::from_slice::<Value>(line) {
            Ok(value @ Value::Object(_)) => self.listener.hear(&value),
            _ => {
                let text = String::from_utf8_lossy(line).trim().to_owned();
                if text.is_empty() { Vec::new() } else { vec![Heard::Note(text)] }
            }
        };
        heard.into_iter().try_for_each(|one| self.hear(one))
    }

    fn beside(&mut self, line: &[u8]) -> Result<(), Failure> {
        let heard = self.listener.beside(&String::from_utf8_lossy(line));
        heard.into_iter().try_for_each(|one| self.hear(one))
    }

    /// Nothing comes any more: how it ended says the rest.
    fn over(&mut self, status: Option<std::io::Result<ExitStatus>>, tail: &Tail) -> Ended {
        if let Some(end) = self.end.take() {
            return end;
        }
        let why = match status {
            Some(Ok(status)) if status.success() => {
                let heard = self.listener.end();
                if let Err(failure) = heard.into_iter().try_for_each(|one| self.hear(one)) {
                    return Ended::Failed(failure);
                }
                if let Some(end) = self.end.take() {
                    return end;
                }
                "it ended without an answer".to_owned()
            }
            Some(Ok(status)) => format!("it ended with {status}"),
            Some(Err(error)) => error.to_string(),
            None => "it closed its output and does not end".to_owned(),
        };
        let said = tail.text().trim();
        let why = if said.is_empty() { why } else { format!("{why}: {said}") };
        Ended::Failed(Failure::new(CLI_FAILED, why))
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Failure> {
        let kind = match heard {
            Heard::Turn => {
                self.used.turns += 1;
                return self.within(self.used.turns, self.limits.max_turns, "limits.maxTurns");
            }
            Heard::Call { id, tool, input } => {
                self.used.tool_calls += 1;
                self.within(self.used.tool_calls, self.limits.max_tool_calls, "limits.maxToolCalls")?;
                RunEventKind::ToolCall { call_id: id, tool, input: self.clean(&input) }
            }
            Heard::Result { id, output, failed } => {
                RunEventKind::ToolResult { call_id: id, output: self.clean(&output), is_error: failed }
            }
            Heard::Text(text) => RunEventKind::Text { text: self.servers.masked(&text) },
            Heard::Thinking(text) => RunEventKind::Thinking { text: self.servers.masked(&text) },
            Heard::Usage { input, output } => {
                self.used.input_tokens += input;
                self.used.output_tokens += output;
                let (input_tokens, output_tokens) = (self.used.input_tokens, self.used.output_tokens);
                RunEventKind::Usage { input_tokens, output_tokens }
            }
            Heard::Note(text) => RunEventKind::Log { level: "info".to_owned(), message: self.servers.masked(&text) },
            Heard::Final(answer) => {
                self.end = Some(self.answer(answer));
                return Ok(());
            }
            Heard::Failed(failure) => {
                self.end = Some(Ended::Failed(failure));
                return Ok(());
            }
            Heard::Stop(failure) => return Err(failure),
        };
        self.say(kind);
        Ok(())
    }

    /// What is told is bounded; once it is too much, that is the last that is told. The answer comes all the same.
    fn say(&mut self, kind: RunEventKind) {
        let most = self.limits.max_runtime_chars;
        if self.told > most {
            return;
        }
        self.told += serde_json::to_string(&kind).map_or(0, |text| text.chars().count());
        let message = "more was said than `limits.maxRuntimeChars` allows; the rest is not told".to_owned();
        let kind = if self.told > most { RunEventKind::Log { level: "warn".to_owned(), message } } else { kind };
        (self.tell)(kind);
    }

    fn within(&self, used: u32, most: u32, limit: &str) -> Result<(), Failure> {
        if used <= most {
            return Ok(());
        }
        Err(Failure::new("LIMIT_EXCEEDED", format_args!("it used more than `{limit}` allows, which is {most}")))
    }

    fn answer(&self, answer: String) -> Ended {
        let most = self.limits.max_output_chars;
        if answer.chars().count() <= most {
            return Ended::Answer(answer);
        }
        let reason =
            format!("its answer has more than {most} characters, which is what `limits.maxOutputChars` allows");
        Ended::Failed(Failure::new("OUTPUT_TOO_LARGE", reason))
    }

    /// A value without the values of variables, in whatever place they are.
    fn clean(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.servers.masked(text)),
            Value::Array(items) => items.iter().map(|item| self.clean(item)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (self.servers.masked(key), self.clean(value))).collect()
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::codex::Codex;

    async fn run(script: &str, change: impl FnOnce(&mut Limits), cancel: bool) -> (Ended, Used, Vec<RunEventKind>) {
        let work = tempfile::tempdir().unwrap();
        let mut limits = Limits { timeout_ms: 20_000, ..Limits::default() };
        change(&mut limits);
        let plan = Plan {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: BTreeMap::new(),
            stdin: "the prompt".into(),
        };
        let (sender, receiver) = watch::channel(cancel);
        let mut told = Vec::new();
        let servers = ReadyServers::default();
        let (ended, used) =
            drive(plan, work.path(), Box::new(Codex::default()), &limits, &servers, receiver, |kind| told.push(kind))
                .await;
        drop(sender);
        (ended, used, told)
    }

    const SAYS: &str = r#"echo '{"type":"turn.started"}'
        echo '{"type":"item.started","item":{"id":"1","type":"mcp_tool_call","server":"s","tool":"t","arguments":{}}}'
        echo '{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"Done."}}'
        echo '{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":4}}'"#;

    #[tokio::test]
    async fn an_engine_is_heard_to_its_end() {
        let (ended, used, told) = run(SAYS, |_| (), false).await;
        assert_eq!(ended, Ended::Answer("Done.".into()));
        assert_eq!(used, Used { turns: 1, tool_calls: 1, input_tokens: 3, output_tokens: 4 });
        assert!(
            matches!(&told[..], [RunEventKind::ToolCall { .. }, RunEventKind::Text { .. }, RunEventKind::Usage { .. }]),
            "{told:?}"
        );
        // It reads its prompt.
        let (ended, ..) =
            run(&format!("read prompt; test \"$prompt\" = 'the prompt' || exit 9\n{SAYS}"), |_| (), false).await;
        assert_eq!(ended, Ended::Answer("Done.".into()));
    }

    #[tokio::test]
    async fn limits_end_it() {
        let code = |ended: Ended| match ended {
            Ended::Failed(failure) => failure.code,
            other => panic!("{other:?}"),
        };
        let (ended, ..) = run(&format!("{SAYS}; sleep 100"), |limits| limits.max_tool_calls = 0, false).await;
        assert_eq!(code(ended), "LIMIT_EXCEEDED");
        let (ended, ..) = run(&format!("{SAYS}\n{SAYS}; sleep 100"), |limits| limits.max_turns = 1, false).await;
        assert_eq!(code(ended), "LIMIT_EXCEEDED");
        let (ended, ..) = run(SAYS, |limits| limits.max_output_chars = 4, false).await;
        assert_eq!(code(ended), "OUTPUT_TOO_LARGE");
        let (ended, ..) = run("sleep 100", |limits| limits.timeout_ms = 50, false).await;
        assert_eq!(ended, Ended::TimedOut);
        let (ended, ..) = run("sleep 100", |_| (), true).await;
        assert_eq!(ended, Ended::Cancelled);
        let (ended, _, told) = run(SAYS, |limits| limits.max_runtime_chars = 10, false).await;
        assert_eq!(ended, Ended::Answer("Done.".into()));
        assert!(matches!(&told[..], [RunEventKind::Log { .. }]), "{told:?}");
    }

    #[tokio::test]
    async fn why_it_failed_is_told() {
        let (ended, _, told) = run("echo not json; echo bad key >&2; exit 7", |_| (), false).await;
        let Ended::Failed(failure) = ended else { panic!("{ended:?}") };
        assert_eq!(failure.code, "EXECUTOR_CLI_FAILED");
        assert!(failure.message.contains("bad key") && failure.message.contains('7'), "{failure}");
        assert_eq!(told, [RunEventKind::Log { level: "info".into(), message: "not json".into() }]);
        let (ended, ..) = run("true", |_| (), false).await;
        assert!(matches!(ended, Ended::Failed(_)));
    }
}
