//! A server that speaks the wire's types, remembers everything that it was told, and fails as a test says.
//!
//! It keeps to what `docs/decisions/agent-runs.md` says of a server: after each greeting it says again what it wants, it counts each
//! event and each result once, and of what is somebody else's it says `Drop`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use kitbag_model::run::wire::{Assignment, AttemptId, FileRef, FromExecutor, FromServer};
use kitbag_model::run::{RunEvent, RunOutcome};
use kitbag_model::{ContentHash, ExecutorId, RunId, WorkPath};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

pub const TOKEN: &str = "org.the-executors-own-token";
pub const PAIRING: &str = "org.the-pairing-token";

/// How long something may take that must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// What goes wrong when a message comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// The connection breaks, and the message was never read.
    Lost,
    /// The connection breaks when the message was written down, before anybody says so.
    Unanswered,
    /// The message is written down, and nobody says so.
    Mute,
    /// Everything that is said is said twice.
    Twice,
}

/// Says what goes wrong: with the number of the connection, that of the message in it, both from 1, and the message.
type Faults = Box<dyn FnMut(usize, usize, &FromExecutor) -> Fault + Send>;

#[derive(Clone)]
pub struct StandIn(Arc<Inner>);

struct Inner {
    url: String,
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
    faults: Mutex<Faults>,
}

/// Everything that happened.
#[derive(Default)]
pub struct Seen {
    pub connections: usize,
    /// What each greeting named.
    pub hellos: Vec<Vec<AttemptId>>,
    pub engines: Vec<String>,
    pub heartbeats: usize,
    pub started: BTreeSet<AttemptId>,
    pub events: BTreeMap<AttemptId, Vec<RunEvent>>,
    pub results: BTreeMap<AttemptId, (RunOutcome, Option<BTreeMap<WorkPath, FileRef>>)>,
    pub refused: Vec<(AttemptId, String)>,
    /// What a server must never be told: gaps, the same number with other content, two ends.
    pub wrong: Vec<String>,
    /// How often something came that was known.
    pub again: usize,
    pub blobs: HashMap<ContentHash, Vec<u8>>,
    pub fetched: Vec<ContentHash>,
    pub put: Vec<ContentHash>,
    /// Requests for files that get 503 before one is answered.
    pub busy: usize,
    pub revoked: bool,
    pub paired: Vec<Value>,
    /// What this executor is to do.
    given: BTreeMap<AttemptId, Assignment>,
    dropped: BTreeSet<AttemptId>,
    say: Option<mpsc::UnboundedSender<Option<FromServer>>>,
}

impl Seen {
    pub fn texts(&self, id: AttemptId) -> Vec<String> {
        let events = self.events.get(&id).into_iter().flatten();
        events
            .filter_map(|event| match &event.kind {
                kitbag_model::run::RunEventKind::Text { text } => Some(text.clone()),
                _ => None,
            })
            .collect()
    }

    pub fn code(&self, id: AttemptId) -> Option<String> {
        Some(self.results.get(&id)?.0.error.as_ref()?.code.clone())
    }
}

impl StandIn {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let this = Self(Arc::new(Inner {
            url: format!("http://{}", listener.local_addr().unwrap()),
            seen: Mutex::default(),
            changed: watch::Sender::new(()),
            faults: Mutex::new(Box::new(|_, _, _| Fault::None)),
        }));
        let router = Router::new()
            .route("/v1/executors/pair", post(pair))
            .route("/v1/executors/connect", get(connect))
            .route("/v1/executors/attempts/{run}/{attempt}/missing", post(missing))
            .route("/v1/executors/attempts/{run}/{attempt}/blobs/{hash}", get(blob).put(put_blob))
            .with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        this
    }

    pub fn url(&self) -> &str {
        &self.0.url
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap()
    }

    pub fn fail(&self, faults: impl FnMut(usize, usize, &FromExecutor) -> Fault + Send + 'static) {
        *self.0.faults.lock().unwrap() = Box::new(faults);
    }

    /// Gives the executor something to do; at once if it is there, or when it greets.
    pub fn give(&self, job: Assignment) {
        let mut seen = self.seen();
        seen.given.insert(job.id, job.clone());
        seen.say(FromServer::Run(Box::new(job)));
    }

    pub fn say(&self, said: FromServer) {
        self.seen().say(said);
    }

    /// Breaks the connection, if there is one.
    pub fn hang_up(&self) {
        if let Some(say) = &self.seen().say {
            let _ = say.send(None);
        }
    }

    /// Forgets that it gave something: what is said of it is answered with `Drop`.
    pub fn take_away(&self, id: AttemptId) {
        let mut seen = self.seen();
        seen.dropped.insert(id);
        seen.say(FromServer::Drop { id, reason: "its lease ran out".into() });
    }

    pub fn revoke(&self, say: bool) {
        let mut seen = self.seen();
        seen.revoked = true;
        if say {
            seen.say(FromServer::Revoked);
        }
    }

    /// Waits until something was seen.
    pub async fn until<T>(&self, what: &str, holds: impl Fn(&Seen) -> Option<T>) -> T {
        let mut changes = self.0.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = holds(&self.seen()) {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => {
                let seen = self.seen();
                panic!("never: {what}; {} connections, wrong: {:?}", seen.connections, seen.wrong)
            }
        }
    }

    /// The texts that came of an attempt, if nothing wrong was ever told.
    pub fn texts(&self, id: AttemptId) -> Vec<String> {
        let seen = self.seen();
        assert_eq!(seen.wrong, [""; 0]);
        seen.texts(id)
    }

    pub async fn result(&self, id: AttemptId) -> RunOutcome {
        self.until("a result", |seen| Some(seen.results.get(&id)?.0.clone())).await
    }

    fn changed(&self) {
        self.0.changed.send_replace(());
    }
}

impl Seen {
    fn say(&self, said: FromServer) {
        if let Some(say) = &self.say {
            let _ = say.send(Some(said));
        }
    }

    /// Writes a message down. What is to be answered.
    fn hear(&mut self, message: FromExecutor) -> Vec<FromServer> {
        match message {
            FromExecutor::Hello { holding, engines, .. } => {
                self.engines = engines.iter().map(|engine| format!("{} {}", engine.id, engine.version)).collect();
                let mut answers = vec![FromServer::Welcome {
                    executor_id: ExecutorId::generate(),
                    heartbeat_seconds: 1,
                    lease_seconds: 60,
                }];
                let gone = holding.iter().filter(|id| !self.given.contains_key(id) || self.dropped.contains(id));
                answers.extend(gone.map(|id| FromServer::Drop { id: *id, reason: "it is not yours".into() }));
                let open = self.given.values().filter(|job| {
                    !holding.contains(&job.id)
                        && !self.results.contains_key(&job.id)
                        && !self.dropped.contains(&job.id)
                        && self.refused.iter().all(|(id, _)| *id != job.id)
                });
                answers.extend(open.map(|job| {
                    let acknowledged = self.events.get(&job.id).map_or(0, |events| events.len() as u64);
                    FromServer::Run(Box::new(Assignment { acknowledged, ..job.clone() }))
                }));
                self.hellos.push(holding);
                answers
            }
            FromExecutor::Heartbeat { holding } => {
                self.heartbeats += 1;
                let given_back = holding.iter().filter(|id| self.refused.iter().any(|(refused, _)| refused == *id));
                let wrong = given_back.map(|id| format!("{id}: it was given back and is named all the same"));
                self.wrong.extend(wrong.collect::<Vec<_>>());
                let gone = holding.into_iter().filter(|id| self.dropped.contains(id));
                gone.map(|id| FromServer::Drop { id, reason: "it is not yours".into() }).collect()
            }
            FromExecutor::Started { id } => {
                self.started.insert(id);
                Vec::new()
            }
            FromExecutor::Refused { id, reason } => {
                self.refused.push((id, reason));
                Vec::new()
            }
            FromExecutor::Events { id, .. } | FromExecutor::Result { id, .. }
                if self.dropped.contains(&id) || !self.given.contains_key(&id) =>
            {
                vec![FromServer::Drop { id, reason: "it is not yours".into() }]
            }
            FromExecutor::Events { id, events } => {
                let known = self.events.entry(id).or_default();
                for event in events {
                    let (number, count) = (event.seq, known.len() as u64);
                    match () {
                        () if number == count + 1 => known.push(event),
                        () if number > count => self.wrong.push(format!("{id}: {number} came behind {count}")),
                        () if known[number as usize - 1] == event => self.again += 1,
                        () => self.wrong.push(format!("{id}: {number} came again as something else")),
                    }
                }
                vec![FromServer::Ack { id, seq: self.events[&id].len() as u64, result: false }]
            }
            FromExecutor::Result { id, outcome, files } => {
                let result = (outcome, files);
                match self.results.get(&id) {
                    None => drop(self.results.insert(id, result)),
                    Some(known) if *known == result => self.again += 1,
                    Some(_) => self.wrong.push(format!("{id}: it ended twice, in two ways")),
                }
                vec![FromServer::Ack { id, seq: self.events.get(&id).map_or(0, Vec::len) as u64, result: true }]
            }
        }
    }
}

fn is_known(headers: &HeaderMap, seen: &Seen) -> bool {
    headers["authorization"] == format!("Bearer {TOKEN}") && !seen.revoked
}

async fn pair(State(this): State<StandIn>, Json(body): Json<Value>) -> Response {
    let refused =
        |status: StatusCode, code: &str| (status, Json(json!({ "code": code, "message": code }))).into_response();
    match body["pairingToken"].as_str() {
        Some(PAIRING) => {}
        Some("org.old") => return refused(StatusCode::BAD_REQUEST, "PAIRING_TOKEN_EXPIRED"),
        _ => return refused(StatusCode::UNAUTHORIZED, "PAIRING_TOKEN_INVALID"),
    }
    this.seen().paired.push(body);
    let answer = json!({
        "executorId": ExecutorId::generate(), "executorToken": TOKEN, "organizationId": "acme",
        "gatewayWsUrl": format!("{}/v1/executors/connect", this.url().replace("http", "ws")),
    });
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn connect(State(this): State<StandIn>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    if !is_known(&headers, &this.seen()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    upgrade.max_message_size(64 << 20).on_upgrade(move |socket| serve(this, socket))
}

async fn serve(this: StandIn, mut socket: WebSocket) {
    let (say, mut queue) = mpsc::unbounded_channel();
    let connection = {
        let mut seen = this.seen();
        seen.connections += 1;
        seen.say = Some(say);
        seen.connections
    };
    let mut number = 0;
    loop {
        let answers = tokio::select! {
            said = queue.recv() => match said {
                Some(Some(said)) => vec![said],
                // A newer connection, or the test, ends this one.
                _ => return,
            },
            heard = socket.recv() => {
                let text = match heard {
                    Some(Ok(Message::Text(text))) => text,
                    Some(Ok(_)) => continue,
                    _ => return,
                };
                let message: FromExecutor = serde_json::from_str(&text).unwrap();
                number += 1;
                let fault = (this.0.faults.lock().unwrap())(connection, number, &message);
                if fault == Fault::Lost {
                    return;
                }
                let answers = this.seen().hear(message);
                this.changed();
                match fault {
                    Fault::Unanswered => return,
                    Fault::Mute => Vec::new(),
                    Fault::Twice => answers.iter().chain(&answers).cloned().collect(),
                    _ => answers,
                }
            }
        };
        for answer in answers {
            if socket.send(Message::Text(serde_json::to_string(&answer).unwrap().into())).await.is_err() {
                return;
            }
        }
    }
}

/// What keeps a request for files from being answered.
fn hindrance(this: &StandIn, headers: &HeaderMap, run: RunId, attempt: u32) -> Option<StatusCode> {
    let mut seen = this.seen();
    if !is_known(headers, &seen) {
        return Some(StatusCode::UNAUTHORIZED);
    }
    if seen.busy > 0 {
        seen.busy -= 1;
        return Some(StatusCode::SERVICE_UNAVAILABLE);
    }
    let id = AttemptId { run_id: run, attempt };
    (!seen.given.contains_key(&id) || seen.dropped.contains(&id)).then_some(StatusCode::CONFLICT)
}

async fn missing(
    State(this): State<StandIn>,
    Path((run, attempt)): Path<(RunId, u32)>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    if let Some(status) = hindrance(&this, &headers, run, attempt) {
        return status.into_response();
    }
    let asked: Vec<ContentHash> = serde_json::from_value(body["hashes"].clone()).unwrap();
    let seen = this.seen();
    let missing: Vec<_> = asked.into_iter().filter(|hash| !seen.blobs.contains_key(hash)).collect();
    Json(json!({ "missing": missing })).into_response()
}

async fn blob(
    State(this): State<StandIn>,
    Path((run, attempt, hash)): Path<(RunId, u32, ContentHash)>,
    headers: HeaderMap,
) -> Response {
    if let Some(status) = hindrance(&this, &headers, run, attempt) {
        return status.into_response();
    }
    let mut seen = this.seen();
    seen.fetched.push(hash);
    seen.blobs.get(&hash).cloned().map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
}

async fn put_blob(
    State(this): State<StandIn>,
    Path((run, attempt, hash)): Path<(RunId, u32, ContentHash)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(status) = hindrance(&this, &headers, run, attempt) {
        return status.into_response();
    }
    if ContentHash::of(&body) != hash {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let mut seen = this.seen();
    seen.put.push(hash);
    seen.blobs.insert(hash, body.to_vec());
    StatusCode::NO_CONTENT.into_response()
}
