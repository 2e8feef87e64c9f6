//! Agreeing on a revision of the protocol. The newest has no session: a server says what it is when it is asked
//! (`server/discover`), and every request stands for itself. A server that does not know that question is greeted in the older
//! way (`initialize`). A server that knows it and refuses is not: what it says counts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::ask::{Asker, Question};
use super::{Agreed, Answers, CallError, Options, value};
use crate::shallow::Shallow;

/// Revisions without a session, newest first.
const STATELESS: [&str; 1] = ["2026-07-28"];

/// Revisions with a session, newest first.
const SESSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What only a server of the new kind says: wrong headers, a capability that is missing, a revision that it does not have.
const MODERN: [i64; 3] = [-32020, -32021, WRONG_VERSION];
const WRONG_VERSION: i64 = -32022;

/// How long a child may be silent about the new question before it is asked the old one too.
const SILENCE: Duration = Duration::from_secs(5);

/// How to begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    /// With the new question, and the greeting where that is not understood.
    Ask,
    /// With the greeting, and nothing else.
    Greet,
    /// The server had a session last time: with the greeting, and like [`Way::Ask`] if that does not hold any more.
    GreetAgain,
    /// The server had no session last time: with the new question.
    AskAgain,
}

impl Way {
    /// The way to a server with which this revision was agreed on last time.
    pub(super) fn again(revision: Option<&str>) -> Self {
        match revision {
            Some(revision) if SESSIONS.contains(&revision) => Self::GreetAgain,
            Some(revision) if STATELESS.contains(&revision) => Self::AskAgain,
            _ => Self::Ask,
        }
    }

    /// Whether it is known what the server understands.
    pub(super) fn is_known(self) -> bool {
        matches!(self, Self::GreetAgain | Self::AskAgain)
    }

    /// How long a child may be silent before it is asked in another way too. One that is known most likely only starts
    /// slowly, and some die of a question that they do not know.
    fn patience(self, options: &Options) -> Duration {
        if self.is_known() { options.connect / 2 } else { SILENCE.min(options.connect / 3) }
    }
}

/// Finds out which revision both sides speak.
pub(super) async fn agree(
    asker: &Asker,
    answers: &dyn Answers,
    way: Way,
    options: &Options,
) -> Result<Agreed, CallError> {
    let offered = &Offered { session: answers.capabilities(false), stateless: answers.capabilities(true) };
    let mut silence = way.patience(options);
    match way {
        Way::Greet => return greet(asker, &offered.session, SESSIONS[0]).await,
        Way::GreetAgain => {
            if let Some(agreed) = greet_again(asker, offered, silence).await? {
                return Ok(agreed);
            }
            silence = Way::Ask.patience(options);
        }
        Way::Ask | Way::AskAgain => {}
    }
    let mut again = true;
    loop {
        let version = STATELESS[0];
        let verdict = match asked_both(asker, offered, version, silence).await? {
            Both::Greeted(agreed) => return Ok(agreed),
            // A connection that was broken off, but can be made again, is a strange way of saying no, but one.
            Both::Probed(Err(CallError::Disconnected(_))) if asker.hub.reason().is_none() => {
                Verdict::Older(SESSIONS[0])
            }
            Both::Probed(answer) => judge(answer),
        };
        match verdict {
            Verdict::Discovered(found) => return Ok(discovered(found, version, &offered.stateless)),
            // A server may say no to the very revision that it says it has, once: it was starting, or changed its mind.
            Verdict::Retry if again => again = false,
            Verdict::Retry => {
                return Err(CallError::Nonsense(format!("it refuses {version}, which it offers")));
            }
            Verdict::Older(version) => return greet(asker, &offered.session, version).await,
            Verdict::Failed(error) => return Err(error),
        }
    }
}

/// What is offered to servers of either kind.
struct Offered {
    session: Map<String, Value>,
    stateless: Map<String, Value>,
}

/// Greets a server that understood it last time; none if it does not any more. It is offered the newest revision, not the one
/// of last time: it may have learnt another since.
async fn greet_again(asker: &Asker, offered: &Offered, silence: Duration) -> Result<Option<Agreed>, CallError> {
    let mut greeting = std::pin::pin!(greet(asker, &offered.session, SESSIONS[0]));
    let silence = async {
        match asker.link.has_headers() {
            // On the web every request is answered.
            true => std::future::pending().await,
            false => sleep(silence).await,
        }
    };
    let answer = tokio::select! {
        answer = &mut greeting => answer,
        () = silence => {
            let mut probing = std::pin::pin!(discover(asker, &offered.stateless, STATELESS[0]));
            tokio::select! {
                biased;
                answer = &mut greeting => answer,
                answer = &mut probing => match judge(answer) {
                    Verdict::Discovered(found) => return Ok(Some(discovered(found, STATELESS[0], &offered.stateless))),
                    Verdict::Failed(error) => Err(error),
                    Verdict::Older(_) | Verdict::Retry => greeting.await,
                },
            }
        }
    };
    match answer {
        Ok(agreed) => Ok(Some(agreed)),
        Err(error @ CallError::NeedsAuth { .. }) => Err(error),
        Err(error) if asker.hub.reason().is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

enum Both {
    Probed(Result<Value, CallError>),
    Greeted(Agreed),
}

/// Asks the new question, and the old one too when nothing comes back: some servers say nothing to what they do not know.
async fn asked_both(asker: &Asker, offered: &Offered, version: &str, silence: Duration) -> Result<Both, CallError> {
    let mut probing = std::pin::pin!(discover(asker, &offered.stateless, version));
    if asker.link.has_headers() {
        // On the web every request is answered, so silence only means that it takes long.
        return Ok(Both::Probed(probing.await));
    }
    tokio::select! {
        answer = &mut probing => return Ok(Both::Probed(answer)),
        () = sleep(silence) => {}
    }
    let mut greeting = std::pin::pin!(greet(asker, &offered.session, SESSIONS[0]));
    tokio::select! {
        // A server that answers both speaks the newer one.
        biased;
        answer = &mut probing => match judge(answer.clone()) {
            Verdict::Older(_) => greeting.await.map(Both::Greeted),
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
    if STATELESS.iter().any(&offers) {
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
async fn discover(asker: &Asker, offered: &Map<String, Value>, version: &str) -> Result<Value, CallError> {
    let question = Question {
        method: "server/discover",
        params: &mut Shallow::default(),
        beside: Some(&beside(version, offered)),
        version: Some(version.into()),
        headers: Vec::new(),
        // The whole attempt has one.
        deadline: Some(Duration::MAX),
        stop: None,
        progress: None,
        company: None,
        tell: false,
    };
    value(&asker.ask(question).await?)
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
async fn greet(asker: &Asker, offered: &Map<String, Value>, version: &str) -> Result<Agreed, CallError> {
    let params = json!({"protocolVersion": version, "capabilities": offered, "clientInfo": client_info()});
    let mut params = to_raw_value(&params).ok().and_then(|raw| Shallow::read(&raw)).unwrap_or_default();
    let question = Question {
        method: "initialize",
        params: &mut params,
        beside: None,
        version: None,
        headers: Vec::new(),
        // The whole attempt has one.
        deadline: Some(Duration::MAX),
        stop: None,
        progress: None,
        company: None,
        tell: false,
    };
    let mut found = value(&asker.ask(question).await?)?;
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

pub(super) fn beside(version: &str, offered: &Map<String, Value>) -> Shallow {
    let mut beside = Shallow::default();
    beside.set_value("io.modelcontextprotocol/protocolVersion", &version.into());
    beside.set_value("io.modelcontextprotocol/clientInfo", &client_info());
    beside.set_value("io.modelcontextprotocol/clientCapabilities", &offered.clone().into());
    beside
}

fn client_info() -> Value {
    json!({"name": "kitbag", "title": "Kitbag", "version": env!("CARGO_PKG_VERSION")})
}
