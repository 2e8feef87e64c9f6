//! Drives one engine: starts it, hears what it says, keeps it within its limits, and ends it with everything it started.

use std::path::Path;
use std::time::Duration;

use kitbag_guard::child::{Child, ChildSpec};
use kitbag_model::run::{Limits, RunEventKind};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::Failure;
use crate::engine::{Heard, Listener, Plan};
use crate::prepare::ReadyServers;

/// The most bytes that a line may have. A longer one is no message of an engine that works.
const LONGEST_LINE: u64 = 16 << 20;

/// How much of what it says beside is kept, to be told when it fails.
const TAIL: usize = 8 << 10;

/// How long an engine has to end by itself when it is asked to.
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

/// Runs an engine to its end. What happens is told as it happens, without the values of variables.
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
    let spec = ChildSpec::new(&plan.program, work)
        .args(plan.args)
        .pass(plan.pass.iter().map(|name| (*name).to_owned()))
        .declare(plan.env);
    let (mut child, pipes) = match spec.start().await {
        Ok(started) => started,
        Err(error) => return (Ended::Failed(Failure::new("EXECUTOR_CLI_FAILED", error)), Used::default()),
    };
    let mut stdin = pipes.stdin;
    let prompt = tokio::spawn(async move {
        // An engine that does not read to the end has its reasons; it says them itself.
        let _ = stdin.write_all(plan.stdin.as_bytes()).await;
    });
    let beside = tokio::spawn(tail(pipes.stderr));
    let mut hearing = Hearing { listener, limits, servers, tell, used: Used::default(), told: 0, end: None };
    let mut lines = BufReader::new(pipes.stdout);
    let ended = loop {
        let mut line = Vec::new();
        let mut bounded = (&mut lines).take(LONGEST_LINE);
        let read = tokio::select! {
            read = timeout_at(deadline, bounded.read_until(b'\n', &mut line)) => read,
            () = cancelled(&mut cancel) => break Some(Ended::Cancelled),
        };
        match read {
            Err(_) => break Some(Ended::TimedOut),
            Ok(Err(_) | Ok(0)) => break None,
            Ok(Ok(_)) if line.len() as u64 == LONGEST_LINE => {
                let reason = format!("it said a line of more than {LONGEST_LINE} bytes");
                break Some(Ended::Failed(Failure::new("EXECUTOR_CLI_FAILED", reason)));
            }
            Ok(Ok(_)) => {}
        }
        if let Err(failure) = hearing.line(&line) {
            break Some(Ended::Failed(failure));
        }
    };
    let ended = match ended {
        Some(ended) => ended,
        None => over(&mut child, &mut hearing, deadline, &mut cancel).await,
    };
    prompt.abort();
    child.stop(PATIENCE).await;
    let said = beside.await.unwrap_or_default();
    let ended = match ended {
        Ended::Failed(failure) if !said.is_empty() && failure.code == NO_ANSWER => {
            Ended::Failed(Failure::new("EXECUTOR_CLI_FAILED", format_args!("{}: {said}", failure.message)))
        }
        ended => ended,
    };
    let masked = match ended {
        Ended::Failed(failure) => Ended::Failed(Failure::new(failure.code, servers.masked(&failure.message))),
        Ended::Answer(answer) => Ended::Answer(servers.masked(&answer)),
        other => other,
    };
    (masked, hearing.used)
}

/// A failure that what the engine said beside may explain.
const NO_ANSWER: &str = "EXECUTOR_CLI_FAILED";

/// It has closed its output: how it ends says the rest.
async fn over<T: FnMut(RunEventKind)>(
    child: &mut Child,
    hearing: &mut Hearing<'_, T>,
    deadline: Instant,
    cancel: &mut watch::Receiver<bool>,
) -> Ended {
    let status = tokio::select! {
        status = timeout_at(deadline, child.ended()) => status,
        () = cancelled(cancel) => return Ended::Cancelled,
    };
    let Ok(status) = status else { return Ended::TimedOut };
    if let Some(end) = hearing.end.take() {
        return end;
    }
    match status {
        Ok(status) if status.success() => match hearing.finish() {
            Ok(Some(end)) => end,
            Ok(None) => Ended::Failed(Failure::new(NO_ANSWER, "it ended without an answer")),
            Err(failure) => Ended::Failed(failure),
        },
        Ok(status) => Ended::Failed(Failure::new(NO_ANSWER, format_args!("it ended with {status}"))),
        Err(error) => Ended::Failed(Failure::new(NO_ANSWER, error)),
    }
}

async fn cancelled(cancel: &mut watch::Receiver<bool>) {
    if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
        // Nobody can cancel any more.
        std::future::pending::<()>().await;
    }
}

/// The last that is said, as text.
async fn tail(mut from: impl tokio::io::AsyncRead + Unpin) -> String {
    let (mut kept, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut part).await {
        kept.extend_from_slice(&part[..read]);
        if kept.len() > 2 * TAIL {
            kept.drain(..kept.len() - TAIL);
        }
    }
    let from = kept.len().saturating_sub(TAIL);
    String::from_utf8_lossy(&kept[from..]).trim().to_owned()
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
        let heard = match serde_json::from_slice::<Value>(line) {
            Ok(value @ Value::Object(_)) => self.listener.hear(&value),
            _ => {
                let text = String::from_utf8_lossy(line).trim().to_owned();
                if text.is_empty() { Vec::new() } else { vec![Heard::Note(text)] }
            }
        };
        heard.into_iter().try_for_each(|one| self.hear(one))
    }

    fn finish(&mut self) -> Result<Option<Ended>, Failure> {
        for one in self.listener.end() {
            self.hear(one)?;
        }
        Ok(self.end.take())
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
            pass: Vec::new(),
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
