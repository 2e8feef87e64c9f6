//! A session of a client that speaks a revision with sessions.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::client::{Client, Peer};
use super::exchange::Exchange;
use super::message::{Id, notification, question};
use super::{Ask, Fault, Service};
use crate::lasting::Lasting;

/// How many exchanges that are over are kept for a client that lost their end.
const KEPT: usize = 16;

/// How many questions to a client may wait for its answers.
const QUESTIONS: usize = 64;

type Reply = oneshot::Sender<Result<Value, Value>>;

pub(super) struct Session {
    id: String,
    /// Whose it is, and what was opened: nobody else may use it, and it leads nowhere else.
    owner: String,
    place: String,
    peer: Arc<Peer>,
    service: Arc<dyn Service>,
    unasked: Arc<Exchange>,
    next: AtomicU64,
    questions: Mutex<HashMap<u64, Reply>>,
    running: Mutex<HashMap<Id, Arc<Exchange>>>,
    kept: Mutex<VecDeque<Arc<Exchange>>>,
    used: Mutex<Instant>,
}

impl Session {
    pub(super) fn new(id: String, owner: &str, place: &str, peer: Peer, service: Arc<dyn Service>) -> Arc<Self> {
        Arc::new(Self {
            id,
            owner: owner.to_owned(),
            place: place.to_owned(),
            peer: Arc::new(peer),
            service,
            unasked: Exchange::new(0, None, None),
            next: AtomicU64::new(1),
            questions: Mutex::default(),
            running: Mutex::default(),
            kept: Mutex::default(),
            used: Mutex::new(Instant::now()),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn belongs_to(&self, owner: &str, place: &str) -> bool {
        self.owner == owner && self.place == place
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) fn service(&self) -> &Arc<dyn Service> {
        &self.service
    }

    /// What is said by itself.
    pub(super) fn unasked(&self) -> &Arc<Exchange> {
        &self.unasked
    }

    /// It is used now.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether nobody used it for so long. One with something under way is in use.
    pub(super) fn is_idle(&self, so_long: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.elapsed() >= so_long && self.running().is_empty()
    }

    /// How long nobody used it.
    pub(super) fn idle_for(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Says something that belongs to no request.
    pub(super) fn say(&self, method: &str, params: Option<&Value>) {
        self.unasked.say(notification(method, params));
    }

    /// Asks the client something on the way that belongs to this exchange.
    pub(super) fn ask(
        &self,
        exchange: &Exchange,
        method: &str,
        params: &Value,
    ) -> oneshot::Receiver<Result<Value, Value>> {
        let (reply, answer) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut questions = self.questions();
        // Those who asked may have lost interest.
        questions.retain(|_, reply| !reply.is_closed());
        if questions.len() < QUESTIONS {
            questions.insert(number, reply);
            drop(questions);
            exchange.say(question(number, method, params));
        }
        answer
    }

    /// The client answered a question. What nobody asked is not heard.
    pub(super) fn answered(&self, id: &Id, outcome: Result<Box<RawValue>, Value>) {
        let value = id.value();
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let Some(reply) = number.and_then(|number| self.questions().remove(&number)) else { return };
        let read = |raw: Box<RawValue>| serde_json::from_str(raw.get()).unwrap_or_default();
        let _ = reply.send(outcome.map(read));
    }

    /// Begins a request. Two of one number at the same time cannot be told apart.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: Id,
        method: String,
        params: Option<Box<RawValue>>,
        progress_token: Option<Value>,
    ) -> Result<(Arc<Exchange>, Lasting), Fault> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let exchange = Exchange::new(number, Some(id.clone()), progress_token);
        {
            let mut running = self.running();
            if running.contains_key(&id) {
                let message = format!("a request with the id {id} is under way in this session");
                return Err(Fault::new(super::message::INVALID_REQUEST, message).with_status(400));
            }
            running.insert(id.clone(), exchange.clone());
        }
        let client = Client::new(self.peer.clone(), exchange.clone(), Some(self.clone()));
        let answering = self.service.clone().request(Ask { method, params, client, arguments: None });
        let (session, guard) = (self.clone(), Answering(exchange.clone()));
        let work = Lasting::new(async move {
            let outcome = answering.await;
            session.running().remove(&id);
            session.touch();
            guard.0.answer(outcome);
        });
        Ok((exchange, work))
    }

    /// The client does not want an answer any more.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(exchange) = self.running().get(id) {
            exchange.stop();
        }
    }

    /// Keeps an exchange for a client that lost its end.
    pub(super) fn keep(&self, exchange: &Arc<Exchange>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            // One that goes on stays as long as any.
            let at = kept.iter().position(|exchange| exchange.is_over()).unwrap_or_default();
            kept.remove(at);
        }
        kept.push_back(exchange.clone());
    }

    /// One that was kept.
    pub(super) fn kept(&self, number: u64) -> Option<Arc<Exchange>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|exchange| exchange.number == number).cloned()
    }

    /// Ends everything that is under way.
    pub(super) fn end(&self) {
        self.questions().clear();
        for exchange in self.running().values() {
            exchange.stop();
        }
        self.unasked.end();
        self.service.left();
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<u64, Reply>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Id, Arc<Exchange>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers when it goes, if nobody did: whoever waits must not wait for ever because something panicked.
pub(super) struct Answering(pub Arc<Exchange>);

impl Drop for Answering {
    fn drop(&mut self) {
        let fault =
            || Fault::new(super::code::INTERNAL, "something went wrong here; the log says what").with_status(500);
        self.0.answer_if_none(fault);
    }
}
