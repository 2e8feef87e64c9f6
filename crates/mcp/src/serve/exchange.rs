//! One request and all that is said before its answer, in order. Who reads has a place in it, so a reader that broke off can be
//! followed by another one that goes on where it was.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;

use super::Fault;
use super::message::{Id, response};
use crate::lasting::Lasting;

/// How much of what was said is kept for a reader that comes back or is slow. The answer itself always is.
const MOST_EVENTS: usize = 1000;
const MOST_BYTES: usize = 4 << 20;

/// So long no question comes after the last one of several.
const MOMENT: Duration = Duration::from_millis(30);

/// So often is waited for more.
const MOST_MOMENTS: usize = 10;

/// What a request came to.
pub(super) type Outcome = Result<Box<RawValue>, Fault>;

/// A question to the client that waits for its answer.
pub(super) struct Question {
    pub key: String,
    pub method: String,
    pub params: Value,
    pub reply: oneshot::Sender<Result<Value, Value>>,
}

/// One request and what is said about it, or what is said without one.
pub(super) struct Exchange {
    /// Tells it apart from the others of its session.
    pub number: u64,
    state: Mutex<State>,
    news: Notify,
    /// Turns to true when nobody wants the answer any more.
    stop: watch::Sender<bool>,
    keys: AtomicU64,
}

#[derive(Default)]
struct State {
    id: Option<Id>,
    progress_token: Option<Value>,
    /// The place of the first that is kept.
    first: u64,
    said: VecDeque<Arc<str>>,
    bytes: usize,
    questions: Vec<Question>,
    outcome: Option<Arc<Outcome>>,
    over: bool,
}

/// What a reader finds next.
pub(super) enum Event {
    /// Something that was said, and its place.
    Said(u64, Arc<str>),
    /// The client must answer something first.
    Asked,
    /// The answer, and its place.
    Answer(u64, Arc<Outcome>),
    /// Nothing comes any more.
    End,
}

impl Exchange {
    pub(super) fn new(number: u64, id: Option<Id>, progress_token: Option<Value>) -> Arc<Self> {
        Arc::new(Self {
            number,
            state: Mutex::new(State { id, progress_token, ..State::default() }),
            news: Notify::new(),
            stop: watch::Sender::new(false),
            keys: AtomicU64::new(0),
        })
    }

    /// Says something before the answer. After it nothing is said.
    pub(super) fn say(&self, text: String) {
        let mut state = self.state();
        if state.outcome.is_some() || state.over {
            return;
        }
        state.bytes += text.len();
        state.said.push_back(text.into());
        while state.said.len() > 1 && (state.said.len() > MOST_EVENTS || state.bytes > MOST_BYTES) {
            let Some(gone) = state.said.pop_front() else { break };
            state.bytes -= gone.len();
            state.first += 1;
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// The answer is there.
    pub(super) fn answer(&self, outcome: Outcome) {
        let mut state = self.state();
        state.outcome.get_or_insert_with(|| Arc::new(outcome));
        drop(state);
        self.news.notify_waiters();
    }

    /// Answers with this if nobody has.
    pub(super) fn answer_if_none(&self, fault: impl FnOnce() -> Fault) {
        if self.state().outcome.is_none() {
            self.answer(Err(fault()));
        }
    }

    /// Nothing comes any more, answered or not.
    pub(super) fn end(&self) {
        self.state().over = true;
        self.news.notify_waiters();
    }

    /// Asks the client something that it has to answer by asking again.
    pub(super) fn ask(&self, method: &str, params: Value) -> oneshot::Receiver<Result<Value, Value>> {
        let (reply, answer) = oneshot::channel();
        let key = format!("kitbag-{}", self.keys.fetch_add(1, Ordering::Relaxed) + 1);
        self.state().questions.push(Question { key, method: method.to_owned(), params, reply });
        self.news.notify_waiters();
        answer
    }

    /// The questions that wait, for who passes them on.
    pub(super) fn questions<T>(&self, look: impl FnOnce(&mut Vec<Question>) -> T) -> T {
        let mut state = self.state();
        // Who asked may have lost interest.
        state.questions.retain(|question| !question.reply.is_closed());
        look(&mut state.questions)
    }

    /// Waits until no more questions come for a moment: a server that has several asks them one right after the other, and
    /// the client should get them together.
    pub(super) async fn gathered(&self) {
        let mut known = self.questions(|questions| questions.len());
        for _ in 0..MOST_MOMENTS {
            sleep(MOMENT).await;
            let now = self.questions(|questions| questions.len());
            if now == known || self.is_over() {
                return;
            }
            known = now;
        }
    }

    /// The same request was made again under another number.
    pub(super) fn continued(&self, id: Id, progress_token: Option<Value>) {
        let mut state = self.state();
        state.id = Some(id);
        state.progress_token = progress_token;
    }

    pub(super) fn id(&self) -> Option<Id> {
        self.state().id.clone()
    }

    pub(super) fn progress_token(&self) -> Option<Value> {
        self.state().progress_token.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.over || state.outcome.is_some()
    }

    /// Nobody wants the answer any more.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// What comes at this place or after it. Waits for it, and meanwhile does the work that it may come from.
    pub(super) async fn next(&self, place: u64, work: &mut Option<Lasting>) -> Event {
        let mut news: Pin<&mut Option<Notified<'_>>> = pin!(None);
        poll_fn(|context| {
            // First the work, while nobody listens: its news would wake the very task that does it.
            if let Some(doing) = work {
                news.set(None);
                if Pin::new(doing).poll(context).is_ready() {
                    *work = None;
                }
            }
            loop {
                if let Some(event) = self.peek(place) {
                    return Poll::Ready(event);
                }
                match news.as_mut().as_pin_mut() {
                    // What came since somebody listened is seen above.
                    Some(listening) => {
                        ready!(listening.poll(context));
                        news.set(None);
                    }
                    None => {
                        news.set(Some(self.news.notified()));
                        news.as_mut().as_pin_mut().map(Notified::enable);
                    }
                }
            }
        })
        .await
    }

    fn peek(&self, place: u64) -> Option<Event> {
        let mut state = self.state();
        let at = place.max(state.first);
        let index = usize::try_from(at - state.first).unwrap_or(usize::MAX);
        if let Some(text) = state.said.get(index) {
            return Some(Event::Said(at, text.clone()));
        }
        let end = state.first + state.said.len() as u64;
        match &state.outcome {
            Some(_) if place > end => return Some(Event::End),
            Some(outcome) => return Some(Event::Answer(end, outcome.clone())),
            None => {}
        }
        state.questions.retain(|question| !question.reply.is_closed());
        match (state.questions.is_empty(), state.over) {
            (false, false) => Some(Event::Asked),
            (_, true) => Some(Event::End),
            (true, false) => None,
        }
    }

    /// The answer as a message.
    pub(super) fn response(&self, outcome: &Outcome) -> String {
        response(self.state().id.as_ref(), outcome)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
