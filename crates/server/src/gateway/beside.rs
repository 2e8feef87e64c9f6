//! A client, as it stands beside calls to the servers behind us: it is asked what they ask, and hears what they say.

use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kitbag_mcp::connection::{Answers, Boxed, Refusal};
use kitbag_mcp::serve::{AskError, Client, Fault, code};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::ServerKey;
use serde_json::{Map, Value, json};

use super::progress::Tokens;
use super::tasks::questions::Questions;
use super::tasks::{self, TASKS};

/// How important words for a log can be, least first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What clients may offer to answer, and how it is asked.
const QUESTIONS: [(&str, &str); 3] =
    [("elicitation", "elicitation/create"), ("sampling", "sampling/createMessage"), ("roots", "roots/list")];

/// What a session wants to read of logs. Until it says so, everything.
#[derive(Clone, Debug)]
pub(super) struct LogLevel(Arc<AtomicUsize>);

impl Default for LogLevel {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }
}

impl LogLevel {
    /// From now on only this and what is more important. False if there is no such level.
    pub(super) fn set(&self, level: &str) -> bool {
        let found = LEVELS.iter().position(|known| *known == level);
        found.inspect(|at| self.0.store(*at, Ordering::Relaxed)).is_some()
    }

    /// What it said.
    fn chosen(&self) -> Option<&'static str> {
        LEVELS.get(self.0.load(Ordering::Relaxed)).copied()
    }

    /// Whether it wants to read this.
    pub(super) fn wants(&self, params: &Value) -> bool {
        self.admits(rank_of(params))
    }

    /// Whether it wants to read what is as important as this.
    fn admits(&self, rank: usize) -> bool {
        let chosen = self.0.load(Ordering::Relaxed);
        chosen == usize::MAX || rank >= chosen
    }
}

/// How important words for a log are. What does not say so is.
fn rank_of(params: &Value) -> usize {
    params.get("level").and_then(Value::as_str).and_then(rank).unwrap_or(LEVELS.len())
}

fn rank(level: &str) -> Option<usize> {
    LEVELS.iter().position(|known| *known == level)
}

/// Which client this is, for those who must tell clients of one owner apart. Two sessions of one token are two. Without sessions those
/// are that do not offer the same: a server with sessions is told once what its client offers.
pub(super) fn who_of(client: &Client, owner: &str) -> String {
    if let Some(session) = client.session() {
        return format!("{owner} {session}");
    }
    let offered = &client.peer().capabilities;
    let mut who = owner.to_owned();
    for (kind, _) in QUESTIONS {
        let Some(how) = offered.get(kind) else { continue };
        who = format!("{who} {kind}");
        for part in ["form", "url", "tools", "context"] {
            if how.get(part).is_some() {
                who = format!("{who}.{part}");
            }
        }
    }
    who
}

/// A client beside a call.
pub(super) struct Beside {
    pub(super) client: Client,
    pub(super) who: String,
    pub(super) level: LogLevel,
    /// What a server asked for that the client does not offer.
    missing: OnceLock<&'static str>,
    /// Where questions go, if the call may become a task.
    questions: Option<Arc<Questions>>,
    /// Whose questions they are, and where that is known while they are open.
    of: Option<(Tokens, ServerKey)>,
}

impl Beside {
    pub(super) fn new(client: &Client, who: &str, level: &LogLevel, of: Option<(Tokens, ServerKey)>) -> Arc<Self> {
        Self::with_questions(client, who, level, of, None)
    }

    /// The same, for a call that may become a task.
    pub(super) fn with_questions(
        client: &Client,
        who: &str,
        level: &LogLevel,
        of: Option<(Tokens, ServerKey)>,
        questions: Option<Arc<Questions>>,
    ) -> Arc<Self> {
        let who = who_of(client, who);
        let (client, level) = (client.clone(), level.clone());
        Arc::new(Self { client, who, level, missing: OnceLock::new(), questions, of })
    }

    /// What the client would have had to offer. Where every request says what its client can, one that lacks something is
    /// told, and not served half.
    pub(super) fn lacking(&self) -> Option<Fault> {
        let missing = self.missing.get().filter(|_| self.client.peer().stateless)?;
        let message = format!("the server behind this asks for `{missing}`, which the client does not offer");
        let needed = missing.rsplit('.').fold(json!({}), |inside, name| json!({ name: inside }));
        let data = json!({ "requiredCapabilities": needed });
        Some(Fault::new(code::MISSING_CAPABILITY, message).with_data(data))
    }

    /// Tells a server without sessions what the client wants to read of logs.
    pub(super) fn tell_level(&self, params: &mut Shallow) {
        let peer = self.client.peer();
        let level = if peer.stateless { None } else { self.level.chosen() };
        if let Some(level) = level {
            let mut meta: Map<String, Value> = params.parse("_meta").unwrap_or_default();
            meta.insert("io.modelcontextprotocol/logLevel".to_owned(), level.into());
            params.set_value("_meta", &Value::Object(meta));
        }
    }

    /// Whether the client wants to read this.
    fn wants(&self, params: &Value) -> bool {
        let said = rank_of(params);
        let peer = self.client.peer();
        match (peer.stateless, &peer.log_level) {
            (true, None) => false,
            (true, Some(level)) => rank(level).is_some_and(|least| said >= least),
            (false, _) => self.level.admits(said),
        }
    }
}

impl Answers for Beside {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        let mut capabilities = self.client.peer().capabilities.clone();
        // A session has no way to hear of a task.
        if let Some(Value::Object(extensions)) =
            capabilities.get_mut("extensions").filter(|_| !tasks::offers(&self.client))
        {
            extensions.remove(TASKS);
        }
        // Nor do we carry tasks as 2025-11-25 had them: a server that got one for an answer could not ask how it is.
        capabilities.remove("tasks");
        capabilities
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        if let Some(missing) = self.client.lacks(method, &params) {
            if QUESTIONS.iter().any(|(_, known)| *known == method) {
                let _ = self.missing.set(missing);
            }
            // A server is offered all that there is on a connection that many share: it hears here that this one has not all of it.
            let partly = missing.contains('.').then(|| format!("the client does not offer `{missing}`"));
            return partly.map(|why| Box::pin(ready(Err(Refusal::new(code::INVALID_PARAMS, why)))) as _);
        }
        let open = self.of.as_ref().and_then(|(tokens, server)| tokens.open(&params, server));
        if let Some(questions) = &self.questions {
            let answer = questions.ask(method, params);
            return Some(Box::pin(async move {
                let _open = open;
                answer.await.map_err(|_| Refusal::new(code::INTERNAL, AskError::Gone.to_string()))
            }));
        }
        let (client, method) = (self.client.clone(), method.to_owned());
        Some(Box::pin(async move {
            let _open = open;
            client.ask(&method, params).await.map_err(|error| match error {
                AskError::Refused(refusal) => Refusal::of(&refusal, "it refused"),
                other => Refusal::new(code::INTERNAL, other.to_string()),
            })
        }))
    }

    fn told(&self, method: &str, params: &Value) {
        match (method, params) {
            ("notifications/progress", Value::Object(params)) => self.client.progress(params.clone()),
            ("notifications/message", params) if self.wants(params) => self.client.notify(method, params.clone()),
            ("notifications/elicitation/complete", params) => self.client.notify(method, params.clone()),
            _ => {}
        }
    }

    fn relays(&self) -> bool {
        self.questions.as_ref().is_none_or(|questions| questions.relays())
    }

    fn who(&self) -> &str {
        &self.who
    }
}
