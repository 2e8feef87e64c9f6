//! A container whose image speaks MCP on its standard input and output: it stays, and is called again and again. What it says beside during a
//! call is that call's log.

use std::time::Duration;

use kitbag_container::{Engine, EngineError, Line, Opened, Session, Spec, Unlimited};
use kitbag_mcp::connection::{Call, CallError as Refusal, ConnectError, Connection, Options, Pipes, ToolList};
use kitbag_model::{CallError, CallErrorCode, safe_text};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::container::{line, report};
use crate::mcp::{returned, text_of};
use crate::outcome::{Ran, shortened};

/// How long a container has to go by itself, after its input was closed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A revision of the protocol with a session: servers that know only those may end at another question.
const WITH_SESSION: &str = "2025-11-25";

/// So many lines of a log stand in the message of a failure.
const TAIL: usize = 20;

/// Why a container cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum NoResident {
    /// The engine did not do its part.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It does not speak the protocol.
    #[error("its image was asked in the Model Context Protocol, on standard input, and gave no answer: {0}")]
    Silent(String),
    /// It ended when it was asked in it.
    #[error("its image was asked in the Model Context Protocol, on standard input, and gave no answer: {0}")]
    Ended(String),
}

/// A container that is talked to.
pub struct Resident {
    connection: Connection,
    session: Session,
    unlimited: Unlimited,
}

impl Resident {
    /// Starts a container and greets what is in it.
    pub async fn start(engine: &Engine, spec: &Spec, options: &Options) -> Result<Self, NoResident> {
        match Self::try_start(engine, spec, options, None).await {
            // It may be the question that it ended at: it is started once more and greeted in the older way.
            Err(NoResident::Ended(_)) => Self::try_start(engine, spec, options, Some(WITH_SESSION)).await,
            other => other,
        }
    }

    async fn try_start(
        engine: &Engine,
        spec: &Spec,
        options: &Options,
        last: Option<&str>,
    ) -> Result<Self, NoResident> {
        let Opened { input, output, session } = engine.open(spec).await?;
        let pipes = Pipes { input, output, over: Box::pin(session.over()) };
        // Lists are fixed with the image, and what it logs is heard beside: nothing of what it says by itself is needed.
        let (notices, _) = unbounded_channel();
        match Connection::attach(pipes, options, notices, last).await {
            Ok(connection) => Ok(Self { connection, session, unlimited: engine.unlimited() }),
            Err(error) => {
                let why = match error {
                    ConnectError::NeedsAuth { .. } => "it wants somebody to sign in".to_owned(),
                    ConnectError::Failed(why) => why,
                };
                let ended = tokio::time::timeout(Duration::ZERO, session.over()).await.is_ok();
                let (said, _) = session.said();
                session.end(Duration::ZERO).await;
                let told = with_tail(safe_text(&why), &said);
                Err(if ended { NoResident::Ended(told) } else { NoResident::Silent(told) })
            }
        }
    }

    /// All its tools.
    pub async fn tools(&self) -> Result<ToolList, String> {
        self.connection.tools().await.map_err(|error| safe_text(&error.to_string()))
    }

    /// Whether it is over.
    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Makes one call, to its end. `tell` hears what is said beside meanwhile. What is returned is what the tool means by its answer:
    /// see [`returned`].
    pub async fn call(&self, call: Call, tell: UnboundedSender<Line>) -> Ran {
        self.session.listen(tell);
        let answer = self.connection.call(call).await;
        if matches!(answer, Err(Refusal::Disconnected(_))) {
            // What it said last, before it ended, is most likely why.
            let _ = tokio::time::timeout(PATIENCE, self.session.over()).await;
        }
        let (said, logs_cut) = self.session.said();
        let result = match answer.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap_or_default()) {
            Ok(Value::Object(answer)) if answer.get("isError") == Some(&Value::Bool(true)) => {
                Err(CallError::new(CallErrorCode::ToolFailed, shortened(&text_of(&answer))))
            }
            Ok(answer) => Ok(returned(&answer)),
            Err(error) => Err(told(error, &said)),
        };
        Ran {
            result,
            logs: said.into_iter().map(line).collect(),
            logs_cut,
            sandbox: report(self.unlimited),
            left_running: false,
        }
    }

    /// Ends it. One that does not do what it was asked any more is not waited for.
    pub async fn end(self, at_once: bool) {
        let Self { connection, session, .. } = self;
        connection.close().await;
        session.end(if at_once { Duration::ZERO } else { PATIENCE }).await;
    }
}

fn told(error: Refusal, said: &[Line]) -> CallError {
    let code = match &error {
        Refusal::Timeout(_) => CallErrorCode::Timeout,
        Refusal::Cancelled => CallErrorCode::Cancelled,
        _ => CallErrorCode::ToolFailed,
    };
    let message = match error {
        // How the container ended.
        Refusal::Disconnected(why) => with_tail(why, said),
        Refusal::Timeout(limit) => format!("it took longer than {} seconds", limit.as_secs()),
        other => other.to_string(),
    };
    CallError::new(code, shortened(&safe_text(&message)))
}

/// A message with the end of the log below it.
fn with_tail(message: String, said: &[Line]) -> String {
    let tail: Vec<&str> = said[said.len().saturating_sub(TAIL)..].iter().map(|line| line.text.as_str()).collect();
    if tail.is_empty() { message } else { format!("{message}\n{}", safe_text(&tail.join("\n"))) }
}
