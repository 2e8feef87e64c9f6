//! Agreeing on a revision of the protocol. The newest has no session: a server says what it is when it is asked
//! (`server/discover`), and every request stands for itself. A server that does not know that question is greeted in the older
//! way (`initialize`). A server that knows it and refuses is not: what it says counts.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::RemoteKind;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use super::ask::{Asker, Question};
use super::hub::Hub;
use super::{Agreed, Answers, CallError, ConnectError, Connection, Notice, Options, Shared, Tokens};
use crate::endpoint::Endpoint;
use crate::transport::http::Http;
use crate::transport::sse::Sse;
use crate::transport::stdio::{Program, Stdio};
use crate::transport::{Link, WebServer};

/// Revisions without a session, newest first.
const STATELESS: [&str; 1] = ["2026-07-28"];

/// Revisions with a session, newest first.
const SESSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What only a server of the new kind says: wrong headers, a capability that is missing, a revision that it does not have.
const MODERN: [i64; 3] = [-32020, -32021, WRONG_VERSION];
const WRONG_VERSION: i64 = -32022;

/// How long a server may be silent about the new question before it is asked the old one too.
const SILENCE: Duration = Duration::from_secs(3);

/// How many lines a child that did not make it leaves in the notices.
const LAST_LINES: usize = 20;

/// Connects, agrees, listens.
pub(super) async fn open(
    endpoint: &Endpoint,
    options: &Options,
    token: Option<Arc<dyn Tokens>>,
    notices: UnboundedSender<Notice>,
    answers: Arc<dyn Answers>,
) -> Result<Connection, ConnectError> {
    let hub = Hub::new(notices, answers.clone());
    let mut started = None;
    let opening = async {
        let link = reach(endpoint, options, token, &hub).await?;
        hub.attach(&link);
        let asker = Asker { hub: hub.clone(), link };
        let probe = !matches!(endpoint, Endpoint::Remote { kind: RemoteKind::Sse, .. });
        let agreed = agree(started.insert(asker), &answers.capabilities(), probe, options).await?;
        Ok(agreed)
    };
    let failed = match timeout(options.connect, opening).await {
        Ok(Ok(agreed)) => {
            let asker = started.ok_or_else(|| ConnectError::Failed("nothing was started".to_owned()))?;
            return Ok(ready(asker, agreed, options, answers));
        }
        Ok(Err(error)) => error,
        Err(_) => ConnectError::Failed(format!("the server did not answer within {:?}", options.connect)),
    };
    if let Some(asker) = started {
        let lines = asker.link.stderr_tail();
        lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).for_each(|line| hub.log(line));
    }
    hub.close("there was no agreement");
    Err(failed)
}

async fn reach(
    endpoint: &Endpoint,
    options: &Options,
    token: Option<Arc<dyn Tokens>>,
    hub: &Arc<Hub>,
) -> Result<Arc<dyn Link>, ConnectError> {
    match endpoint {
        Endpoint::Stdio { command, args, cwd, env } => {
            let program = Program { command, args, cwd: cwd.as_ref(), env };
            let link = Stdio::start(program, options, hub.clone()).await;
            Ok(link.map_err(|error| ConnectError::Failed(error.to_string()))?)
        }
        Endpoint::Remote { kind, url, headers } => {
            let server = WebServer::new(url, headers, token, options, hub.clone()).await?;
            match kind {
                RemoteKind::StreamableHttp => Ok(Http::new(server)),
                RemoteKind::Sse => Ok(Sse::connect(server).await.map_err(reworded)?),
            }
        }
    }
}

fn ready(asker: Asker, agreed: Agreed, options: &Options, answers: Arc<dyn Answers>) -> Connection {
    asker.link.agreed(&agreed.version, agreed.beside.is_none());
    let announces = agreed.capabilities.pointer("/tools/listChanged") == Some(&Value::Bool(true));
    let listening = agreed.beside.clone().filter(|_| announces).map(|beside| {
        let (asker, version) = (asker.clone(), agreed.version.clone());
        tokio::spawn(subscribe(asker, beside, version)).abort_handle()
    });
    let shared = Shared {
        asker,
        agreed,
        answers,
        answer: options.answer,
        longest: options.longest_message,
        most_tools: options.most_tools,
        promoted: Default::default(),
        listening,
    };
    Connection { shared: Arc::new(shared) }
}

/// Finds out which revision both sides speak.
async fn agree(
    asker: &Asker,
    offered: &Map<String, Value>,
    probe: bool,
    options: &Options,
) -> Result<Agreed, ConnectError> {
    if !probe {
        return greet(asker, offered, SESSIONS[0], options).await.map_err(reworded);
    }
    let mut again = true;
    loop {
        let version = STATELESS[0];
        let verdict = match asked_both(asker, offered, version, options).await? {
            Both::Greeted(agreed) => return Ok(agreed),
            Both::Probed(answer) => judge(answer),
        };
        match verdict {
            Verdict::Discovered(found) => return Ok(discovered(found, version, offered)),
            // A server may say no to the very revision that it says it has, once: it was starting, or changed its mind.
            Verdict::Retry if again => again = false,
            Verdict::Retry => {
                return Err(ConnectError::Failed(format!("the server refuses {version}, which it offers")));
            }
            Verdict::Older(version) => return greet(asker, offered, version, options).await.map_err(reworded),
            Verdict::Failed(error) => return Err(reworded(error)),
        }
    }
}

enum Both {
    Probed(Result<Value, CallError>),
    Greeted(Agreed),
}

/// Asks the new question, and the old one too when nothing comes back: some servers say nothing to what they do not know.
async fn asked_both(
    asker: &Asker,
    offered: &Map<String, Value>,
    version: &str,
    options: &Options,
) -> Result<Both, ConnectError> {
    let mut probing = std::pin::pin!(discover(asker, offered, version, options));
    tokio::select! {
        answer = &mut probing => return Ok(Both::Probed(answer)),
        () = sleep(SILENCE.min(options.connect / 3)) => {}
    }
    let mut greeting = std::pin::pin!(greet(asker, offered, SESSIONS[0], options));
    tokio::select! {
        answer = &mut probing => match judge(answer.clone()) {
            Verdict::Older(_) => greeting.await.map(Both::Greeted).map_err(reworded),
            _ => Ok(Both::Probed(answer)),
        },
        answer = &mut greeting => match answer {
            Ok(agreed) => Ok(Both::Greeted(agreed)),
            Err(_) => Ok(Both::Probed(probing.await)),
        },
    }
}

enum Verdict {
    Discovered(Value),
    Retry,
    Older(&'static str),
    Failed(CallError),
}

/// What a server's answer to the new question means.
fn judge(answer: Result<Value, CallError>) -> Verdict {
    let (supported, found) = match answer {
        Ok(found) => match found.get("supportedVersions").and_then(Value::as_array) {
            Some(supported) => (supported.clone(), Some(found)),
            // An answer to everything is no answer.
            None => return Verdict::Older(SESSIONS[0]),
        },
        Err(CallError::Refused { code: WRONG_VERSION, data, .. }) => {
            let supported = data.as_ref().and_then(|data| data.get("supported")?.as_array().cloned());
            (supported.unwrap_or_default(), None)
        }
        Err(CallError::Refused { code, .. }) if !MODERN.contains(&code) => return Verdict::Older(SESSIONS[0]),
        Err(CallError::Nonsense(_)) => return Verdict::Older(SESSIONS[0]),
        Err(error) => return Verdict::Failed(error),
    };
    let offers = |version: &&str| supported.iter().any(|offered| offered.as_str() == Some(*version));
    if STATELESS.iter().any(|version| offers(&version)) {
        return found.map_or(Verdict::Retry, Verdict::Discovered);
    }
    if let Some(version) = SESSIONS.iter().find(|version| offers(version)) {
        return Verdict::Older(version);
    }
    let theirs: Vec<&str> = supported.iter().filter_map(Value::as_str).take(8).collect();
    let ours = [&STATELESS[..], &SESSIONS[..]].concat().join(", ");
    let why = format!("it speaks {theirs:?} of the protocol's revisions, and we speak {ours}");
    Verdict::Failed(CallError::Nonsense(why))
}

/// Asks in the new way.
async fn discover(
    asker: &Asker,
    offered: &Map<String, Value>,
    version: &str,
    options: &Options,
) -> Result<Value, CallError> {
    let question = Question {
        method: "server/discover",
        params: &mut Map::new(),
        beside: Some(&beside(version, offered)),
        version: Some(version.into()),
        headers: Vec::new(),
        deadline: Some(options.connect),
        stop: None,
        progress: None,
        tell: false,
    };
    asker.ask(question).await
}

fn discovered(mut found: Value, version: &str, offered: &Map<String, Value>) -> Agreed {
    let named = found.pointer("/_meta/io.modelcontextprotocol~1serverInfo").cloned();
    Agreed {
        version: version.into(),
        beside: Some(beside(version, offered)),
        server_info: found.get_mut("serverInfo").map(Value::take).or(named).unwrap_or_default(),
        instructions: found.get("instructions").and_then(Value::as_str).map(str::to_owned),
        capabilities: found.get_mut("capabilities").map(Value::take).unwrap_or_default(),
    }
}

/// Greets in the old way.
async fn greet(
    asker: &Asker,
    offered: &Map<String, Value>,
    version: &str,
    options: &Options,
) -> Result<Agreed, CallError> {
    let params = json!({"protocolVersion": version, "capabilities": offered, "clientInfo": client_info()});
    let Value::Object(mut params) = params else { return Err(CallError::Nonsense("no greeting".to_owned())) };
    let question = Question {
        method: "initialize",
        params: &mut params,
        beside: None,
        version: None,
        headers: Vec::new(),
        deadline: Some(options.connect),
        stop: None,
        progress: None,
        tell: false,
    };
    let mut found = asker.ask(question).await?;
    let theirs = found.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let Some(version) = SESSIONS.iter().find(|version| **version == theirs) else {
        let why = format!("it speaks {theirs:?} of the protocol's revisions, and we speak {}", SESSIONS.join(", "));
        return Err(CallError::Nonsense(why));
    };
    let version: Arc<str> = (*version).into();
    asker.notify("notifications/initialized", None, Some(version.clone()));
    Ok(Agreed {
        version,
        beside: None,
        server_info: found.get_mut("serverInfo").map(Value::take).unwrap_or_default(),
        instructions: found.get("instructions").and_then(Value::as_str).map(str::to_owned),
        capabilities: found.get_mut("capabilities").map(Value::take).unwrap_or_default(),
    })
}

/// Keeps a subscription to the server's list of tools for as long as the connection lasts.
async fn subscribe(asker: Asker, beside: Map<String, Value>, version: Arc<str>) {
    let mut pause = Duration::from_secs(1);
    loop {
        let mut params = Map::from_iter([("notifications".to_owned(), json!({"toolsListChanged": true}))]);
        let question = Question {
            method: "subscriptions/listen",
            params: &mut params,
            beside: Some(&beside),
            version: Some(version.clone()),
            headers: Vec::new(),
            deadline: None,
            stop: None,
            progress: None,
            tell: true,
        };
        let ended = asker.ask(question).await;
        if asker.hub.reason().is_some() || matches!(ended, Err(CallError::Refused { .. } | CallError::NeedsAuth { .. }))
        {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(60));
        // What changed while nobody listened was not said.
        asker.hub.tools_changed();
    }
}

fn beside(version: &str, offered: &Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([
        ("io.modelcontextprotocol/protocolVersion".to_owned(), version.into()),
        ("io.modelcontextprotocol/clientInfo".to_owned(), client_info()),
        ("io.modelcontextprotocol/clientCapabilities".to_owned(), offered.clone().into()),
    ])
}

fn client_info() -> Value {
    json!({"name": "kitbag", "title": "Kitbag", "version": env!("CARGO_PKG_VERSION")})
}

fn reworded(error: CallError) -> ConnectError {
    match error {
        CallError::NeedsAuth { challenge } => ConnectError::NeedsAuth { challenge },
        CallError::Disconnected(why) => ConnectError::Failed(why),
        CallError::Refused { code, message, .. } => {
            ConnectError::Failed(format!("the server refuses to connect: {message} ({code})"))
        }
        other => ConnectError::Failed(other.to_string()),
    }
}
