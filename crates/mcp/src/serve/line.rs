//! The older way over HTTP (`2024-11-05`): a stream that brings everything, answers too, and an address beside it where the client
//! posts. A line is such a stream with what is said on it; there is no session before the client has said `initialize`, and none
//! after the stream has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, watch};

use super::client::Voice;
use super::exchange::{Event, Exchange};
use super::front::{begin, greeting, hello, notified};
use super::message::{INVALID_REQUEST, Id, Incoming, response};
use super::reply::{KEEP_ALIVE, Reply};
use super::session::Session;
use super::{Fault, Front, Service, Visit, code};
use crate::lasting::Lasting;

/// How many messages wait for a client that reads slowly. Then those who say them wait.
const WAITING: usize = 16;

/// The parameter of the address to post to that names the line.
pub const LINE: &str = "sessionId";

/// A client's stream and what it belongs to.
struct Line {
    id: String,
    owner: String,
    place: String,
    service: Arc<dyn Service>,
    session: OnceLock<Arc<Session>>,
    out: mpsc::Sender<String>,
    over: watch::Sender<bool>,
}

/// All lines.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<HashMap<String, Arc<Line>>>>);

impl Lines {
    fn insert(&self, line: Arc<Line>, most: usize) -> Result<(), Fault> {
        let mut table = self.table();
        if table.values().filter(|other| other.owner == line.owner).count() >= most {
            let message = format!("there are {most} streams of this client already; end one");
            return Err(Fault::new(-32000, message).with_status(429));
        }
        table.insert(line.id.clone(), line);
        Ok(())
    }

    fn find(&self, id: &str, owner: &str) -> Option<Arc<Line>> {
        self.table().get(id).filter(|line| line.owner == owner).cloned()
    }

    /// Ends all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.table());
        all.into_values().for_each(|line| line.end());
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a client hears on its line. When nobody reads it any more, its session is over.
pub struct Heard {
    lines: Lines,
    line: Arc<Line>,
    said: mpsc::Receiver<String>,
    /// Where to post, which is said first.
    post: Option<String>,
}

impl Heard {
    /// The next piece of the stream.
    pub async fn next(&mut self) -> Option<String> {
        if let Some(post) = self.post.take() {
            return Some(format!("event: endpoint\ndata: {post}\n\n"));
        }
        let mut over = self.line.over.subscribe();
        tokio::select! {
            said = self.said.recv() => said.map(|text| format!("event: message\ndata: {text}\n\n")),
            _ = over.wait_for(|over| *over) => None,
            () = tokio::time::sleep(KEEP_ALIVE) => Some(": \n\n".to_owned()),
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.lines.table().remove(&self.line.id);
        self.line.end();
    }
}

impl Line {
    fn end(&self) {
        self.over.send_replace(true);
        match self.session.get() {
            Some(session) => session.end(),
            None => self.service.left(),
        }
    }

    /// Says the answer to a request that needs nobody.
    fn answer(self: &Arc<Self>, id: Id, outcome: Result<Box<RawValue>, Fault>) {
        let line = self.clone();
        tokio::spawn(async move { line.say(response(Some(&id), &outcome)).await });
    }

    async fn say(&self, text: String) {
        let mut over = self.over.subscribe();
        tokio::select! {
            _ = self.out.send(text) => {}
            _ = over.wait_for(|over| *over) => {}
        }
    }

    /// Says all that is said in an exchange, in order.
    fn carry(self: &Arc<Self>, exchange: Arc<Exchange>) {
        let line = self.clone();
        tokio::spawn(async move {
            let mut place = 0;
            loop {
                match exchange.next(place, None, &mut None).await {
                    Event::Said(at, text) => {
                        line.say(text.to_string()).await;
                        place = at + 1;
                    }
                    Event::Answer(_, outcome) => return line.say(exchange.response(&outcome)).await,
                    // Within a session a question is something that is said.
                    Event::Asked | Event::End => return,
                }
            }
        });
    }

    /// The client says what it is, once.
    fn begin(self: &Arc<Self>, params: Option<&RawValue>) -> Result<Box<RawValue>, Fault> {
        let peer = greeting(params)?;
        let session = Session::new(self.id.clone(), &self.owner, &self.place, peer, self.service.clone());
        if self.session.set(session.clone()).is_err() {
            return Err(Fault::new(INVALID_REQUEST, "this session has begun already"));
        }
        if *self.over.borrow() {
            session.end();
        }
        self.carry(session.unasked().clone());
        self.service.clone().joined(Voice(Arc::downgrade(&session)));
        hello(&session)
    }

    fn request(self: &Arc<Self>, id: Id, method: String, params: Option<Box<RawValue>>) {
        match (method.as_str(), self.session.get()) {
            ("initialize", _) => self.answer(id, self.begin(params.as_deref())),
            ("ping", None) => {
                let pong = to_raw_value(&json!({}));
                self.answer(id, pong.map_err(|error| Fault::new(code::INTERNAL, error.to_string())));
            }
            (_, None) => self.answer(id, Err(Fault::new(-32000, "a session begins with `initialize`"))),
            (_, Some(session)) => match begin(session, id.clone(), method, params) {
                Ok((exchange, work)) => {
                    work.into_iter().for_each(Lasting::detach);
                    self.carry(exchange);
                }
                Err(fault) => self.answer(id, Err(fault)),
            },
        }
    }
}

impl Front {
    /// A client of the older way opens its stream. What it says goes to `post`, with the line's name behind it.
    pub async fn open_sse<F>(&self, visit: &Visit<'_>, post: &str, open: impl FnOnce() -> F) -> Reply
    where
        F: Future<Output = Result<Arc<dyn Service>, Fault>>,
    {
        let made = async {
            let (out, said) = mpsc::channel(WAITING);
            let line = Arc::new(Line {
                id: self.name()?,
                owner: visit.owner.to_owned(),
                place: visit.place.to_owned(),
                service: open().await?,
                session: OnceLock::new(),
                out,
                over: watch::Sender::new(false),
            });
            self.lines.insert(line.clone(), self.limits.sessions)?;
            let post = Some(format!("{post}?{LINE}={}", line.id));
            Ok::<_, Fault>(Heard { lines: self.lines.clone(), line, said, post })
        };
        match made.await {
            Ok(heard) => Reply::heard(heard),
            Err(fault) => Reply::fault(None, Fault { status: fault.status.or(Some(400)), ..fault }),
        }
    }

    /// A message of a client of the older way. What comes of it is said on its stream.
    pub fn message(&self, visit: &Visit<'_>, line: &str, body: &[u8]) -> Reply {
        let Some(line) = self.lines.find(line, visit.owner) else {
            // One of somebody else and one that is over are the same.
            let fault = Fault::new(-32001, "there is no such session; open a new stream");
            return Reply::fault(None, fault.with_status(404));
        };
        match (Incoming::read(body), line.session.get()) {
            (Err(fault), _) => return Reply::fault(None, fault),
            (Ok(Incoming::Request { id, method, params }), _) => line.request(id, method, params),
            (Ok(Incoming::Response { id, outcome }), Some(session)) => session.answered(&id, outcome),
            (Ok(Incoming::Notification { method, params }), Some(session)) => notified(session, method, params),
            // Before it has begun there is nothing to hear of and nothing was asked.
            (Ok(_), None) => {}
        }
        Reply::empty(202)
    }
}
