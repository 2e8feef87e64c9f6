//! A connection that other nodes use as well: whoever has no process of a server asks the one that has. What comes is asked on the shared
//! connection, under numbers of ours, and what the server says by itself is passed on to all. Nobody asks here whether somebody may: the node
//! that asks has done that, and keeps the record.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};

use super::ManagerError;
use super::handle::Handle;
use crate::connection::{Answers, Boxed, Call, CallError, Connection, MOVED, Refusal, Wire, told};
use crate::resolve::Redactor;
use crate::shallow::Shallow;
use crate::transport::lines::Lines;
use crate::transport::peer::Said;

/// So many requests of one node may be under way.
const MOST: usize = 4096;

/// The code of what is refused because there is too much of it.
const TOO_MUCH: i64 = -32000;

/// So long another node has to let go of a connection that takes nothing new.
const FAREWELL: Duration = Duration::from_secs(10);

/// What a node sends, of which only the outermost is looked at.
#[derive(Deserialize)]
struct Message<'a> {
    id: Option<u64>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    result: Option<Value>,
    error: Option<Value>,
}

/// The connection of a server that this node holds, for another one.
pub struct Lent {
    pub(super) handle: Arc<Handle>,
    pub(super) connection: Connection,
    pub(super) longest: usize,
    pub(super) longest_call: Duration,
}

/// Questions of the server that wait for the other node.
type Questions = Arc<Mutex<Waiting>>;
type Waiting = HashMap<u64, oneshot::Sender<Result<Value, Refusal>>>;

static ASKED: AtomicU64 = AtomicU64::new(1);

impl Lent {
    /// Serves the other node until it goes away, or the connection ends.
    pub async fn serve(self, wire: Wire) {
        let (mut reader, writer) = tokio::io::split(wire);
        let (said, writing) = Said::new(writer, self.longest);
        let redactor = self.handle.link.redactor.clone();
        said.say(self.connection.hello(|value| redactor.result(value)));
        let mut heard = self.handle.link.listen();
        let mut news = self.handle.link.news.subscribe();
        let mut lines = Lines::new(self.longest);
        let mut desk = Desk {
            lent: &self,
            said,
            questions: Questions::default(),
            who: format!("node {}", ASKED.fetch_add(1, Ordering::Relaxed)),
            under_way: HashMap::new(),
            working: JoinSet::new(),
        };
        let mut until: Option<Instant> = None;
        tokio::pin!(writing);
        loop {
            if until.is_none() && !self.is_there() {
                desk.moved();
                until = Some(Instant::now() + FAREWELL);
            }
            let late = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                more = lines.more(&mut reader) => {
                    if !matches!(more, Ok(1..)) {
                        return;
                    }
                    while let Some(line) = lines.next() {
                        desk.take(line);
                    }
                    if lines.too_long() {
                        return;
                    }
                }
                Some(done) = desk.working.join_next(), if !desk.working.is_empty() => {
                    if let Ok(id) = done {
                        desk.under_way.remove(&id);
                    }
                }
                Some((method, params, whom)) = heard.recv() => {
                    if whom.is_some_and(|whom| whom != desk.who) {
                        continue;
                    }
                    desk.said.say(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
                }
                changed = news.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = sleep_until(late), if until.is_some() && desk.working.is_empty() => return,
                () = &mut writing => return,
            }
        }
    }

    /// Whether the connection is the one that is used.
    fn is_there(&self) -> bool {
        let state = self.handle.link.state();
        state.connection.as_ref().is_some_and(|connection| connection.is(&self.connection)) && !state.stopping
    }
}

/// What is under way for one node. What is left of it when it is dropped is given up, and the server is told.
struct Desk<'a> {
    lent: &'a Lent,
    said: Said,
    questions: Questions,
    who: String,
    under_way: HashMap<u64, watch::Sender<bool>>,
    working: JoinSet<u64>,
}

impl Desk<'_> {
    fn moved(&self) {
        let why = "its process was ended, or is about to be";
        self.said.say(json!({ "jsonrpc": "2.0", "method": MOVED, "params": { "why": why } }).to_string());
    }

    fn take(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return };
        match (message.method.as_deref(), message.id) {
            (Some(method), Some(id)) => self.asked(id, method, message.params),
            (Some("notifications/cancelled"), None) => {
                let params: Value =
                    message.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
                let id = params.get("requestId").and_then(Value::as_u64);
                if let Some(stop) = id.and_then(|id| self.under_way.get(&id)) {
                    stop.send_replace(true);
                }
            }
            (None, Some(id)) => {
                let Some(waits) = all(&self.questions).remove(&id) else { return };
                let answer = match message.error {
                    Some(error) => Err(Refusal::of(&error, "")),
                    None => Ok(message.result.unwrap_or_default()),
                };
                // Who asked may not wait any more.
                let _ = waits.send(answer);
            }
            _ => {}
        }
    }

    fn asked(&mut self, id: u64, method: &str, params: Option<&RawValue>) {
        if self.working.len() >= MOST {
            // Nobody heard of it, but to ask again would only be more of it.
            let message = format!("{MOST} requests of this node are under way there; try again when some are over");
            self.said.say(answer(id, Err(CallError::Refused { code: TOO_MUCH, message, data: None })));
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let params = params.and_then(Shallow::read).unwrap_or_default();
        let meta: Shallow = params.parse("_meta").unwrap_or_default();
        let redactor = self.lent.handle.link.redactor.clone();
        let company = Asking {
            said: self.said.clone(),
            questions: Arc::clone(&self.questions),
            who: self.who.clone(),
            offered: meta.parse("io.modelcontextprotocol/clientCapabilities").unwrap_or_default(),
            redactor: redactor.clone(),
        };
        let mut call = Call::new(method, params, self.lent.longest_call, stopped);
        call.beside = Some(Arc::new(company));
        call.relay = true;
        let (handle, connection) = (Arc::clone(&self.lent.handle), self.lent.connection.clone());
        let (said, token) = (self.said.clone(), meta.parse::<Value>("progressToken"));
        self.under_way.insert(id, stop);
        self.working.spawn(async move {
            let result = ask(&handle, &connection, call, token, &said).await;
            let result = result.map(|raw| redactor.raw(raw)).map_err(|error| redactor.error(error));
            // The other node takes what it takes: what is large waits until what was before is gone.
            said.say_in_turn(answer(id, result)).await;
            id
        });
    }
}

/// Asks the server, if the connection is still the one that is used.
async fn ask(
    handle: &Arc<Handle>,
    connection: &Connection,
    mut call: Call,
    token: Option<Value>,
    said: &Said,
) -> Result<Box<RawValue>, CallError> {
    // What nodes ask by themselves does not keep a server awake.
    let counts = !matches!(call.method.as_str(), "tools/list" | "ping" | "server/discover");
    let using = handle.try_enter_for(counts).filter(|using| using.connection.is(connection));
    let Some(mut using) = using else {
        return Err(CallError::Unheard("its process was ended meanwhile".to_owned()));
    };
    let redactor = &handle.link.redactor;
    let mut progress = token.map(|token| {
        let (told, heard) = mpsc::unbounded_channel();
        call.progress = Some(told);
        (token, heard)
    });
    let answer = {
        let mut asking = std::pin::pin!(connection.call(call));
        loop {
            let next = async {
                match &mut progress {
                    Some((token, heard)) => match heard.recv().await {
                        Some(params) => (token.clone(), params),
                        None => std::future::pending().await,
                    },
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                (token, params) = next => pass_on(said, redactor, &token, params),
                answer = &mut asking => break answer,
            }
        }
    };
    while let Some((token, params)) =
        progress.as_mut().and_then(|(token, heard)| Some((token.clone(), heard.try_recv().ok()?)))
    {
        pass_on(said, redactor, &token, params);
    }
    using.answered = answer.is_ok();
    drop(using);
    if matches!(answer, Err(CallError::Timeout(_) | CallError::Disconnected(_))) {
        handle.ask(super::link::Ask::Check);
    }
    answer
}

fn pass_on(said: &Said, redactor: &Redactor, token: &Value, params: Value) {
    let mut params = redactor.words(params);
    if let Some(params) = params.as_object_mut() {
        params.insert("progressToken".to_owned(), token.clone());
    }
    let line = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string();
    // What comes next says as much.
    let _ = said.say_if_it_fits(line);
}

/// An answer, in a line. What the server answered stays the text that it came as.
fn answer(id: u64, result: Result<Box<RawValue>, CallError>) -> String {
    match result {
        Ok(raw) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, one_line(&raw)),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": told(&error) }).to_string(),
    }
}

/// JSON has line ends between its words alone, where they mean nothing.
fn one_line(raw: &RawValue) -> String {
    if raw.get().contains('\n') { raw.get().replace(['\n', '\r'], " ") } else { raw.get().to_owned() }
}

fn all(questions: &Questions) -> MutexGuard<'_, Waiting> {
    questions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A question that waits, for as long as somebody wants to know.
struct Question {
    all: Questions,
    id: u64,
}

impl Drop for Question {
    fn drop(&mut self) {
        all(&self.all).remove(&self.id);
    }
}

/// Whoever asks at the other node: the server's questions go there.
struct Asking {
    said: Said,
    questions: Questions,
    who: String,
    offered: Map<String, Value>,
    redactor: Redactor,
}

impl Answers for Asking {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        self.offered.clone()
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        let (id, params) = (ASKED.fetch_add(1, Ordering::Relaxed), self.redactor.words(params));
        let (tell, answer) = oneshot::channel();
        all(&self.questions).insert(id, tell);
        let asked = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let (said, waiting) = (self.said.clone(), Question { all: Arc::clone(&self.questions), id });
        Some(Box::pin(async move {
            let _waiting = waiting;
            said.say_in_turn(asked.to_string()).await;
            answer.await.unwrap_or_else(|_| Err(Refusal::new(-32603, "nobody is there any more")))
        }))
    }

    fn told(&self, method: &str, params: &Value) {
        let params = self.redactor.words(params.clone());
        self.said.say(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    fn who(&self) -> &str {
        &self.who
    }
}

/// Why another node gets no connection.
#[derive(Debug, thiserror::Error)]
pub enum NotLent {
    /// This node has no process of it, or is about to end it.
    #[error("its process is not here")]
    NotHere,
    /// It would be another one: what it is started from was changed.
    #[error("it was changed a moment ago")]
    Changed,
    /// The server itself cannot be used.
    #[error(transparent)]
    Manager(#[from] ManagerError),
}
