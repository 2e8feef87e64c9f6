//! The door over HTTP: which revision a request is of, whose session it belongs to, and who answers.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::bridge::BRIDGE;
use super::client::{Client, Peer, Voice};
use super::exchange::{Exchange, Outcome};
use super::line::Lines;
use super::message::{INVALID_REQUEST, Id, Incoming};
use super::reply::{Events, First, Reply, Ties};
use super::session::{Answering, Session};
use super::sessions::Sessions;
use super::suspended::{Mark, Suspended, digest, hand_over};
use super::{Ask, Fault, SESSIONS, STATELESS, Service, code, headers, stateless};
use crate::lasting::Lasting;

/// How long a client may wait for the first byte: then it gets a stream, which shows that it is not forgotten.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much there may be at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A session that nobody uses ends after this long.
    pub idle: Duration,
    /// The most sessions of one owner.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(8 * 3600), sessions: 1000 }
    }
}

/// A request over HTTP, without its body.
pub struct Visit<'a> {
    /// Whose it is. A session or a state of another owner is not there.
    pub owner: &'a str,
    /// The address, which a session belongs to.
    pub place: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// All that is going on between clients and what is served to them.
pub struct Front {
    sessions: Sessions,
    pub(super) lines: Lines,
    suspended: Suspended,
    pub(super) limits: Limits,
    mark: Option<Mark>,
}

impl Front {
    /// Nobody is here yet.
    pub fn new(limits: Limits) -> Self {
        let sessions = Sessions::default();
        sessions.sweep(limits.idle);
        Self { sessions, lines: Lines::default(), suspended: Suspended::default(), limits, mark: None }
    }

    /// The same, whose sessions' names end with a dot and a mark, by which another server knows where one is, and the states of requests that
    /// wait with an `@` and the mark.
    #[must_use]
    pub fn marked(self, mark: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        let mark: Mark = Arc::new(mark);
        Self { suspended: self.suspended.marked(Arc::clone(&mark)), mark: Some(mark), ..self }
    }

    /// A name for a session that begins.
    pub(super) fn name(&self) -> Result<String, Fault> {
        let name = Sessions::name()?;
        Ok(match self.mark.as_ref().and_then(|mark| mark()) {
            Some(mark) => format!("{name}.{mark}"),
            None => name,
        })
    }

    /// Ends all sessions and streams.
    pub fn close(&self) {
        self.sessions.clear();
        self.lines.clear();
    }

    /// A message of a client. `open` makes what is served, for a new session or for a request that has none.
    pub async fn post<F>(&self, visit: &Visit<'_>, body: &[u8], open: impl FnOnce() -> F) -> Reply
    where
        F: Future<Output = Result<Arc<dyn Service>, Fault>>,
    {
        let message = match Incoming::read(body) {
            Ok(message) => message,
            Err(fault) => return Reply::fault(None, fault),
        };
        match self.era(visit, &message) {
            Err(fault) => Reply::fault(id_of(&message), fault),
            Ok(Era::Stateless) => self.stateless(visit, message, open).await,
            Ok(Era::Begin) => self.begin(visit, message, open).await,
            Ok(Era::Session(session)) => self.in_session(visit, &session, message).await,
        }
    }

    /// A client wants to hear what is said by itself, or the rest of what it lost.
    pub fn get(&self, visit: &Visit<'_>) -> Reply {
        let session = match self.session(visit) {
            Ok(Some(session)) => session,
            Ok(None) => return Reply::empty(405),
            Err(fault) => return Reply::fault(None, fault),
        };
        if !accepts(visit.headers, "text/event-stream") {
            let fault = Fault::new(-32000, "what is said by itself comes as `text/event-stream`; accept it");
            return Reply::fault(None, fault.with_status(406));
        }
        let last = visit.headers.get("last-event-id").and_then(|value| value.to_str().ok());
        let unasked = session.unasked();
        // What is said by itself is for one of all that listen. What belongs to a request has one who reads it.
        let (exchange, place, reader) = match last.map(|last| last.split_once('-').map(|(a, b)| (a.parse(), b.parse())))
        {
            None => (unasked.clone(), 0, Some(unasked.reader())),
            Some(Some((Ok(0), Ok(place)))) => (unasked.clone(), place, Some(unasked.follower(place))),
            Some(Some((Ok(number), Ok(place)))) => match session.kept(number) {
                Some(exchange) => (exchange, place, None),
                None => return Reply::empty(404),
            },
            Some(_) => return Reply::empty(400),
        };
        Reply::events(Events::new(exchange, place, Ties::Session(session)).reading(reader))
    }

    /// A client ends its session.
    pub fn delete(&self, visit: &Visit<'_>) -> Reply {
        match self.session(visit) {
            Ok(Some(session)) => {
                self.sessions.remove(&session);
                Reply::empty(204)
            }
            Ok(None) => Reply::empty(405),
            Err(fault) => Reply::fault(None, fault),
        }
    }

    /// The session that a request names.
    fn session(&self, visit: &Visit<'_>) -> Result<Option<Arc<Session>>, Fault> {
        let mut ids = visit.headers.get_all("mcp-session-id").iter();
        let Some(id) = ids.next() else { return Ok(None) };
        if ids.next().is_some() {
            return Err(Fault::new(-32000, "there must be one Mcp-Session-Id header").with_status(400));
        }
        let found = id.to_str().ok().and_then(|id| self.sessions.find(id, visit.owner, visit.place));
        // One of somebody else and one that is over are the same.
        found.map(Some).ok_or_else(|| Fault::new(-32001, "there is no such session; begin a new one").with_status(404))
    }

    fn era(&self, visit: &Visit<'_>, message: &Incoming) -> Result<Era, Fault> {
        let version = headers::only(visit.headers, "mcp-protocol-version")?;
        let older = version.is_some_and(|version| SESSIONS.contains(&version));
        let greets = matches!(message, Incoming::Request { method, .. } if method == "initialize");
        if greets && (older || version.is_none()) {
            return Ok(Era::Begin);
        }
        if older || version.is_none() && visit.headers.contains_key("mcp-session-id") {
            let needed = || Fault::new(-32000, "the header Mcp-Session-Id is needed: begin with `initialize`");
            return self.session(visit)?.map(Era::Session).ok_or_else(|| needed().with_status(400));
        }
        let bare = version.is_none() && !is_modern(message);
        if bare {
            let message = "the request says of no revision of the protocol that it is of it: begin with `initialize`, or \
                           say it in the header MCP-Protocol-Version";
            return Err(Fault::new(-32000, message).with_status(400));
        }
        Ok(Era::Stateless)
    }

    async fn begin<F>(&self, visit: &Visit<'_>, message: Incoming, open: impl FnOnce() -> F) -> Reply
    where
        F: Future<Output = Result<Arc<dyn Service>, Fault>>,
    {
        let Incoming::Request { id, params, .. } = message else { return Reply::empty(400) };
        let made = async {
            let greeting = greeting(params.as_deref())?;
            let service = open().await?;
            let session = self.join(self.name()?, visit, greeting, service)?;
            Ok::<_, Fault>((session.id().to_owned(), hello(&session)))
        };
        match made.await {
            Err(fault) => Reply::fault(Some(&id), fault),
            Ok((name, result)) => {
                let text = super::message::response(Some(&id), &result);
                Reply { session: Some(name), ..Reply::json(200, text) }
            }
        }
    }

    fn join(
        &self,
        name: String,
        visit: &Visit<'_>,
        peer: Peer,
        service: Arc<dyn Service>,
    ) -> Result<Arc<Session>, Fault> {
        let session = Session::new(name, visit.owner, visit.place, peer, service);
        self.sessions.insert(session.clone(), self.limits.sessions)?;
        session.service().clone().joined(Voice(Arc::downgrade(&session)));
        Ok(session)
    }

    async fn in_session(&self, visit: &Visit<'_>, session: &Arc<Session>, message: Incoming) -> Reply {
        match message {
            Incoming::Response { id, outcome } => {
                session.answered(&id, outcome);
                Reply::empty(202)
            }
            Incoming::Notification { method, params } => {
                notified(session, method, params);
                Reply::empty(202)
            }
            Incoming::Request { id, method, params } => {
                let (exchange, work) = match begin(session, id.clone(), method, params) {
                    Ok(begun) => begun,
                    Err(fault) => return Reply::fault(Some(&id), fault),
                };
                let mut events = Events::new(exchange.clone(), 0, Ties::Session(session.clone())).working(work);
                if !accepts(visit.headers, "text/event-stream") {
                    return whole(&mut events, |_| 200).await;
                }
                match events.first(Some(PATIENCE)).await {
                    // The older revisions have errors of the protocol in answers that are fine for HTTP.
                    First::Answer(outcome) => Reply::json(200, events.response(&outcome)),
                    First::Nothing => Reply::empty(202),
                    First::Stream => {
                        session.keep(&exchange);
                        if session.peer().version.as_str() >= "2025-11-25" {
                            events.prime();
                        }
                        Reply::events(events)
                    }
                }
            }
        }
    }

    async fn stateless<F>(&self, visit: &Visit<'_>, message: Incoming, open: impl FnOnce() -> F) -> Reply
    where
        F: Future<Output = Result<Arc<dyn Service>, Fault>>,
    {
        let (id, method, params) = match message {
            Incoming::Request { id, method, params } => (id, method, params),
            // There is nothing that a client without a session could have to say unasked, or to answer.
            Incoming::Notification { .. } => return Reply::empty(202),
            Incoming::Response { id, .. } => {
                let message = "nothing was asked: answers go into `inputResponses` of the next request";
                return Reply::fault(Some(&id), Fault::new(INVALID_REQUEST, message).with_status(400));
            }
        };
        let began = self.begin_stateless(visit, id.clone(), method, params, open).await;
        let mut events = match began {
            Ok(events) => events,
            Err(fault) => return Reply::fault(Some(&id), fault),
        };
        let status = |fault: &Fault| match (fault.status, fault.code) {
            (Some(status), _) => status,
            (None, code::METHOD_NOT_FOUND) => 404,
            (None, code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => 400,
            (None, _) => 200,
        };
        if !accepts(visit.headers, "text/event-stream") {
            return whole(&mut events, status).await;
        }
        match events.first(Some(PATIENCE)).await {
            First::Answer(outcome) => {
                let code = outcome.as_ref().as_ref().err().map_or(200, status);
                Reply::json(code, events.response(&outcome))
            }
            First::Nothing => Reply::empty(202),
            First::Stream => Reply::events(events),
        }
    }

    async fn begin_stateless<F>(
        &self,
        visit: &Visit<'_>,
        id: Id,
        method: String,
        params: Option<Box<RawValue>>,
        open: impl FnOnce() -> F,
    ) -> Result<Events, Fault>
    where
        F: Future<Output = Result<Arc<dyn Service>, Fault>>,
    {
        let beside = stateless::beside(visit.headers, &method, params.as_deref())?;
        if let Some(state) = beside.state.as_deref().filter(|state| Suspended::is_name(state)) {
            headers::check(visit.headers, &method, beside.name.as_deref())?;
            let asked = digest(&method, params.as_deref());
            let parked = self.suspended.take(state, visit.owner, &asked)?;
            parked.exchange.continued(id, beside.progress_token);
            let mut answers: Map<String, Value> = match beside.answers {
                Some(Value::Object(answers)) => answers,
                _ => Map::new(),
            };
            hand_over(&parked.exchange, &mut answers);
            let digest: Box<dyn Fn() -> [u8; 32] + Send + Sync> = Box::new(move || asked);
            return Ok(Events::new(parked.exchange, parked.place, self.ties(visit, digest)));
        }
        let service = open().await?;
        if method != "server/discover" && !service.knows(&method, true) {
            return Err(Fault::no_method(&method));
        }
        headers::check(visit.headers, &method, beside.name.as_deref())?;
        let exchange = Exchange::new(0, Some(id), beside.progress_token);
        let kept = params.clone();
        let same = method.clone();
        let digest: Box<dyn Fn() -> [u8; 32] + Send + Sync> = Box::new(move || digest(&same, kept.as_deref()));
        let events = Events::new(exchange.clone(), 0, self.ties(visit, digest));
        if method == "server/discover" {
            exchange.answer(discovered(&*service));
            return Ok(events);
        }
        let arguments = match visit.headers.contains_key(BRIDGE) {
            // Pipes have no headers, and what comes from one has none.
            true => None,
            false => Some(headers::of_arguments(visit.headers)?),
        };
        let client = Client::new(Arc::new(beside.peer), exchange.clone(), None);
        let answering = service.request(Ask { method, params, client, arguments });
        let guard = Answering(exchange);
        let work = Lasting::new(async move {
            let outcome = answering.await.map(complete);
            guard.0.answer(outcome);
        });
        Ok(events.working(Some(work)))
    }

    fn ties(&self, visit: &Visit<'_>, digest: Box<dyn Fn() -> [u8; 32] + Send + Sync>) -> Ties {
        Ties::Stateless { suspended: self.suspended.clone(), owner: visit.owner.to_owned(), digest }
    }
}

enum Era {
    Begin,
    Session(Arc<Session>),
    Stateless,
}

fn id_of(message: &Incoming) -> Option<&Id> {
    match message {
        Incoming::Request { id, .. } => Some(id),
        _ => None,
    }
}

/// Whether a request says in its parameters that it is of a revision without sessions.
fn is_modern(message: &Incoming) -> bool {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Option<Map<String, Value>>,
    }
    let Incoming::Request { params: Some(params), .. } = message else { return false };
    let read: Option<Params> = serde_json::from_str(params.get()).ok();
    read.and_then(|params| params.meta).is_some_and(|meta| meta.contains_key("io.modelcontextprotocol/protocolVersion"))
}

/// What a client says when it begins a session.
pub(super) fn greeting(params: Option<&RawValue>) -> Result<Peer, Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Greeting {
        protocol_version: String,
        #[serde(default)]
        capabilities: Map<String, Value>,
        #[serde(default)]
        client_info: Value,
    }
    let text = params.map_or("{}", RawValue::get);
    let read: Greeting = serde_json::from_str(text)
        .map_err(|error| Fault::params(format!("the parameters of initialize: {error}")).with_status(400))?;
    // One that we do not know is answered with the newest that we do; the client then decides.
    let version = SESSIONS.iter().find(|version| **version == read.protocol_version).unwrap_or(&SESSIONS[0]);
    Ok(Peer {
        version: (*version).to_owned(),
        stateless: false,
        capabilities: read.capabilities,
        info: read.client_info,
        log_level: None,
    })
}

pub(super) fn hello(session: &Session) -> Outcome {
    let mut hello = session.service().hello();
    if let Some(Value::Object(extensions)) = hello.capabilities.get_mut("extensions") {
        // Their requests cannot say that their client knows tasks.
        extensions.remove("io.modelcontextprotocol/tasks");
    }
    let mut result = json!({"protocolVersion": session.peer().version, "capabilities": hello.capabilities, "serverInfo": hello.info});
    if let (Some(instructions), Some(result)) = (hello.instructions, result.as_object_mut()) {
        result.insert("instructions".to_owned(), instructions.into());
    }
    to_raw_value(&result).map_err(|error| Fault::new(code::INTERNAL, error.to_string()))
}

fn discovered(service: &dyn Service) -> Outcome {
    let hello = service.hello();
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": stateless::supported(),
        "capabilities": hello.capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": hello.info},
    });
    if let (Some(instructions), Some(result)) = (hello.instructions, result.as_object_mut()) {
        result.insert("instructions".to_owned(), instructions.into());
    }
    to_raw_value(&result).map_err(|error| Fault::new(code::INTERNAL, error.to_string()))
}

/// Says what kind of result it is, where nobody did: servers of older revisions do not, and clients of the newest insist.
fn complete(result: Box<RawValue>) -> Box<RawValue> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "resultType")]
        kind: Option<serde::de::IgnoredAny>,
    }
    let text = result.get();
    match serde_json::from_str::<Kind>(text) {
        Ok(Kind { kind: None }) => {
            let rest = text.trim_start().strip_prefix('{').unwrap_or_default();
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            RawValue::from_string(format!("{{\"resultType\":\"complete\"{comma}{rest}")).unwrap_or(result)
        }
        _ => result,
    }
}

/// Begins a request in a session.
pub(super) fn begin(
    session: &Arc<Session>,
    id: Id,
    method: String,
    params: Option<Box<RawValue>>,
) -> Result<(Arc<Exchange>, Option<Lasting>), Fault> {
    #[derive(Deserialize, Default)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "progressToken")]
        token: Option<Value>,
    }
    if method == "ping" {
        let exchange = Exchange::new(0, Some(id), None);
        exchange.answer(to_raw_value(&json!({})).map_err(|error| Fault::new(code::INTERNAL, error.to_string())));
        return Ok((exchange, None));
    }
    if !session.service().knows(&method, false) {
        return Err(Fault { status: None, ..Fault::no_method(&method) });
    }
    let read: Params = params
        .as_deref()
        .map_or_else(|| Ok(Params::default()), |params| serde_json::from_str(params.get()))
        .map_err(|error| Fault::params(format!("the parameters of {method}: {error}")))?;
    let (exchange, work) = session.begin(id, method, params, read.meta.and_then(|meta| meta.token))?;
    Ok((exchange, Some(work)))
}

/// A client said something in its session.
pub(super) fn notified(session: &Arc<Session>, method: String, params: Option<Box<RawValue>>) {
    if method == "notifications/cancelled" {
        let read: Option<Value> = params.and_then(|params| serde_json::from_str(params.get()).ok());
        if let Some(id) = read.and_then(|params| Id::of(params.get("requestId")?)) {
            session.cancel(&id);
        }
        return;
    }
    session.service().clone().notified(method, params);
}

/// The answer as one message, for a client that reads no streams.
async fn whole(events: &mut Events, status: impl Fn(&Fault) -> u16) -> Reply {
    match events.answer().await {
        Some(outcome) => {
            let code = outcome.as_ref().as_ref().err().map_or(200, status);
            Reply::json(code, events.response(&outcome))
        }
        None => Reply::empty(202),
    }
}

/// Whether a client takes this kind of answer. One that says nothing takes everything.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let mut said = headers.get_all("accept").iter().peekable();
    if said.peek().is_none() {
        return true;
    }
    let family = kind.split('/').next().unwrap_or_default();
    said.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|one| {
        let one = one.split(';').next().unwrap_or_default().trim();
        let of_family = || one.strip_suffix("/*").is_some_and(|one| one.eq_ignore_ascii_case(family));
        one.eq_ignore_ascii_case(kind) || one == "*/*" || of_family()
    })
}

const _: () = assert!(STATELESS.len() == 1, "which revision a bare request is of is decided by there being one");
